/** `POST /v1/keys/rotate`: a client replaces its own key. */
import t from 'tap';
import { toRfc3339 } from '../../src/base/clock.ts';
import { apiKeyProblems } from '../../src/cli/store/recordCheck.ts';
import { hashApiKey, isApiKey, successorApiKey } from '../../src/job/apikey.ts';
import { Limits } from '../../src/limits/limits.ts';
import { actOfProcess } from '../../src/store/acts.ts';
import { auditedKey, isLiveAt, rotateKey } from '../../src/store/apiKeys.ts';
import { putCredentials } from '../store/samples.ts';
import { ENVIRONMENT, openTestApp, type TestApp } from '../support/app.ts';
import { NO_LIMITS } from '../support/limits.ts';

const HOUR_MS = 3_600_000;

interface Rotated {
  api_key: string;
  id: string;
  client: string;
  scopes: string[];
  expires_at?: string;
  replaces: string;
  replaced_expires_at: string;
  'x5t#S256'?: string;
}

const post = (client: TestApp['client'], body: unknown = {}) =>
  client.request('POST', '/v1/keys/rotate', {
    body: JSON.stringify(body),
    headers: { 'Content-Type': 'application/json' },
  });

/** Issues a key with its record, as the command does. */
async function issue(app: TestApp, overrides: Parameters<TestApp['issue']>[0] = {}): Promise<string> {
  const apiKey = await app.issue(overrides);
  const credential = await app.store.credentials.get(hashApiKey(apiKey));
  if (!credential) throw new Error('no credential');
  await app.store.credentials.change(() => ({
    credentials: [credential],
    act: actOfProcess('command', 'key.issue', auditedKey(credential)),
  }));
  return apiKey;
}

async function rotate(app: TestApp, key: string, body?: unknown) {
  const answer = await post(app.client.as(key), body);
  return {
    status: answer.status,
    headers: answer.headers,
    body: answer.json<Rotated & { error: { code: string; message: string } }>(),
  };
}

const isLive = async (app: TestApp, key: string) => (await app.client.as(key).get('/v1/jobs')).status === 200;

t.test('a rotation gives a new key, and the old one ends after the overlap', async (t) => {
  let monotonic = 0;
  const app = await openTestApp(t, { monotonicMs: () => monotonic });
  const old = await issue(app, { scopes: ['jobs:read'] });
  const first = await rotate(app, old, { overlap_seconds: 3600 });
  t.equal(first.status, 200);
  t.equal(first.headers.get('Cache-Control'), 'no-store');
  t.ok(isApiKey(first.body.api_key, ENVIRONMENT));
  t.match(first.body, { client: 'acme-web', scopes: ['jobs:read'], replaces: `key_${old.slice(-6)}` });
  const left = Date.parse(first.body.replaced_expires_at) - Date.now();
  t.ok(left > HOUR_MS - 60_000 && left <= HOUR_MS, 'the old key ends after the overlap');
  t.strictSame([await isLive(app, old), await isLive(app, first.body.api_key)], [true, true]);

  const again = await rotate(app, old, { overlap_seconds: 2_592_000 });
  t.strictSame(again.body, first.body, 'a repeat gets the same answer, and no longer an overlap');
  const all = await Promise.all(Array.from({ length: 8 }, () => rotate(app, old)));
  t.strictSame(new Set(all.map(({ body }) => body.api_key)), new Set([first.body.api_key]));

  t.match(await rotate(app, first.body.api_key), {
    status: 409,
    body: { error: { code: 'key_not_rotatable', message: /less than an hour ago/ } },
  });
  monotonic += HOUR_MS;
  const second = await rotate(app, first.body.api_key);
  t.equal(second.status, 200);
  t.match((await rotate(app, old)).body.error, { code: 'key_not_rotatable', message: /already replaced/ });
  const { trail } = app.store;
  const records = (await trail.entries(0, 100)).map(({ text }) => JSON.parse(text));
  const rotations = records.filter(({ act }) => act === 'key.rotate');
  t.equal(rotations.length, 2, 'a record for each act, none for a repeat');
  t.match(rotations[0], {
    actor: { via: 'api', client: 'acme-web', key: `key_${old.slice(-6)}` },
    object: { key: first.body.id, replaces: `key_${old.slice(-6)}` },
  });
  t.notMatch(JSON.stringify(records), first.body.api_key);
  const problems = await apiKeyProblems(app.store);
  t.strictSame(
    problems.filter((text) => !text.includes('no audit record issued it')),
    [],
  );
});

t.test('simultaneous rotations make one key', async (t) => {
  const app = await openTestApp(t);
  const old = await app.issue();
  const all = await Promise.all(Array.from({ length: 6 }, () => rotate(app, old)));
  t.strictSame(
    all.map(({ status }) => status),
    all.map(() => 200),
  );
  t.equal(new Set(all.map(({ body }) => body.api_key)).size, 1);
});

t.test('the new key lives as long as the old one would have', async (t) => {
  const app = await openTestApp(t);
  const expiresAt = Date.now() + 10 * 60_000;
  const boundTo = 'ab'.repeat(32);
  const plain = await app.issue({ expiresAt });
  const { body } = await rotate(app, plain);
  t.equal(body.expires_at, toRfc3339(expiresAt), 'no key lives longer by rotation');
  t.equal(body.replaced_expires_at, toRfc3339(expiresAt));
  const bound = await app.issue({ boundTo });
  t.match(await rotate(app, bound), { status: 401, body: { error: { code: 'invalid_api_key' } } });
});

t.test('a wrong body, an ended key and a replaced key are refused', async (t) => {
  const app = await openTestApp(t);
  const key = await app.issue();
  const bodies: [unknown, string][] = [
    [{ overlap_seconds: 59 }, 'invalid_parameter'],
    [{ overlap_seconds: 2_592_001 }, 'invalid_parameter'],
    [{ overlap_seconds: '60' }, 'invalid_parameter'],
    [{ overlap_seconds: 60, client: 'other' }, 'unknown_parameter'],
    [[], 'malformed_json'],
  ];
  for (const [body, code] of bodies)
    t.match(await rotate(app, key, body), { status: 400, body: { error: { code } } });
  t.equal((await post(app.client.as(undefined))).status, 401);
  const gone = await app.issue({ revokedAt: Date.now() });
  t.equal((await rotate(app, gone)).status, 401);
  const replaced = await app.issue({ replacedBy: 'key_0000000000000000' });
  t.match(await rotate(app, replaced), { status: 409, body: { error: { code: 'key_not_rotatable' } } });
  const { body } = await rotate(app, key);
  const next = await app.store.credentials.get(hashApiKey(body.api_key));
  if (!next) throw new Error('no successor');
  await putCredentials(app.store, [{ ...next, revokedAt: Date.now() }]);
  t.match(await rotate(app, key), { status: 409, body: { error: { message: /has ended/ } } });
});

t.test('a client has a bounded number of keys and of requests', async (t) => {
  let monotonic = 0;
  const app = await openTestApp(t, { monotonicMs: () => monotonic });
  const overlap = { overlap_seconds: 2_592_000 };
  let { body } = await rotate(app, await app.issue({ clientId: 'busy' }), overlap);
  for (let n = 0; n < 30; n++) {
    monotonic += HOUR_MS;
    ({ body } = await rotate(app, body.api_key, overlap));
  }
  monotonic += HOUR_MS;
  t.match(await rotate(app, body.api_key), {
    status: 409,
    body: { error: { message: /has 32 valid API keys/ } },
  });

  const policies = { ...NO_LIMITS, rate: { requests: 2, windowMs: HOUR_MS } };
  const limited = await openTestApp(t, { app: { limits: new Limits(policies, [], Date.now) } });
  const statuses = [];
  const key = await limited.issue();
  for (let n = 0; n < 3; n++) statuses.push((await rotate(limited, key)).status);
  t.strictSame(statuses, [200, 200, 429]);
});

t.test('a repeat reads one key, and ended keys are forgotten', async (t) => {
  let monotonic = 0;
  const app = await openTestApp(t, { monotonicMs: () => monotonic });
  const { credentials } = app.store;
  const old = await app.issue({ clientId: 'busy' });
  const { body: first } = await rotate(app, old, { overlap_seconds: 60 });
  const changes = t.capture(credentials, 'change', credentials.change);
  t.equal((await rotate(app, old)).body.api_key, first.api_key);
  t.equal((await rotate(app, first.api_key)).status, 409);
  t.strictSame(changes(), [], 'no look at all keys');
  let body: Rotated = first;
  for (let n = 0; n < 3; n++) {
    monotonic += 8 * 24 * HOUR_MS;
    ({ body } = await rotate(app, body.api_key, { overlap_seconds: 60 }));
  }
  t.strictSame(
    (await credentials.all())
      .filter(({ clientId }) => clientId === 'busy')
      .map(({ id, replacedBy }) => [id, replacedBy])
      .toSorted(),
    [
      [`key_${old.slice(-6)}`, body.replaces],
      [body.replaces, body.id],
      [body.id, undefined],
    ].toSorted(),
    'the key of the administrator stays, and names the oldest that is left',
  );
});

t.test('a key ends on time even if the clock was set back', async (t) => {
  let monotonic = 0;
  const app = await openTestApp(t, { monotonicMs: () => monotonic });
  const short = await app.issue({
    since: app.store.serviceTime.now(),
    expiresAt: Date.now() + HOUR_MS,
  });
  t.ok(await isLive(app, short));
  monotonic += HOUR_MS + 60_000;
  t.ok(await isLive(app, short), 'a command can be a minute behind');
  monotonic += 2 * 60_000;
  t.notOk(await isLive(app, short), 'the date says that it is valid, service time says that it has ended');
});

t.test('a replaced key ends on time even if the date stands still', async (t) => {
  let monotonic = 0;
  const app = await openTestApp(t, { monotonicMs: () => monotonic });
  const old = await issue(app);
  t.equal((await rotate(app, old, { overlap_seconds: 3600 })).status, 200);
  monotonic += HOUR_MS + 60_000;
  t.ok(await isLive(app, old));
  monotonic += 2 * 60_000;
  t.notOk(await isLive(app, old));
});

t.test('what makes the new key from the old one is erased when the old one ends', async (t) => {
  let monotonic = 0;
  const app = await openTestApp(t, { monotonicMs: () => monotonic });
  const { credentials, serviceTime } = app.store;
  for (const [lifeMs, lastsMs] of [
    [2 * HOUR_MS, HOUR_MS],
    [HOUR_MS / 2, HOUR_MS / 2],
  ] as const) {
    const old = await issue(app, { since: serviceTime.now(), expiresAt: Date.now() + lifeMs });
    const { body } = await rotate(app, old, { overlap_seconds: 3600 });
    const keyHash = hashApiKey(old);
    monotonic += lastsMs - 120_000;
    t.equal(await credentials.sweepSalts(serviceTime.now(), 10), 0);
    t.equal((await rotate(app, old)).body.api_key, body.api_key, 'until then, a repeat gets its answer');
    monotonic += 120_000;
    t.equal(await credentials.sweepSalts(serviceTime.now(), 10), 1);
    t.equal(await credentials.saltOf(keyHash), undefined);
  }
});

t.test('an overlap of zero ends the old key at once, whatever the clock says', async (t) => {
  const app = await openTestApp(t);
  const old = await app.store.credentials.get(hashApiKey(await issue(app)));
  if (!old) throw new Error('no credential');
  const at = { createdAt: Date.now() + HOUR_MS, since: app.store.serviceTime.now() };
  const apiKey = `seal_${ENVIRONMENT}_${'b'.repeat(36)}`;
  const { replaced } = rotateKey(old, apiKey, { at, expiresAt: undefined, overlapMs: 0 });
  t.notOk(isLiveAt(replaced, Date.now()), 'the clock of the command is ahead of that of the daemon');
});

t.test('the new key does not follow from the old key alone', async (t) => {
  const [salt, other] = [new Uint8Array(32).fill(1), new Uint8Array(32).fill(2)];
  const old = `seal_${ENVIRONMENT}_${'a'.repeat(36)}`;
  const next = successorApiKey(old, salt, ENVIRONMENT);
  t.ok(isApiKey(next, ENVIRONMENT));
  t.equal(successorApiKey(old, salt, ENVIRONMENT), next);
  t.not(successorApiKey(old, other, ENVIRONMENT), next);
  t.not(successorApiKey(`${old}b`, salt, ENVIRONMENT), next);
});
