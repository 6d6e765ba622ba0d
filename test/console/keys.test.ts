/** Access: keys are made, shown once, replaced and revoked, by whoever may; and recorded with the name of who did it. */
import t, { type Test } from 'tap';
import { hashApiKey } from '../../src/job/apikey.ts';
import { parseAuditRecord } from '../../src/manifest/auditRecord.ts';
import type { Store } from '../../src/store/store.ts';
import { sampleEndpoint } from '../store/samples.ts';
import { KEY_FIELDS, openTestConsole } from './testConsole.ts';

async function actsOf(store: Store) {
  const entries = await store.trail.entries(0, 100);
  return entries.map(({ text }) => parseAuditRecord(text)).filter((one) => one?.act !== 'console.login');
}

async function makeOne(t: Test) {
  const test = await openTestConsole(t);
  const made = await test.submit('/access/keys', KEY_FIELDS);
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
  t.match(again, { status: 410, text: /already been shown/ });
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
  const link = `successors are still valid:</p><ul><li><a href="/access/keys/${next.id}"`;
  const revoked = await test.submit(`${at}/revoke`, { sure: 'yes' });
  t.match(revoked.shown, /The key is revoked\. A successor is still valid\./);
  t.ok(revoked.shown.includes(link), 'where to');
  t.match(revoked.shown, /Complete the revocation.*name="successors"/s);
  t.notMatch(revoked.shown, /id="rotate"/);
  const read = await test.get(at, test.signedIn('auditor'));
  t.ok(read.text.includes(link));
  t.notMatch(read.text, /method="post" action="\/access/);
  const both = await test.submit(`${at}/revoke`, { sure: 'yes', successors: 'yes' });
  t.notMatch(both.shown, /id="revoke"|successor is still valid/);
  t.ok((await store.credentials.all()).every(({ revokedAt }) => revokedAt !== undefined));
  await store.webhooks.endpoints.add(sampleEndpoint({ clientId: 'billing' }), 5, null);
  t.match(
    (await test.get(at, test.signedIn())).text,
    /Complete the revocation/,
    'as if it had stopped half way',
  );
  const rest = await test.submit(`${at}/revoke`, { sure: 'yes' });
  t.notMatch(rest.shown, /id="revoke"/);
  t.ok((await store.webhooks.endpoints.all('billing')).every(({ disabled }) => disabled !== undefined));
});

t.test('a new key is not lost if its answer is', async (t) => {
  const test = await openTestConsole(t);
  const { cookie, token } = test.signedIn();
  const get = async (path: string) => (await test.get(path, { cookie })).text;
  for (let n = 0; n < 2; n += 1) await test.post('/access/keys', { ...KEY_FIELDS, token }, { cookie });
  const keys = await test.store.credentials.all();
  const waits = /2 new keys and secrets have not been shown yet.*href="\/access\/new"/;
  for (const path of ['/access', `/access/keys/${keys[0]?.id}`]) t.match(await get(path), waits, path);
  t.notMatch((await test.get('/access', test.signedIn())).text, waits, 'nor in another session');
  const shown = Array.from((await get('/access/new')).matchAll(/>(seal_\w+)</g), ([, key]) => key);
  t.same(
    new Set(shown.map((key) => hashApiKey(key ?? ''))),
    new Set(keys.map(({ keyHash }) => keyHash)),
    'both are shown',
  );
  t.notMatch(await get('/access'), /not been shown yet/);
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
  const fields = { ...KEY_FIELDS, overlap: '0', sure: 'yes' };
  for (const path of paths) {
    for (const role of ['auditor', 'operator'] as const)
      t.match(
        await test.submit(path, fields, role),
        { status: 403, text: /requires the role administrator/ },
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
      await test.submit('/access/keys', { ...KEY_FIELDS, ...change }),
      { status },
      JSON.stringify(change).slice(0, 60),
    );
  for (const id of ['key_x', 'new-key'])
    t.match(await test.submit(`/access/keys/${id}/revoke`, fields), { status: 409 }, id);
  t.match(await test.get('/access/keys/key_x', auditor), { status: 404, text: /no such key/ });
  t.strictSame(await store.credentials.all(), before, 'nothing was changed');
});
