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
  const newest = await open();
  await ends[0];
  t.strictSame(
    silent.filter((socket) => socket.closed),
    silent.slice(0, 1),
    'the one that was silent longest makes room for one more',
  );
  // Not a byte of a head came on any of them.
  await Promise.all([...ends, closed(newest)]);
});

const SLOW = 'POST /login HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: same-origin\r\n';
const FORM = 'Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\nlink=';

const BESIEGERS = 300;
const COME_BACK_MS = 100;

/** Strangers who never end their forms, and come back when they are turned away. */
async function besiege(t: Test, port: number): Promise<void> {
  let isOver = false;
  const sockets = new Set<Socket>();
  t.teardown(() => {
    isOver = true;
    for (const socket of sockets) socket.destroy();
  });
  let arrived = 0;
  const come = () => {
    if (isOver) return;
    const socket = connect(port, '127.0.0.1');
    sockets.add(socket);
    socket
      .on('error', () => {})
      .resume()
      .once('connect', () => {
        arrived += 1;
        socket.write(`${SLOW}${FORM}`);
      })
      .once('close', () => {
        sockets.delete(socket);
        setTimeout(come, COME_BACK_MS).unref();
      });
  };
  for (let n = 0; n < BESIEGERS; n += 1) come();
  await until('all of them have come', () => arrived >= BESIEGERS);
}

t.test('strangers who send slow forms do not keep an administrator out', async (t) => {
  const test = await openTestConsole(t);
  await besiege(t, test.port);
  for (let n = 0; n < 10; n += 1) {
    const link = new URL(test.link('administrator')).pathname;
    t.equal((await test.get(link)).status, 200);
    const begun = await test.post('/login', { link: link.split('/')[2] ?? '' });
    t.equal(begun.status, 303);
    const [cookie = ''] = String(begun.headers['set-cookie']).split(';');
    t.equal((await test.get('/', { cookie })).status, 200);
  }
});

t.test('the connection of a session is kept, whatever strangers do', async (t) => {
  const test = await openTestConsole(t);
  const { cookie } = test.signedIn();
  const own = connect(test.port, '127.0.0.1');
  t.teardown(() => own.destroy());
  const head = `Host: localhost\r\nSec-Fetch-Site: none\r\nCookie: ${cookie}\r\n\r\n`;
  own.write(`GET / HTTP/1.1\r\n${head}`);
  await once(own, 'data');
  await besiege(t, test.port);
  let answer = '';
  own.on('data', (chunk: Buffer) => (answer += chunk));
  own.write(`GET /nothing HTTP/1.1\r\n${head}`);
  await until('it is answered', () => answer.includes('HTTP/1.1 404 '));
});

t.test('a stranger has five seconds for a form, however often a byte of it comes', async (t) => {
  const test = await openTestConsole(t);
  const slow = connect(test.port, '127.0.0.1');
  t.teardown(() => slow.destroy());
  let answer = '';
  slow.on('data', (chunk: Buffer) => (answer += chunk));
  slow.write(`${SLOW}${FORM}`);
  const dribble = setInterval(() => slow.write('x'), 500);
  t.teardown(() => clearInterval(dribble));
  await once(slow, 'close');
  t.match(answer, /^HTTP\/1\.1 408 .*The form was not received within 5 s/s);
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
