/** Who may change something where the kernel does not say who asks, as behind the units' PrivateUsers=. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pino } from 'pino';
import t from 'tap';
import { type AdminParts, createAdminApp } from '../../src/admin/routes.ts';
import { systemClock } from '../../src/base/clock.ts';
import { OperatorError } from '../../src/base/errors.ts';
import { hashApiKey, newApiKey } from '../../src/job/apikey.ts';
import type { Actor } from '../../src/manifest/auditRecord.ts';
import type { Credential, Scope } from '../../src/store/credentialStore.ts';
import { TimestampUnavailable } from '../../src/tsa/unavailable.ts';
import { ask } from '../support/admin.ts';

const ENVIRONMENT = 'test';
const credentials = new Map<string, Credential>();
const actors: Actor[] = [];

function issue(id: string, scopes: Scope[]): string {
  const key = newApiKey(ENVIRONMENT);
  const keyHash = hashApiKey(key);
  const owner = { clientId: 'monitor', organization: 'acme' };
  credentials.set(keyHash, { keyHash, id, ...owner, scopes, createdAt: 0, since: 0 });
  return key;
}

const parts = {
  status: { read: async () => ({ partitions: { members: [{ name: 'west/log' }] } }), quotas: () => ({}) },
  drills: {
    putBack: async (name: string, actor: Actor) => {
      actors.push(actor);
      return name;
    },
  },
  auth: {
    store: { credentials: { get: async (keyHash: string) => credentials.get(keyHash) } },
    environment: ENVIRONMENT,
    organizations: () => ({}),
    clock: systemClock,
  },
  forAnyone: false,
  clock: systemClock,
  logger: pino({ level: 'silent' }),
  onFatal: (error: unknown) => t.fail(String(error)),
} as unknown as AdminParts;

t.test('changes over TCP need an API key with the scope admin', async (t) => {
  // Of the other end of a TCP connection the kernel knows no user either.
  const server = createServer(createAdminApp(parts)).listen(0, '127.0.0.1');
  t.teardown(() => server.close());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const putBack = async (key?: string) => {
    const headers: Record<string, string> = key === undefined ? {} : { Authorization: `Bearer ${key}` };
    const answer = await ask({ host: '127.0.0.1', port }, '/partitions/west%2Flog/in', 'POST', headers);
    return answer.json<{ name?: string; error?: { code: string } }>();
  };
  t.match(await putBack(), { error: { code: 'authentication_required' } });
  t.match(await putBack(issue('key_1', ['jobs:create'])), { error: { code: 'insufficient_scope' } });
  t.match(await putBack(issue('key_2', ['admin:read'])), { error: { code: 'insufficient_scope' } });
  t.strictSame(actors, []);
  t.match(await putBack(issue('key_3', ['admin'])), { name: 'west/log' });
  t.strictSame(
    actors,
    [{ via: 'administration', client: 'monitor', key: 'key_3' }],
    'and the trail names it',
  );
});

t.test('a fault inside the daemon is logged, and not told as a fault of the request', async (t) => {
  const lines: string[] = [];
  const logger = pino({ level: 'error' }, { write: (line) => void lines.push(line) });
  const read = async () => {
    throw new OperatorError('the token is away');
  };
  const server = createServer(createAdminApp({ ...parts, logger, status: { ...parts.status, read } }));
  server.listen(0, '127.0.0.1');
  t.teardown(() => server.close());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const answer = await ask({ host: '127.0.0.1', port }, '/status');
  t.equal(answer.status, 500);
  t.match(answer.json(), { error: { code: 'internal_error' } });
  t.match(lines, [/unexpected error/], 'the log has it');
  t.match(lines, [/the token is away/]);
});

t.test('a key that may read changes nothing', async (t) => {
  const server = createServer(createAdminApp(parts)).listen(0, '127.0.0.1');
  t.teardown(() => server.close());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const at = { host: '127.0.0.1', port };
  const { paths } = (await ask(at, '/openapi.json')).json<{ paths: Record<string, object> }>();
  const changes = Object.entries(paths).flatMap(([path, methods]) => ('post' in methods ? [path] : []));
  t.ok(changes.length > 6, changes.join(', '));
  const Authorization = `Bearer ${issue('key_6', ['admin:read'])}`;
  for (const path of changes) {
    const answer = await ask(at, path, 'POST', { Authorization });
    t.match(answer.json(), { error: { code: 'insufficient_scope' } }, path);
  }
});

t.test('a digest is stamped by a named authority, or by the first that can', async (t) => {
  const asked: unknown[] = [];
  const stamp = { token: 'dG9rZW4=', certificates: [], genTime: 0, notAfter: 86_400_000 };
  const timestamping = {
    status: () => ({ authorities: [{ name: 'built-in' }, { name: 'acme' }] }),
    renew: async (imprint: { algorithm: string; digest: Uint8Array }, authority?: string) => {
      asked.push([imprint.algorithm, imprint.digest.length, authority]);
      if (authority === 'acme') throw new TimestampUnavailable('authority_unreachable', 'answered nothing');
      return { ...stamp, authority: 'built-in' };
    },
  };
  const server = createServer(createAdminApp({ ...parts, timestamping } as unknown as AdminParts));
  server.listen(0, '127.0.0.1');
  t.teardown(() => server.close());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const post = async (query: string, key = issue('key_4', ['admin'])) =>
    (
      await ask({ host: '127.0.0.1', port }, `/timestamp?${query}`, 'POST', {
        Authorization: `Bearer ${key}`,
      })
    ).json();
  const digest = (bytes: number) => `digest=${'ab'.repeat(bytes)}`;
  t.strictSame(await post(`${digest(64)}&authority=built-in`), {
    authority: 'built-in',
    token: 'dG9rZW4=',
    certificates: [],
    gen_time: '1970-01-01T00:00:00.000Z',
    not_after: '1970-01-02T00:00:00.000Z',
  });
  t.match(await post(`${digest(48)}&algorithm=sha384&authority=built-in`), { authority: 'built-in' });
  t.match(await post(`${digest(64)}&authority=acme`), {
    error: {
      code: 'timestamp_unavailable',
      message: 'No time-stamp (authority_unreachable): answered nothing.',
    },
  });
  t.strictSame(asked, [
    ['sha512', 64, 'built-in'],
    ['sha384', 48, 'built-in'],
    ['sha512', 64, 'acme'],
  ]);
  for (const [query, code] of [
    [`${digest(48)}&authority=acme`, 'invalid_parameter'],
    [`digest=${'xy'.repeat(64)}&authority=acme`, 'invalid_parameter'],
    [`${digest(20)}&algorithm=sha1`, 'invalid_parameter'],
    [digest(64), 'missing_parameter'],
    [`${digest(64)}&authority=nobody`, 'not_found'],
    [`${digest(64)}&time=0`, 'unknown_parameter'],
  ] as const)
    t.match(await post(query), { error: { code } }, query);
  t.match(await post(digest(64), issue('key_5', ['admin:read'])), { error: { code: 'insufficient_scope' } });
  t.equal(asked.length, 3);
});
