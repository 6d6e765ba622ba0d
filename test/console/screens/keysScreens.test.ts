/** API keys and sessions in a browser. */
import t from 'tap';
import { putCredentials, sampleCredential, sampleEndpoint } from '../../store/samples.ts';
import { HOSTILE } from '../../support/receipts.ts';
import { KEY_FIELDS, openTestConsole } from '../testConsole.ts';
import { look, tabTo } from './everyScreen.ts';

t.test('a key is made by keyboard, and the pages fit every screen', async (t) => {
  const test = await openTestConsole(t);
  const page = await test.browse(t);
  await page.emulate(1280, 'light');
  await page.navigate(`${test.url}/access`);
  await tabTo(t, page, 'organization');
  await page.evaluate(
    `document.querySelector('#client').value = 'billing'; document.activeElement.value = 'acme'`,
  );
  await tabTo(t, page, 'Issue a key');
  await page.press('Enter');
  await page.until(`location.pathname === '/access/new' && document.readyState === 'complete'`);
  t.match(await page.evaluate(`document.querySelector('#secret').value`), /^seal_test_|^seal_sandbox_/);
  await look(t, page, 'a new key');
  await page.evaluate(`document.querySelector('#new-secret a').click()`);
  await page.until(`location.pathname.startsWith('/access/keys/') && document.readyState === 'complete'`);
  await look(t, page, 'a key');
  await page.emulate(1280, 'light');
  await tabTo(t, page, 'sure');
  await page.press('Space');
  await tabTo(t, page, 'Revoke the key');
  await page.press('Enter');
  await page.until(`document.querySelector('#revoke') === null && document.readyState === 'complete'`);
  await look(t, page, 'a revoked key');

  const hostile = [
    sampleCredential({ id: 'key_1', clientId: HOSTILE.slice(0, 63), organization: HOSTILE }),
    sampleCredential({
      id: 'key_2',
      certificateName: HOSTILE,
      boundTo: 'ab'.repeat(32),
      replacedBy: 'key_1',
    }),
  ];
  const many = Array.from({ length: 250 }, (_, n) => sampleCredential({ id: `key_many_${n}`, expiresAt: 1 }));
  await putCredentials(test.store, [...hostile, ...many]);
  await test.store.webhooks.endpoints.add(
    sampleEndpoint({ url: `https://hooks.example.com/${'x'.repeat(400)}?<script>` }),
    5,
    null,
  );
  await page.navigate(`${test.url}/access`);
  await look(t, page, 'hostile names');
  t.match(await page.evaluate(`document.querySelector('#keys').textContent`), /Showing 200 of 253 keys/);
  t.equal(await page.evaluate(`document.querySelectorAll('main script').length`), 0);
  await page.navigate(`${test.url}/access/keys/key_2`);
  await look(t, page, 'a hostile key');
  t.strictSame(page.complaints, []);
});

t.test('keys that wait to be shown are readable on every screen', async (t) => {
  const test = await openTestConsole(t);
  const page = await test.browse(t);
  await page.navigate(`${test.url}/access`);
  // As where the answer is lost: the browser does not follow it.
  const send = `fetch('/access/keys', {
    method: 'POST',
    redirect: 'manual',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({ ...${JSON.stringify(KEY_FIELDS)}, token: document.querySelector('[name=token]').value }).toString(),
  }).then(({ type }) => type)`;
  for (let n = 0; n < 2; n += 1) t.equal(await page.evaluate(send), 'opaqueredirect');
  await page.navigate(`${test.url}/access`);
  t.match(await page.evaluate(`document.querySelector('#unshown').textContent`), /2 new keys and secrets/);
  await look(t, page, 'two keys that wait');
  await page.navigate(`${test.url}/access/new`);
  t.equal(await page.evaluate(`document.querySelectorAll('textarea.secret').length`), 2);
  await look(t, page, 'two new keys');
  test.signedIn('operator', HOSTILE.slice(0, 60));
  await page.navigate(`${test.url}/access/sessions`);
  await look(t, page, 'sessions');
  t.strictSame(page.complaints, []);
});
