/** Links to the console are made for root and for the user of the daemon, and for nobody else who can open the socket. */
import { execFile } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { type AdminParts, createAdminApp } from '../../src/admin/routes.ts';
import { openAdminListener } from '../../src/admin/server.ts';
import { systemClock } from '../../src/base/clock.ts';
import { Sessions } from '../../src/console/sessions.ts';
import { hashApiKey, newApiKey } from '../../src/job/apikey.ts';
import type { Act } from '../../src/manifest/auditRecord.ts';
import { linkConsole } from '../../src/ops/consoleOperations.ts';
import { ask } from '../support/admin.ts';
import { freePort } from '../support/freePort.ts';

const ENVIRONMENT = 'test';
const LINK = '/console/link?name=Anna&role=administrator';
const logger = pino({ level: 'silent' });
const apiKey = newApiKey(ENVIRONMENT);
const credential = {
  keyHash: hashApiKey(apiKey),
  id: 'key_1',
  clientId: 'ops',
  scopes: ['admin'],
  createdAt: 0,
};

/** The administration of a daemon with a console, at a socket of its user and its group, and at a port. */
async function openDoor(t: Test) {
  const folder = mkdtempSync(join(tmpdir(), 'pdfseal-door-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  chmodSync(folder, 0o750);
  const sessions = new Sessions();
  const acts: Act[] = [];
  const parts = {
    status: {},
    console: sessions,
    store: { trail: { append: async (act: Act) => acts.push(act) } },
    auth: {
      store: {
        credentials: { get: async (hash: string) => (hash === credential.keyHash ? credential : undefined) },
      },
      environment: ENVIRONMENT,
      organizations: () => ({}),
      clock: systemClock,
    },
    clock: systemClock,
    logger,
    onFatal: (error: unknown) => t.fail(String(error)),
  } as unknown as AdminParts;
  const socket = { path: join(folder, 'admin.sock') };
  const port = { host: '127.0.0.1', port: await freePort() };
  for (const [address, forAnyone] of [
    [socket, false],
    [port, true],
  ] as const) {
    const listener = await openAdminListener(createAdminApp({ ...parts, forAnyone }), address, logger);
    t.teardown(() => listener.close());
  }
  return { socketPath: socket.path, port, sessions, acts };
}

/** What somebody is answered who is of the group of the socket, and neither root nor the user of the daemon. */
async function askAsMember(socketPath: string, path: string): Promise<{ status: number; text: string }> {
  const script = `const [socketPath, path] = process.argv.slice(1);
process.setgroups([0]); process.setgid(0); process.setuid(1);
require('node:http').request({ socketPath, path, method: 'POST', agent: false }, async (response) => {
  let text = '';
  for await (const chunk of response) text += chunk;
  console.log(JSON.stringify({ status: response.statusCode, text }));
}).end();`;
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', script, socketPath, path]);
  return JSON.parse(stdout);
}

t.test('a member of the socket’s group cannot make a link or end a session', async (t) => {
  const { socketPath, sessions, acts } = await openDoor(t);
  const begun = sessions.begin(sessions.invite({ name: 'Anna', role: 'auditor' }));
  for (const path of [LINK, '/console/logout'])
    t.match(
      await askAsMember(socketPath, path),
      { status: 403, text: /Only root and the user of the daemon/ },
      path,
    );
  t.match(
    await askAsMember(socketPath, '/nothing'),
    { status: 404 },
    'the socket itself is open to the group',
  );
  t.equal(begun?.session.ended.aborted, false);
  t.strictSame(acts, []);
});

t.test('an API key cannot make a link or end a session', async (t) => {
  const { port, acts } = await openDoor(t);
  const headers = { Authorization: `Bearer ${apiKey}` };
  for (const path of [LINK, '/console/logout'])
    t.match(await ask(port, path, 'POST', headers), { status: 403, text: /Only root/ }, path);
  t.strictSame(acts, []);
});

t.test('the user of the daemon can make a link, on record', async (t) => {
  const { socketPath, sessions, acts } = await openDoor(t);
  const made = await ask({ socketPath }, LINK, 'POST');
  t.equal(made.status, 200);
  t.match(sessions.invited(made.json<{ link: string }>().link), { name: 'Anna', role: 'administrator' });
  const actor = { via: 'administration', uid: process.geteuid?.() };
  t.match(acts, [{ act: 'console.invite', actor, object: { name: 'Anna', role: 'administrator' } }]);
});

t.test('the user of the daemon can end the sessions of one person, on record', async (t) => {
  const { socketPath, sessions, acts } = await openDoor(t);
  const begin = (name: string) => sessions.begin(sessions.invite({ name, role: 'auditor' }));
  const [anna, berta] = [begin('Anna'), begin('Berta')];
  const end = (query: string) => ask({ socketPath }, `/console/logout${query}`, 'POST');
  t.match(await end('?name=Anna'), { status: 200, text: '{"sessions":1}' });
  t.strictSame([anna?.session.ended.aborted, berta?.session.ended.aborted], [true, false]);
  t.match(await end('?name='), { status: 400 }, 'nobody is not everybody');
  t.match(await end(''), { status: 200, text: '{"sessions":1}' });
  t.match(acts, [
    { act: 'console.logout', object: { name: 'Anna', sessions: 1 } },
    { act: 'console.logout_all', object: { sessions: 1 } },
  ]);
});

t.test('a name must be visible and readable', (t) => {
  const seen = [
    'Anna',
    "Seán O'Brien",
    'anna.b@example.org',
    'Éva',
    'क़ीं देव',
    'ก็ไก่ ที่',
    '王 小明',
    'x'.repeat(64),
  ];
  const { schema } = linkConsole.fields.name;
  for (const name of seen) t.equal(schema.parse(name), name.normalize('NFC'), name);
  t.equal(schema.parse('E\u0301va'), schema.parse('\u00c9va'), 'one name is one text');
  const hidden = [
    '\u3164\u3164',
    '\u115f',
    '\uffa0',
    '\u{13441}',
    'A\u034f',
    'A\u200db',
    'A\u202eb',
    '\ufeffA',
  ];
  const stacked = [`A${'\u0302\u0323'.repeat(30)}`, `A${'\u0323'.repeat(5)}`, 'A \u0323', '\u0323A'];
  const spaced = ['', ' ', ' Anna', 'Anna ', 'Anna  B', 'Anna\u00a0B', 'Anna\tB', 'Anna\nB'];
  for (const name of [...hidden, ...stacked, ...spaced, '.anna', 'a/b', '<b>', 'x'.repeat(65), '\ud800'])
    t.match(
      schema.safeParse(name),
      { success: false, error: /must be .*letters that can be seen/ },
      JSON.stringify(name.slice(0, 20)),
    );
  t.end();
});
