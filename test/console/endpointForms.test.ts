/** Access: an administrator adds, changes and removes webhook endpoints, and replaces their secrets. */
import t from 'tap';
import type { NewEndpoint } from '../../src/store/webhookStore.ts';
import { putCredentials, sampleCredential, sampleEndpoint } from '../store/samples.ts';
import { openTestConsole, type TestConsole } from './testConsole.ts';

const LIST = '/access/webhooks';
const URL_ALLOWED = 'https://hooks.example.com/in';
const ACTOR = { via: 'console', person: 'Berta', role: 'administrator' };

async function addSample({ store }: TestConsole, fields: Partial<NewEndpoint> = {}): Promise<NewEndpoint> {
  const endpoint = sampleEndpoint(fields);
  await store.webhooks.endpoints.add(endpoint, 16, null);
  return endpoint;
}

t.test('an endpoint is added, and its secret is shown once', async (t) => {
  const test = await openTestConsole(t);
  const { endpoints } = test.store.webhooks;
  await putCredentials(test.store, [sampleCredential()]);
  const { cookie, token } = test.signedIn('administrator', 'Berta');
  const form = `client=billing&url=${encodeURIComponent(URL_ALLOWED)}&description=A+%3Cb%3E&event=job.failed`;
  const headers = { cookie, 'sec-fetch-site': 'same-origin' };
  const type = { 'content-type': 'application/x-www-form-urlencoded' };
  const send = (body: string) => test.send('POST', LIST, { ...headers, ...type }, `${body}&token=${token}`);
  t.match(await send(form), { status: 303, headers: { location: '/access/new' } });
  const [added] = await endpoints.all();
  t.match(added, { clientId: 'billing', url: URL_ALLOWED, description: 'A <b>', events: ['job.failed'] });
  t.match((await test.get(LIST, { cookie })).text, /A secret was created and has not been shown yet/);
  const { text } = await test.get('/access/new', { cookie });
  t.ok(text.includes(`>${added?.secrets[0]?.secret}</textarea>`));
  t.match(text, new RegExp(`The new secret.*href="/access/webhooks/${added?.id}"`, 's'));
  t.match(await test.get('/access/new', { cookie }), { status: 410 });
  const object = { endpoint: added?.id, client: 'billing', origin: 'https://hooks.example.com' };
  t.match((await test.acts()).slice(1), [{ act: 'webhook.add', actor: ACTOR, object }]);

  const bad: [string, number, RegExp][] = [
    [form.replace('billing', 'nobody'), 409, /client nobody has no API key/],
    [form.replace('hooks.', 'evil.'), 400, /webhooks\.allow/],
    [form.replace('https', 'ftp'), 400, /only http and https can be connected to/],
    [form.replace('&event=job.failed', ''), 400, /events must be a list/],
    [form.replace('job.failed', 'job.x'), 400, /events must be a list/],
    [form.replace('A+', 'x'.repeat(300)), 400, /description must be a text/],
  ];
  for (const [body, status, why] of bad)
    t.match(await send(body), { status, text: why, headers: {} }, String(why));
  for (let n = 1; n < 16; n += 1) t.match(await send(form), { status: 303 });
  t.match(await send(form), { status: 409, text: /The client has 16 webhook endpoints/ });
  t.equal((await endpoints.all()).length, 16);
  t.equal((await test.acts()).length, 1 + 16, 'what was refused is no record');
});

t.test('an endpoint is changed, gets a new secret, and is removed', async (t) => {
  const test = await openTestConsole(t);
  const { endpoints } = test.store.webhooks;
  const { id, secrets } = await addSample(test, { url: 'https://hooks.example.com/old' });
  const at = `${LIST}/${id}`;
  const fields = { url: URL_ALLOWED, event: 'job.completed', description: 'ours' };
  const seen = async () => ({ ...fields, revision: String((await endpoints.get(id))?.revision) });
  const former = await seen();
  const changed = await test.submit(`${at}/change`, former);
  t.match(changed, { status: 303, location: at, shown: /was changed.*hooks\.<wbr>.*ours/s });
  t.match(await endpoints.get(id), { url: URL_ALLOWED, events: ['job.completed'], description: 'ours' });
  t.match(await test.submit(`${at}/change`, former), { status: 303 }, 'it is so already');
  const other = { ...former, description: 'theirs' };
  t.match(await test.submit(`${at}/change`, other), {
    status: 409,
    text: /changed since this page was loaded/,
  });
  t.match(await test.submit(`${at}/change`, { ...(await seen()), url: 'https://evil.example/' }), {
    status: 400,
    text: /webhooks\.allow/,
  });

  t.match(await test.submit(`${at}/rotate`, { overlap: '2' }), { status: 400 }, 'no choice of the form');
  const rotated = await test.submit(`${at}/rotate`, { overlap: '1' });
  const [, secret] = /<textarea[^>]*>(whsec_[^<]+)</.exec(rotated.shown) ?? [];
  const now = await endpoints.get(id);
  t.match(now?.secrets, [{ secret }, { secret: secrets[0]?.secret }]);
  t.ok((now?.secrets[1]?.expiresAt ?? 0) > Date.now() + 3_500_000);

  t.match(await test.submit(`${at}/remove`, {}), { status: 400, text: /remove it with all its messages/ });
  const removed = await test.submit(`${at}/remove`, { sure: 'yes' });
  t.match(removed, { status: 303, location: LIST, shown: /The endpoint was removed/ });
  t.strictSame(await endpoints.all(), []);
  for (const act of ['change', 'rotate', 'remove'])
    t.match(
      await test.submit(`${at}/${act}`, { ...fields, sure: 'yes', overlap: '0' }),
      { status: 404, text: /no such endpoint/ },
      act,
    );
  const object = { endpoint: id, origin: 'https://hooks.example.com' };
  t.match(
    await test.acts(),
    ['webhook.change', 'webhook.rotate', 'webhook.remove'].map((act) => ({ act, actor: ACTOR, object })),
  );
});

t.test('only an administrator may add, change or remove an endpoint', async (t) => {
  const test = await openTestConsole(t);
  const { id } = await addSample(test);
  const before = await test.store.webhooks.endpoints.all();
  const fields = { url: URL_ALLOWED, event: 'job.failed', sure: 'yes', overlap: '0', client: 'billing' };
  const paths = [LIST, ...['change', 'rotate', 'remove'].map((act) => `${LIST}/${id}/${act}`)];
  for (const path of paths) {
    for (const role of ['auditor', 'operator'] as const)
      t.match(await test.submit(path, fields, role), { status: 403, text: /Your role/ }, `${path}, ${role}`);
    const { cookie } = test.signedIn();
    t.match(await test.post(path, fields, { cookie }), { status: 403 }, `${path}, no token`);
  }
  for (const path of [LIST, `${LIST}/${id}`])
    t.notMatch((await test.get(path, test.signedIn('operator'))).text, /id="(add|change|rotate|remove)"/);
  t.strictSame(await test.store.webhooks.endpoints.all(), before);
  t.strictSame(await test.acts(), []);
});
