/** What the service manager hears of a start that takes long. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { createLogger } from '../../src/base/logger.ts';
import { Supervision } from '../../src/watch/supervision.ts';

const RECEIVER = `
import socket, sys
receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
receiver.bind(sys.argv[1])
print("bound", file=sys.stderr, flush=True)
print(receiver.recv(65536).decode() + receiver.recv(65536).decode(), flush=True)
`;

t.test('a daemon that waits to take over counts as started, and reports what it waits for', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'pdfseal-start-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const socket = join(dir, 'notify');
  const receiver = spawn('python3', ['-c', RECEIVER, socket]);
  t.teardown(() => receiver.kill());
  await new Promise((resolve) => receiver.stderr.once('data', resolve));
  const logger = createLogger('info', { write: () => {} });
  const supervision = new Supervision({ socket, watchdogMs: undefined, status: () => 'well', logger });
  t.teardown(() => supervision.close());
  supervision.standby('process 1 on a is active');
  supervision.standby('process 1 on a is active');
  supervision.ready();
  t.equal(await text(receiver.stdout), 'READY=1\nSTATUS=process 1 on a is active\nREADY=1\nSTATUS=well\n\n');
});

t.test('a long start asks for more time repeatedly', async (t) => {
  // The path of a socket has 107 bytes at most.
  const dir = mkdtempSync(join(tmpdir(), 'pdfseal-start-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const socket = join(dir, 'notify');
  const receiver = spawn('python3', ['-c', RECEIVER, socket]);
  t.teardown(() => receiver.kill());
  await new Promise((resolve) => receiver.stderr.once('data', resolve));
  let now = 0;
  t.intercept(performance, 'now', { value: () => now });
  const lines: string[] = [];
  const logger = createLogger('info', { write: (line) => void lines.push(line) });
  const supervision = new Supervision({ socket, watchdogMs: undefined, status: () => 'well', logger });
  for (; now < 29_000; now += 1000) supervision.starting(`${now} leaves read`);
  const said = (leaves: number) => `EXTEND_TIMEOUT_USEC=120000000\nSTATUS=${leaves} leaves read\n`;
  t.equal(await text(receiver.stdout), `${said(10_000)}${said(20_000)}\n`);
  t.match(lines, [/still starting: 10000 leaves read/, /still starting: 20000 leaves read/]);
  t.equal(lines.length, 2);
});
