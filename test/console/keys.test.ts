/** Access: keys are made, shown once, replaced and revoked, by whoever may; and recorded with the name of who did it. */
import t, { type Test } from 'tap';
import { hashApiKey } from '../../src/job/apikey.ts';
import { parseAuditRecord } from '../../src/manifest/auditRecord.ts';
import type { Store } from '../../src/store/store.ts';
import { sampleCredential, sampleEndpoint } from '../store/samples.ts';
import { HOSTILE } from '../support/receipts.ts';
import { look, tabTo } from './screens/everyScreen.ts';
import { openTestConsole } from './testConsole.ts';

const FORM = { client: 'billing', organization: 'acme', scope: 'jobs:create', lifetime: '90' };

async function actsOf(store: Store) {
  const entries = await store.trail.entries(0, 100);
  return entries.map(({ text }) => parseAuditRecord(text)).filter((one) => one?.act !== 'console.login');
}

async function makeOne(t: Test) {
  const test = await openTestConsole(t);
  const made = await test.submit('/access/keys', FORM);
  const [, apiKey = ''] = /id="secret"[^>]*>(seal_\w+)</.exec(made.shown) ?? [];
  const [credential] = await test.store.credentials.all();
  if (credential === undefined) throw new Error('no key was made');
  return { test, made, apiKey, credential };
}

t.test('a key is shown once, and its creation is on record', async (t) => {
  const { test, made, apiKey, credential } = await makeOne(t);
  const { store } = test;
  t.match(made, { status: 303, location: '/access/new' });
  t.equal(credential.keyHash, hashApiKey(apiKey), 'the store has its digest');
  t.match(credential, { clientId: 'billing', organization: 'acme', scopes: ['jobs:create'] });
  t.equal((credential.expiresAt ?? 0) - credential.createdAt, 90 * 86_400_000);
  t.match(await actsOf(store), [
    {
      act: 'key.issue',
      actor: { via: 'console', person: 'Berta', role: 'administrator' },
      object: { key: credential.id, client: 'billing' },
      outcome: 'done',
    },
  ]);
  const again = await test.get('/access/new', { cookie: made.cookie });
  t.match(again, { status: 410, text: /shown already/ });
  t.notMatch(again.text, apiKey);
  const other = test.signedIn();
  t.match(await test.get('/access/new', other), { status: 410 }, 'nor in another session');
});

t.test('a key is replaced, and revoked with its successors and the endpoints of its client', async (t) => {
  const { test, credential } = await makeOne(t);
  const { store } = test;
  await store.webhooks.endpoints.add(sampleEndpoint({ clientId: 'billing' }), 5, null);
  const at = `/access/keys/${credential.id}`;
  const replaced = await test.submit(`${at}/rotate`, { overlap: '24' });
  t.match(replaced, { status: 303, shown: /seal_\w+</ });
  const again = await test.submit(`${at}/rotate`, { overlap: '24' });
  t.match(again, { status: 409, text: /was already replaced.*This request changed nothing, but/s });
  t.match(await test.submit(`${at}/revoke`, {}), { status: 400 }, 'not without being sure');
  const revoked = await test.submit(`${at}/revoke`, { sure: 'yes', successors: 'yes' });
  t.match(revoked, { status: 303, location: at, shown: /The key is revoked\.<.*hooks.*pdfseal.*disabled/s });
  t.notMatch(revoked.shown, /id="revoke"/, 'nothing is left');
  t.ok((await store.credentials.all()).every(({ revokedAt }) => revokedAt !== undefined));
  t.strictSame(
    (await actsOf(store)).map((one) => [one?.act, one?.actor.via]),
    ['key.issue', 'key.rotate', 'key.revoke', 'key.revoke', 'webhook.disable'].map((act) => [act, 'console']),
  );
});

t.test('what a revoked key leaves behind is named, and can be ended too', async (t) => {
  const { test, credential } = await makeOne(t);
  const { store } = test;
  const at = `/access/keys/${credential.id}`;
  await test.submit(`${at}/rotate`, { overlap: '24' });
  const [next] = (await store.credentials.all()).filter(({ id }) => id !== credential.id);
  if (next === undefined) throw new Error('no key was made');
  const link = `replace it:</p><ul><li><a href="/access/keys/${next.id}"`;
  const revoked = await test.submit(`${at}/revoke`, { sure: 'yes' });
  t.match(revoked.shown, /The key is revoked\. A key that replaced it is still valid\./);
  t.ok(revoked.shown.includes(link), 'where to');
  t.match(revoked.shown, /End what is left of the key.*name="successors"/s);
  t.notMatch(revoked.shown, /id="rotate"/);
  const read = await test.get(at, test.signedIn('auditor'));
  t.ok(read.text.includes(link));
  t.notMatch(read.text, /method="post" action="\/access/);
  const both = await test.submit(`${at}/revoke`, { sure: 'yes', successors: 'yes' });
  t.notMatch(both.shown, /id="revoke"|replaced it is still valid/);
  t.ok((await store.credentials.all()).every(({ revokedAt }) => revokedAt !== undefined));
  await store.webhooks.endpoints.add(sampleEndpoint({ clientId: 'billing' }), 5, null);
  t.match((await test.get(at, test.signedIn())).text, /End what is left/, 'as if it had stopped half way');
  const rest = await test.submit(`${at}/revoke`, { sure: 'yes' });
  t.notMatch(rest.shown, /id="revoke"/);
  t.ok((await store.webhooks.endpoints.all('billing')).every(({ disabled }) => disabled !== undefined));
});

t.test('a new key is not lost if its answer is', async (t) => {
  const test = await openTestConsole(t);
  const { cookie, token } = test.signedIn();
  const get = async (path: string) => (await test.get(path, { cookie })).text;
  for (let n = 0; n < 2; n += 1) await test.post('/access/keys', { ...FORM, token }, { cookie });
  const keys = await test.store.credentials.all();
  const waits = /2 keys and secrets were made and not shown yet.*href="\/access\/new"/;
  for (const path of ['/access', `/access/keys/${keys[0]?.id}`]) t.match(await get(path), waits, path);
  t.notMatch((await test.get('/access', test.signedIn())).text, waits, 'nor in another session');
  const shown = Array.from((await get('/access/new')).matchAll(/>(seal_\w+)</g), ([, key]) => key);
  t.same(
    new Set(shown.map((key) => hashApiKey(key ?? ''))),
    new Set(keys.map(({ keyHash }) => keyHash)),
    'both are shown',
  );
  t.notMatch(await get('/access'), /not shown yet/);
  t.match(await test.get('/access/new', { cookie }), { status: 410 });
});

t.test('a key form without the role, the token or valid fields is refused', async (t) => {
  const { test, credential } = await makeOne(t);
  const { store } = test;
  const before = await store.credentials.all();
  const paths = [
    '/access/keys',
    `/access/keys/${credential.id}/rotate`,
    `/access/keys/${credential.id}/revoke`,
  ];
  const fields = { ...FORM, overlap: '0', sure: 'yes' };
  for (const path of paths) {
    for (const role of ['auditor', 'operator'] as const)
      t.match(
        await test.submit(path, fields, role),
        { status: 403, text: /need the role administrator/ },
        path,
      );
    const { cookie } = test.signedIn();
    t.match(await test.post(path, fields, { cookie }), { status: 403, text: /out of date/ }, 'no token');
  }
  const auditor = test.signedIn('auditor');
  for (const path of ['/access', `/access/keys/${credential.id}`]) {
    const { text } = await test.get(path, auditor);
    t.match(text, /Only an administrator/);
    t.notMatch(text, /method="post" action="\/access/);
  }
  t.match(await test.get('/access/new', auditor), { status: 403 });
  const bad: [Record<string, string>, number][] = [
    [{ client: '<script>' }, 400],
    [{ client: 'x'.repeat(512) }, 400],
    [{ client: '\u202egnillib' }, 400],
    [{ organization: '' }, 400],
    [{ organization: 'another' }, 409],
    [{ scope: 'everything' }, 400],
    [{ lifetime: '1000000' }, 400],
    [{ lifetime: 'toString' }, 400],
  ];
  for (const [change, status] of bad)
    t.match(
      await test.submit('/access/keys', { ...FORM, ...change }),
      { status },
      JSON.stringify(change).slice(0, 60),
    );
  for (const id of ['key_x', 'new-key'])
    t.match(await test.submit(`/access/keys/${id}/revoke`, fields), { status: 409 }, id);
  t.match(await test.get('/access/keys/key_x', auditor), { status: 404, text: /no such key/ });
  t.strictSame(await store.credentials.all(), before, 'nothing was changed');
});

t.test('a key is made by keyboard, and the pages fit every screen', async (t) => {
  const test = await openTestConsole(t);
  const page = await test.browse(t);
  await page.emulate(1280, 'light');
  await page.navigate(`${test.url}/access`);
  await tabTo(t, page, 'organization');
  await page.evaluate(
    `document.querySelector('#client').value = 'billing'; document.activeElement.value = 'acme'`,
  );
  await tabTo(t, page, 'Make a key');
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
  await test.store.credentials.put([...hostile, ...many], null);
  await test.store.webhooks.endpoints.add(
    sampleEndpoint({ url: `https://hooks.example.com/${'x'.repeat(400)}?<script>` }),
    5,
    null,
  );
  await page.navigate(`${test.url}/access`);
  await look(t, page, 'hostile names');
  t.match(await page.evaluate(`document.querySelector('#keys').textContent`), /200 of 253 keys are shown/);
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
    body: new URLSearchParams({ ...${JSON.stringify(FORM)}, token: document.querySelector('[name=token]').value }).toString(),
  }).then(({ type }) => type)`;
  for (let n = 0; n < 2; n += 1) t.equal(await page.evaluate(send), 'opaqueredirect');
  await page.navigate(`${test.url}/access`);
  t.match(
    await page.evaluate(`document.querySelector('#unshown').textContent`),
    /2 keys and secrets were made/,
  );
  await look(t, page, 'two keys that wait');
  await page.navigate(`${test.url}/access/new`);
  t.equal(await page.evaluate(`document.querySelectorAll('textarea.secret').length`), 2);
  await look(t, page, 'two new keys');
  test.signedIn('operator', HOSTILE.slice(0, 60));
  await page.navigate(`${test.url}/access/sessions`);
  await look(t, page, 'sessions');
  t.strictSame(page.complaints, []);
});
