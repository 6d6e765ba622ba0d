import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { openAdminListener } from '../../src/admin/server.ts';
import { ask } from '../support/admin.ts';
import { freePort } from '../support/freePort.ts';

const logger = pino({ level: 'silent' });

/** Where a path is short enough for a socket. */
function makeFolder(t: Test): string {
  const dir = mkdtempSync(join(tmpdir(), 'pdfseal-admin-'));
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

async function open(t: Test, path: string) {
  const listener = await openAdminListener((_req, res) => res.end('here'), { path }, logger);
  let closed = false;
  const close = async () => {
    if (!closed) await listener.close();
    closed = true;
  };
  t.teardown(close);
  return close;
}

/** Leaves behind what a process does that is killed while it listens. */
async function leaveSocket(path: string): Promise<void> {
  const script = `require('net').createServer().listen(process.argv[1], () => process.kill(process.pid, 'SIGKILL'))`;
  await once(spawn(process.execPath, ['-e', script, path], { stdio: 'ignore' }), 'close');
}

t.test('a socket belongs to its owner and group, and is removed with the listener', async (t) => {
  const path = join(makeFolder(t), 'a.sock');
  const umask = process.umask(0);
  const close = await open(t, path);
  t.equal(process.umask(umask), 0, 'files made by others are as before');
  t.equal(statSync(path).mode & 0o777, 0o660);
  t.equal((await ask({ socketPath: path }, '/')).text, 'here');
  await close();
  t.notOk(existsSync(path));
});

t.test('a dead socket is replaced, and a live one is not', async (t) => {
  const path = join(makeFolder(t), 'a.sock');
  await leaveSocket(path);
  t.ok(existsSync(path), 'the socket is left behind');
  await open(t, path);
  await t.rejects(open(t, path), {
    name: 'OperatorError',
    message: /^admin\.listen: cannot listen on unix:.*a\.sock \(another process answers there; each/,
  });
  t.equal((await ask({ socketPath: path }, '/')).text, 'here', 'and goes on to');
});

t.test('a path that could belong to something else is refused', async (t) => {
  const dir = makeFolder(t);
  writeFileSync(join(dir, 'file'), 'precious');
  await t.rejects(open(t, join(dir, 'file')), { message: /exists and is not a socket/ });
  await t.rejects(open(t, join(dir, 'none', 'a.sock')), {
    message: /there is no folder .*none; create it/,
  });
  await t.rejects(open(t, join(dir, 'a'.repeat(108))), { message: /more than 107 bytes/ });
  mkdirSync(join(dir, 'public'));
  chmodSync(join(dir, 'public'), 0o1777);
  await t.rejects(open(t, join(dir, 'public', 'a.sock')), { message: /anybody can write to .*public/ });
});

t.test('a port that is in use is reported', async (t) => {
  const port = await freePort();
  const server = createServer().listen(port, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const taken = openAdminListener(() => {}, { host: '127.0.0.1', port }, logger);
  await t.rejects(taken, {
    message: `admin.listen: cannot listen on 127.0.0.1:${port} (address already in use); another program has that port (\`ss -ltnp sport = :${port}\` names it): stop that, or choose another`,
  });
});
