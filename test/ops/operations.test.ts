/** Every operation of the table, through every face. */
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import * as z from 'zod';
import { type AdminParts, createAdminApp } from '../../src/admin/routes.ts';
import { openAdminListener } from '../../src/admin/server.ts';
import { systemClock } from '../../src/base/clock.ts';
import { commandAt } from '../../src/cli/help.ts';
import { wholeProgram } from '../../src/cli/program.ts';
import { hashApiKey, newApiKey } from '../../src/job/apikey.ts';
import { parseAuditRecord } from '../../src/manifest/auditRecord.ts';
import { bareOf, isRequired } from '../../src/ops/operation.ts';
import { ADMIN_OPERATIONS } from '../../src/ops/operationTable.ts';
import type { Scope } from '../../src/store/credentialStore.ts';
import { openStoreAt } from '../../src/store/engines.ts';
import { ask } from '../support/admin.ts';
import { freePort } from '../support/freePort.ts';
import { openSandbox, type Sandbox } from '../support/sandbox.ts';

const logger = pino({ level: 'silent' });

/** The administration without parts: whatever is refused before an operation runs is refused here. */
async function openEmpty(t: Test, { isFront = false } = {}) {
  const keys = new Map<string, { scopes: Scope[] }>();
  const key = (...scopes: Scope[]) => {
    const apiKey = newApiKey('test');
    const owner = { clientId: 'ops', organization: 'acme', createdAt: 0, since: 0 };
    keys.set(hashApiKey(apiKey), { ...owner, scopes });
    return { Authorization: `Bearer ${apiKey}` };
  };
  const acts: unknown[] = [];
  const parts = {
    store: {
      trail: { append: async (act: unknown) => acts.push(act) },
      ...(isFront && { sealing: {} }),
    },
    auth: {
      store: { credentials: { get: async (hash: string) => keys.get(hash) } },
      environment: 'test',
      organizations: () => ({}),
      clock: systemClock,
    },
    clock: systemClock,
    logger,
    onFatal: (error: unknown) => t.fail(String(error)),
  } as unknown as AdminParts;
  const port = { host: '127.0.0.1', port: await freePort() };
  const folder = mkdtempSync(join(tmpdir(), 'pdfseal-ops-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const socket = { path: join(folder, 'admin.sock') };
  for (const [at, forAnyone] of [
    [port, true],
    [socket, false],
  ] as const) {
    const listener = await openAdminListener(createAdminApp({ ...parts, forAnyone }), at, logger);
    t.teardown(() => listener.close());
  }
  return { port, socket, key, acts };
}

type Stated = Pick<(typeof ADMIN_OPERATIONS)[number], 'route' | 'fields'>;
type Route = Stated['route'];

/** Whether a field is neither in the query nor a member of a JSON body. */
function isElsewhere(field: string, { path, sends }: Route): boolean {
  return path.includes(`{${field}}`) || (typeof sends === 'object' && sends.text === field);
}

/** A text that this schema accepts. */
function sampleOf(schema: z.ZodType): string {
  const bare = bareOf(schema);
  if (bare instanceof z.ZodEnum) return String(bare.options[0]);
  return bare.safeParse('sample').success ? 'sample' : 'https://acme.example/';
}

/** The fields in the query or in a JSON body, those of them that are required, and values for these. */
function sampleFor({ route, fields }: Stated) {
  const sent = Object.entries(fields).filter(([field]) => !isElsewhere(field, route));
  const required = sent.filter(([, field]) => isRequired(field));
  return {
    sent,
    required,
    valid: Object.fromEntries(required.map(([field, { schema }]) => [field, sampleOf(schema)])),
  };
}

function queryOf(given: Record<string, string | number>) {
  return new URLSearchParams(
    Object.entries(given).map(([name, value]): [string, string] => [name, `${value}`]),
  );
}

/** Sends a request, and returns its refusal. */
async function send(socketPath: string, route: Route, given: Record<string, string | number>) {
  const json = route.sends === 'json' ? JSON.stringify(given) : undefined;
  const path = json === undefined ? `${pathOf(route)}?${queryOf(given)}` : pathOf(route);
  const method = route.method.toUpperCase();
  const headers = { ...(json !== undefined && { 'Content-Type': 'application/json' }) };
  const text = await new Promise<string>((resolve, reject) => {
    const asked = request({ socketPath, method, path, headers, agent: false }, async (answer) => {
      const chunks: Buffer[] = [];
      for await (const chunk of answer) chunks.push(chunk);
      resolve(Buffer.concat(chunks).toString());
    });
    asked.once('error', reject).end(json);
  });
  return JSON.parse(text) as { error: { code: string; message: string } };
}

/** The error codes of an operation in `openapi.json`. */
async function describedCodes(at: { host: string; port: number }) {
  const { paths } = (await ask(at, '/openapi.json')).json<{
    paths: Record<string, Record<string, { responses: Record<string, DescribedFailure> }>>;
  }>();
  return ({ path, method }: Route) => {
    const answers = Object.values(paths[path]?.[method]?.responses ?? {});
    return answers.flatMap(
      ({ content }) => content['application/json'].schema.properties?.error.properties.code.enum ?? [],
    );
  };
}

interface DescribedFailure {
  content: {
    'application/json': { schema: { properties?: { error: { properties: { code: { enum: string[] } } } } } };
  };
}

/** The path of a route with something in each of its places. */
function pathOf({ path }: { path: string }): string {
  return path.replaceAll(/\{\w+\}/g, 'x');
}

t.test('every operation refuses the wrong role, before it looks at a field', async (t) => {
  const { port, key, acts } = await openEmpty(t);
  const allowed: Record<string, Scope[]> = { reader: [], administrator: ['admin:read'], owner: ['admin'] };
  for (const { name, role, route } of ADMIN_OPERATIONS) {
    const method = route.method.toUpperCase();
    const none = await ask(port, pathOf(route), method);
    t.ok([401, 403].includes(none.status), `${name}: without a key`);
    const wrong = await ask(port, pathOf(route), method, key('jobs:create', ...(allowed[role] ?? [])));
    t.match(wrong.json(), { error: { code: 'insufficient_scope' } }, `${name}: with too small a scope`);
  }
  t.strictSame(acts, [], 'and nothing is on the trail');
});

t.test('every operation names a field that it does not know, and one with a wrong value', async (t) => {
  const { port, socket, acts } = await openEmpty(t);
  const codes = await describedCodes(port);
  for (const { name, route, fields } of ADMIN_OPERATIONS) {
    const described = codes(route);
    const { required, valid, sent } = sampleFor({ route, fields });
    const refusalOf = async (given: Record<string, string | number>) => {
      const { error } = await send(socket.path, route, given);
      t.ok(described.includes(error.code), `${name}: ${error.code} is described`);
      return error;
    };
    if (route.method === 'post')
      t.match(await refusalOf({ ...valid, no_such_field: '1' }), { code: 'unknown_parameter' }, name);
    const canLack = required.length > 0 || route.failures?.includes('missing_parameter') === true;
    t.equal(described.includes('missing_parameter'), canLack, `${name}: missing_parameter is described`);
    for (const [field] of required) {
      const { [field]: _, ...others } = valid;
      const missing = { code: 'missing_parameter', message: `${field} is required. Add it.` };
      t.match(await refusalOf(others), missing, `${name} ${field}`);
    }
    for (const [field, { schema }] of sent) {
      const wrong = ['\0', ...(route.sends === 'json' ? [1.5] : [])];
      for (const value of wrong.filter((one) => !bareOf(schema).safeParse(one).success)) {
        const { code, message } = await refusalOf({ ...valid, [field]: value });
        t.equal(code, 'invalid_parameter', `${name} ${field}: ${message}`);
        t.ok(message.startsWith(`${field} must be `), `${name}: ${message}`);
      }
    }
  }
  t.strictSame(acts, [], 'and nothing is on the trail');
});

t.test('openapi.json says what a front lacks, and which operations can find the disk full', async (t) => {
  const { port, socket, acts } = await openEmpty(t, { isFront: true });
  const codes = await describedCodes(port);
  for (const one of ADMIN_OPERATIONS) {
    const { name, route, needs } = one;
    const described = codes(route);
    t.equal(new Set(described).size, described.length, `${name}: no code twice`);
    const writes = one.acts.length > 0 || name === 'webhooks.test';
    t.equal(described.includes('storage_full'), writes, `${name}: storage_full`);
    if (needs !== 'store' && name !== 'canary.seal') continue;
    const { error } = await send(socket.path, route, sampleFor(one).valid);
    t.match(error, { code: 'not_found', message: /^This is a front/ }, name);
    t.ok(described.includes('not_found'), `${name}: not_found is described`);
  }
  t.strictSame(acts, [], 'and nothing is on the trail');
});

t.test('every operation is stated as its role and its method demand', async (t) => {
  const routes = ADMIN_OPERATIONS.map(({ route }) => `${route.method} ${route.path}`);
  t.equal(new Set(routes).size, routes.length, 'each has a route of its own');
  for (const { name, role, acts, route, needs, around, says, fields } of ADMIN_OPERATIONS) {
    t.match(says, /^[A-Z][^.]*\.$/, `${name} is said in one sentence`);
    for (const field of Object.values(fields)) t.match(field.says, /^\S.*[^.]$/, `${name}: a phrase`);
    if (route.method === 'get') t.strictSame(acts, [], `${name}: a GET changes nothing`);
    else t.not(role, 'reader', name);
    if (needs === 'store') t.equal(role, 'owner', `${name}: no key may do what a command does`);
    if (around !== undefined) t.equal(acts.length, 1, `${name} is recorded as one act`);
  }
});

t.test(
  'every operation on the store is a command, with an option or an argument for each field',
  async (t) => {
    const program = await wholeProgram();
    const found = ADMIN_OPERATIONS.filter(({ needs, name }) => needs === 'store' || name === 'webhooks.test');
    t.ok(found.length > 14, `${found.length} operations`);
    for (const { name, fields, route } of found) {
      const command = commandAt(program, name.split('.'));
      t.equal(command?.name(), name.split('.')[1], name);
      const options = command?.options.map((option) => option.name()) ?? [];
      t.ok(options.includes('json') && options.includes('config'), name);
      const places = command?.registeredArguments.map((argument) => argument.name()) ?? [];
      for (const [field, { typed = '' }] of Object.entries(fields)) {
        if (route.path.includes(`{${field}}`)) t.equal(places[0], field, name);
        else if (typed.startsWith('[')) t.equal(`[${places[1]}...]`, typed, name);
        // The command reads nothing before it changes an endpoint.
        else if (field === 'revision') t.notOk(options.includes(field), name);
        // The command reads the digest from the certificate.
        else if (field === 'bound_certificate_sha256') t.ok(options.includes('bind-certificate'), name);
        else t.ok(options.includes(field.replaceAll('_', '-')), `${name} --${field}`);
      }
    }
  },
);

const NAMES = ['--client', 'invoices', '--organization', 'acme', '--json'];

async function actsIn(sandbox: Sandbox) {
  const store = await openStoreAt(
    { engine: 'lmdb', path: join(sandbox.dir, 'state', 'store') },
    { readOnly: true },
  );
  const entries = await store.trail.entries(0, 100);
  await store.close();
  return entries.map(({ text }) => parseAuditRecord(text)).filter((one) => one?.act.startsWith('key.'));
}

t.test('the same command changes the store by itself, or through the daemon that owns it', async (t) => {
  const sandbox = await openSandbox();
  t.teardown(() => sandbox.close());
  const keys = (...args: string[]) => sandbox.pdfseal(['keys', ...args, '--config', sandbox.configFile]);
  const apart = { apart: true } as const;
  const issue = ['keys', 'issue', ...NAMES, '--config', sandbox.configFile];
  const both = await Promise.all([sandbox.pdfseal(issue, apart), sandbox.pdfseal(issue, apart)]);
  t.match(both, [{ status: 0 }, { status: 0 }], 'two wait for each other');
  const daemon = await sandbox.start();
  t.match(await keys('issue', ...NAMES), { status: 0 });
  const socketPath = join(sandbox.dir, 'state', 'admin.sock');
  t.match((await ask({ socketPath }, '/keys')).json<{ keys: unknown[] }>().keys.length, 3);
  const { id = '' } = (await ask({ socketPath }, '/keys')).json<{ keys: { id: string }[] }>().keys[0] ?? {};
  t.match((await ask({ socketPath }, `/keys/${id}/revoke`, 'POST')).json(), { state: 'revoked' });
  const absent = await ask({ socketPath }, '/keys/key_0000000000000000/revoke', 'POST');
  t.match(absent.json(), { error: { code: 'not_found', message: /there is no key key_0+/ } });
  await daemon.stop();
  const uid = process.geteuid?.();
  const byCommand = { via: 'command', uid, host: String };
  t.match(await actsIn(sandbox), [
    { act: 'key.issue', actor: byCommand, outcome: 'done' },
    { act: 'key.issue', actor: byCommand, outcome: 'done' },
    { act: 'key.issue', actor: { ...byCommand, pid: Number }, outcome: 'done' },
    { act: 'key.revoke', actor: { via: 'administration', uid, pid: process.pid }, object: { key: id } },
  ]);
});

t.test('a daemon that does not know an operation is named as older', async (t) => {
  const sandbox = await openSandbox();
  t.teardown(() => sandbox.close());
  const error = { code: 'not_found', message: 'There is nothing at this path. See /openapi.json.' };
  const server = createServer((_, res) => res.writeHead(404).end(JSON.stringify({ error })));
  server.listen(join(sandbox.dir, 'state', 'admin.sock'));
  t.teardown(() => server.close());
  for (const args of [
    ['keys', 'issue', ...NAMES],
    ['webhooks', 'test', 'we_1', '--json'],
  ]) {
    const { status, stderr } = await sandbox.pdfseal([...args, '--config', sandbox.configFile]);
    t.equal(status, 1);
    t.match(JSON.parse(stderr), { error: { code: 'older_daemon', remedy: /^Restart the daemon/ } });
  }
});
