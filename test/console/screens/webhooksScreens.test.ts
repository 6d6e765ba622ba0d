/** Webhook endpoints and their messages in a browser. */
import t from 'tap';
import { putCredentials, sampleCredential } from '../../store/samples.ts';
import { HOSTILE } from '../../support/receipts.ts';
import { addEndpoint, EVERY } from '../sampleEndpoints.ts';
import { openTestConsole } from '../testConsole.ts';
import { look, tabTo } from './everyScreen.ts';

t.test('the pages can be used by keyboard, and fit every screen', async (t) => {
  const test = await openTestConsole(t);
  const page = await test.browse(t, 'operator');
  const show = (path: string) => page.navigate(`${test.url}${path}`);
  await show('/access/webhooks');
  await look(t, page, 'no endpoint');
  const url = `https://hooks.example.com/${'x'.repeat(400)}?<script>`;
  const { id } = await addEndpoint(test, {
    clientId: HOSTILE,
    url,
    description: HOSTILE,
    dead: 3,
    waiting: 1,
  });
  await putCredentials(test.store, [sampleCredential({ clientId: HOSTILE })]);
  for (let n = 0; n < 205; n += 1) await addEndpoint(test, { clientId: `client-${n}` });
  await show('/access/webhooks');
  await look(t, page, 'hostile endpoints');
  t.match(await page.evaluate(`document.querySelector('#webhooks').textContent`), /Showing 200 of 206/);
  await show(`/access/webhooks/${id}?list=waiting`);
  await look(t, page, 'messages that wait');
  await page.emulate(1280, 'light');
  await show(`/access/webhooks/${id}`);
  await tabTo(t, page, 'message');
  await page.press('Space');
  await tabTo(t, page, 'Resend selected');
  await page.press('Enter');
  await page.until(`document.querySelector('[role=status]')?.textContent === 'One message is queued again.'`);
  await look(t, page, 'a message that is sent again');
  t.equal((await test.store.webhooks.outbox.pending(id, EVERY)).length, 2);
  t.equal(await page.evaluate(`document.querySelectorAll('main script').length`), 0);
  await page.navigate(test.link('administrator'));
  await page.evaluate(`document.querySelector('main button').click()`);
  await page.until(`location.pathname === '/' && document.readyState === 'complete'`);
  await show(`/access/webhooks/${id}`);
  await look(t, page, 'the forms of an endpoint');
  await page.evaluate(`document.querySelector('#rotate button').click()`);
  await page.until(`document.querySelector('h1').textContent === 'The new secret'`);
  await look(t, page, 'a new secret');
  await show('/access/webhooks?client=x');
  await look(t, page, 'the form of a new endpoint');
  t.strictSame(page.complaints, []);
});
