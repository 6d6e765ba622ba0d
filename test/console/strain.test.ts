/** Many connections that ask for nothing, and readers that take nothing: they are ended, and others are served. */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { Streams } from '../../src/console/liveStreams.ts';
import { Sessions } from '../../src/console/sessions.ts';
import { until } from '../support/until.ts';
import { openTestConsole } from './testConsole.ts';

const CONNECTIONS_MAX = 256;
/** More than the kernel and Node keep for a reader that takes nothing. */
const BEATS_MAX = 100_000;

function closed(socket: Socket): Promise<unknown> {
  socket.on('error', () => {}).resume();
  return once(socket, 'close');
}

t.test('the number of connections is bounded, and silent ones are closed', async (t) => {
  const test = await openTestConsole(t);
  const open = async () => {
    const socket = connect(test.port, '127.0.0.1');
    t.teardown(() => socket.destroy());
    await once(socket, 'connect');
    return socket;
  };
  const silent: Socket[] = [];
  while (silent.length < CONNECTIONS_MAX) silent.push(await open());
  const ends = silent.map(closed);
  await closed(await open());
  t.notOk(
    silent.some(({ closed }) => closed),
    'one more is closed at once, and those before it are not',
  );
  // Not a byte of a head came on any of them.
  await Promise.all(ends);
  t.match(await test.get('/'), { status: 401 }, 'then there is room again');
});

/** Streams for one person at a Unix socket. */
async function openStreams(t: Test) {
  const folder = mkdtempSync(join(tmpdir(), 'console-streams-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const sessions = new Sessions();
  const session = sessions.begin(sessions.invite({ name: 'Anna', role: 'auditor' }))?.session;
  const streams = new Streams(sessions);
  t.teardown(() => streams.close());
  const server = createServer((_request, response) => session && streams.tryAdd(response, session));
  const path = join(folder, 's');
  server.listen(path);
  t.teardown(() => server.close());
  await once(server, 'listening');
  const read = async () => {
    const socket = connect(path);
    t.teardown(() => socket.destroy());
    const before = streams.size;
    socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await until('the stream is open', () => streams.size > before);
    return socket;
  };
  return { sessions, streams, read };
}

t.test('a reader that does not read is dropped, and the others miss nothing', async (t) => {
  const { streams, read } = await openStreams(t);
  const slow = await read();
  slow.pause();
  const brisk = await read();
  let heard = '';
  brisk.on('data', (chunk: Buffer) => (heard += chunk));
  let beats = 0;
  for (; streams.size === 2 && beats < BEATS_MAX; beats += 1) {
    streams.beat();
    await turn();
  }
  t.ok(beats < BEATS_MAX, `dropped after ${beats} messages`);
  t.equal(streams.size, 1);
  await until('it heard all of them', () => heard.split('event: news').length - 1 === beats);
  t.equal(brisk.closed, false);
});

t.test('a session that ends with a beat ends its stream, and receives nothing after that', async (t) => {
  const { sessions, streams, read } = await openStreams(t);
  const reader = await read();
  let heard = '';
  reader.on('data', (chunk: Buffer) => (heard += chunk));
  sessions.endAll();
  streams.beat();
  t.equal(streams.size, 0);
  await until('the answer is whole', () => heard.endsWith('0\r\n\r\n'));
  t.notMatch(heard, /event: news/);
});
