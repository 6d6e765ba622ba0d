/** Access: webhook endpoints and their messages; who may send them again, and who may enable and disable an endpoint. */
import t from 'tap';
import type { Role } from '../../src/base/people.ts';
import { putCredentials, sampleCredential } from '../store/samples.ts';
import { addEndpoint, EVERY } from './sampleEndpoints.ts';
import { openTestConsole } from './testConsole.ts';

function messagesIn(text: string): string[] {
  return Array.from(text.matchAll(/name="message" value="(msg_\w+)"/g), ([, id = '']) => id);
}

t.test('endpoints are listed, those with trouble first', async (t) => {
  const test = await openTestConsole(t);
  const well = await addEndpoint(test, { clientId: 'archive', url: 'https://archive.example/in?key=s3cret' });
  const bad = await addEndpoint(test, { dead: 2, waiting: 1 });
  await putCredentials(test.store, [sampleCredential()]);
  const auditor = test.signedIn('auditor');
  const { text } = await test.get('/access/webhooks', auditor);
  t.ok(text.indexOf(bad.id) < text.indexOf(well.id));
  t.match(text, />failing<.*>1<.*>2<.*>enabled</s);
  t.match(text, /archive\..*…/s, 'the path of an address can be its secret');
  t.notMatch(text, /s3cret|whsec_/);
  t.match((await test.get('/access/webhooks', test.signedIn())).text, /s3cret/, 'an administrator sees it');
  t.notMatch((await test.get('/access/webhooks?client=billing', auditor)).text, well.id);
  t.match((await test.get('/access/webhooks?client=x', auditor)).text, /No webhook endpoints/);
  const page = await test.get(`/access/webhooks/${bad.id}`, auditor);
  t.match(page.text, /Revision.*http_<wbr>503/s);
  t.notMatch(page.text, /whsec_|method="post" action="\/access/);
  for (const id of ['we_x', '__proto__'])
    t.match(await test.get(`/access/webhooks/${id}`, auditor), { status: 404, text: /no such endpoint/ });
});

t.test('a failing endpoint is listed even among many others', async (t) => {
  const test = await openTestConsole(t);
  for (let n = 0; n < 205; n += 1) await addEndpoint(test, { clientId: `client-${n}` });
  const { endpoints } = test.store.webhooks;
  const last = (await endpoints.all()).at(-1);
  if (last === undefined) throw new Error('no endpoint');
  await endpoints.change(last.id, (one) => ({ ...one, disabled: { at: 1, reason: 'gone' } }), null);
  const { text } = await test.get('/access/webhooks', test.signedIn('auditor'));
  t.match(text, /Showing 200 of 205/);
  const listed = Array.from(text.matchAll(/href="\/access\/webhooks\/(we_\w+)"/g), ([, id]) => id);
  t.equal(listed[0], last.id);
});

t.test('messages are shown in pages, and those that were given up can be sent again', async (t) => {
  const test = await openTestConsole(t);
  const { id } = await addEndpoint(test, { dead: 120 });
  const { outbox } = test.store.webhooks;
  const at = `/access/webhooks/${id}`;
  const operator = test.signedIn('operator');
  const seen: string[] = [];
  for (let path = `${at}?list=dead`; path !== ''; ) {
    const { text } = await test.get(path, operator);
    seen.push(...messagesIn(text));
    const next = /href="([^"]*after=[^"#]*)[^"]*">More/.exec(text)?.[1] ?? '';
    path = next.replaceAll('&amp;', '&');
  }
  const letters = await outbox.deadLetters(id, EVERY);
  t.strictSame(
    seen,
    letters.map(({ webhookId }) => webhookId),
  );
  const [first = '', second = ''] = seen;
  t.match(await test.submit(`${at}/replay`, {}, 'operator'), { status: 400, text: /No message is selected/ });
  t.match(await test.submit(`${at}/replay`, { message: '<script>' }, 'operator'), { status: 400 });
  t.match(await test.submit(`${at}/replay`, { all: 'yes' }, 'operator'), { status: 400 }, 'not unless sure');
  const one = await test.submit(`${at}/replay`, { message: first }, 'operator');
  t.match(one, { status: 303, location: at, shown: /role="status".*One message is queued again/s });
  t.notMatch((await test.get(at, { cookie: one.cookie })).text, /is queued again/, 'it is said once');
  t.match(await outbox.pending(id, EVERY), [{ webhookId: first }]);
  t.match(await outbox.deadLetters(id, { limit: 1 }), [{ webhookId: second }]);
  const { cookie, token } = test.signedIn('operator', 'Berta');
  const headers = {
    cookie,
    'sec-fetch-site': 'same-origin',
    'content-type': 'application/x-www-form-urlencoded',
  };
  await test.send('POST', `${at}/replay`, headers, `token=${token}&message=${first}&message=${second}`);
  t.match(
    (await test.get(at, { cookie })).text,
    /One message is queued again\. Not queued: 1 of the selected messages/,
  );
  const all = await test.submit(`${at}/replay`, { all: 'yes', sure: 'yes' }, 'operator');
  t.match(all.shown, /118 messages are queued again.*No dead letters|118 messages are queued/s);
  t.equal((await outbox.pending(id, EVERY)).length, 120);
  t.match((await test.get(`${at}?list=dead`, operator)).text, /No dead letters/);
  for (const fields of [{ all: 'yes', sure: 'yes' }, { message: first }] as Record<string, string>[])
    t.match(await test.submit(`${at}/replay`, fields, 'operator'), {
      status: 409,
      text: /No message was queued again.*no longer dead letters/s,
    });
  const actor = { via: 'console', person: 'Berta', role: 'operator' };
  t.match(
    (await test.acts()).filter((act) => act?.act.startsWith('webhook.')),
    [
      { act: 'webhook.replay', actor, object: { endpoint: id, client: 'billing', chosen: 1 } },
      { act: 'webhook.replay', actor, object: { chosen: 2 } },
      { act: 'webhook.replay', actor, object: { chosen: 'all' } },
    ],
  );
});

t.test('an endpoint is disabled and enabled', async (t) => {
  const test = await openTestConsole(t);
  const { id } = await addEndpoint(test, { dead: 1 });
  const { endpoints } = test.store.webhooks;
  const at = `/access/webhooks/${id}`;
  const seen = async () => ({ sure: 'yes', revision: String((await endpoints.get(id))?.revision) });
  t.match(await test.submit(`${at}/disable`, {}), { status: 400, text: /gets no messages/ });
  const ended = await test.submit(`${at}/disable`, await seen());
  t.match(ended, { status: 303, shown: /The endpoint is disabled.*Disabled since.*Enable the endpoint/s });
  t.match(ended.shown, /Enable it to resend them/);
  t.notMatch(ended.shown, /Resend all/);
  const once = await endpoints.get(id);
  t.match(once, { disabled: { reason: 'request' } });
  t.match(await test.submit(`${at}/disable`, await seen()), { status: 303, shown: /is disabled/ });
  t.strictSame(await endpoints.get(id), once, 'it is so already: nothing is changed, and nothing recorded');
  const late = await test.submit(`${at}/replay`, { all: 'yes', sure: 'yes' }); // from a page of before
  t.match(late.shown, /One message is queued again\. Nothing is sent until the endpoint is enabled/);
  t.match(await test.submit(`${at}/enable`, await seen()), {
    status: 303,
    shown: /is enabled.*Disable the endpoint/s,
  });
  t.equal((await endpoints.get(id))?.disabled, undefined);
  t.match(await test.submit(`${at}/enable`, await seen()), { status: 303, shown: /is enabled/ });
  const stale = await seen();
  await endpoints.change(id, (one) => ({ ...one, description: 'x' }), null);
  const refused = { status: 409, text: /has changed since this page was loaded.*Nothing was changed/s };
  t.match(await test.submit(`${at}/disable`, stale), refused);
  const actor = { via: 'console', person: 'Berta', role: 'administrator' };
  t.match(await test.acts(), [
    { act: 'webhook.disable', actor, object: { endpoint: id, origin: 'https://hooks.example.com' } },
    { act: 'webhook.replay', actor },
    { act: 'webhook.enable', actor },
  ]);
  await endpoints.change(id, (one) => ({ ...one, disabled: { at: 1, reason: 'gone' } }), null);
  t.match((await test.get('/access/webhooks', test.signedIn('auditor'))).text, /answered 410 Gone/);
});

t.test('changes without the role for them or the token are refused', async (t) => {
  const test = await openTestConsole(t);
  const { id } = await addEndpoint(test, { dead: 1 });
  const before = await test.store.webhooks.endpoints.get(id);
  const fields = { sure: 'yes', all: 'yes' };
  const refused: [string, Role][] = [
    ['enable', 'auditor'],
    ['enable', 'operator'],
    ['disable', 'auditor'],
    ['disable', 'operator'],
    ['replay', 'auditor'],
  ];
  for (const [path, role] of refused)
    t.match(
      await test.submit(`/access/webhooks/${id}/${path}`, fields, role),
      { status: 403, text: /Your role does not allow this/ },
      `${path}, ${role}`,
    );
  for (const path of ['enable', 'disable', 'replay']) {
    const { cookie } = test.signedIn();
    t.match(
      await test.post(`/access/webhooks/${id}/${path}`, fields, { cookie }),
      { status: 403 },
      'no token',
    );
    t.match(await test.submit(`/access/webhooks/we_x/${path}`, fields), { status: 404 }, 'no endpoint');
  }
  t.strictSame(await test.store.webhooks.endpoints.get(id), before, 'nothing was changed');
  t.strictSame(await test.acts(), []);
});
