/** What comes early on a connection, how much of it is parsed, and when it is carried out. */
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import t, { type Test } from 'tap';
import { Admission, type Admitted, takingAnyBody } from '../../src/web/admission.ts';
import { issueCertificate, makeAuthority } from '../support/certificates.ts';
import { fc, mutations } from '../support/seed.ts';
import { until } from '../support/until.ts';
import { Wire } from '../support/wire.ts';

const get = (path: string, headers = '') => `GET ${path} HTTP/1.1\r\nHost: a\r\n${headers}\r\n`;
const post = (path: string, body: string, headers = '') =>
  `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n${headers}\r\n${body}`;
const chunked = (path: string, chunks: string[]) =>
  `POST ${path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${[...chunks, '']
    .map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`)
    .join('')}`;

/** Answers with the path and the body, when it is let. */
class Handler {
  begun: string[] = [];
  parsed = 0;
  readonly #gates: (() => void)[] = [];
  isOpen: boolean;

  constructor({ isOpen = true } = {}) {
    this.isOpen = isOpen;
  }

  readonly handle = (req: IncomingMessage, res: ServerResponse) => {
    this.begun.push(req.url ?? '');
    void this.#answer(req, res).catch(() => res.destroy());
  };

  async #answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const body = await buffer(req);
    if (!this.isOpen) await new Promise<void>((resolve) => this.#gates.push(resolve));
    res.end(`<${req.url} ${body.toString('latin1')}>`);
  }

  answerOne(): void {
    this.#gates.shift()?.();
  }

  open(): void {
    this.isOpen = true;
    for (const gate of this.#gates.splice(0)) gate();
  }
}

async function listen(t: Test, server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  return (server.address() as AddressInfo).port;
}

interface Serving extends Partial<Admitted> {
  server?: Server;
  admission?: Admission;
}

async function serve(
  t: Test,
  handler: Handler,
  { server = createServer(), admission = new Admission(), ...admitted }: Serving = {},
): Promise<number> {
  server.on('request', () => {
    handler.parsed += 1;
  });
  admission.admit(server, { handle: handler.handle, ...admitted });
  return listen(t, server);
}

const answers = (received: string) => received.match(/<[^>]*>/g) ?? [];
const paths = (count: number) => Array.from({ length: count }, (_, n) => `/${n}`);

t.test('of thousands of requests that come at once, one is under way and one head is parsed', async (t) => {
  const handler = new Handler({ isOpen: false });
  const wire = new Wire(await serve(t, handler));
  const all = paths(2_000);
  wire.send(all.map((path) => get(path)).join(''));
  for (let answered = 0; answered < 20; answered += 1) {
    await until('the next has begun', () => handler.begun.length > answered);
    for (let turns = 0; turns < 5; turns += 1) await nextTurn();
    t.equal(handler.begun.length, answered + 1);
    t.ok(handler.parsed <= answered + 2, `${handler.parsed} heads parsed`);
    handler.answerOne();
  }
  handler.open();
  await until('all are answered', () => wire.received.endsWith('</1999 >'));
  t.equal(handler.begun.join(), all.join());
  t.equal(answers(wire.received).join(''), all.map((path) => `<${path} >`).join(''), 'answered in order');
  wire.destroy();
});

t.test('over TLS too', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'pdfseal-admission-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const { certificateFile, keyFile } = issueCertificate(dir, 'server', makeAuthority(dir, 'authority'));
  const handler = new Handler({ isOpen: false });
  const server = createTlsServer({ cert: readFileSync(certificateFile), key: readFileSync(keyFile) });
  const port = await serve(t, handler, { server });
  const client = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false });
  let received = '';
  client.setEncoding('latin1').on('data', (text: string) => {
    received += text;
  });
  const all = paths(500);
  client.write(post('/a', 'x') + all.map((path) => get(path)).join(''));
  await until('the first has begun', () => handler.begun.length > 0);
  for (let turns = 0; turns < 20; turns += 1) await nextTurn();
  t.strictSame(handler.begun, ['/a']);
  t.ok(handler.parsed <= 2);
  handler.open();
  await until('all are answered', () => received.endsWith('</499 >'));
  t.equal(answers(received).join(''), `</a x>${all.map((path) => `<${path} >`).join('')}`);
  client.destroy();
});

t.test('nothing is carried out for a connection that has closed', async (t) => {
  const handler = new Handler({ isOpen: false });
  const port = await serve(t, handler);
  for (const rest of [3, 2_000]) {
    handler.begun = [];
    const wire = new Wire(port);
    wire.send(
      paths(rest)
        .map((path) => get(path))
        .join(''),
    );
    await until('the first has begun', () => handler.begun.length > 0);
    wire.socket.resetAndDestroy();
    handler.answerOne();
    const other = new Wire(port);
    other.send(get('/other'));
    await until('another one has begun', () => handler.begun.includes('/other'));
    handler.answerOne();
    await other.until(/<\/other >/);
    for (let turns = 0; turns < 20; turns += 1) await nextTurn();
    t.ok(handler.begun.length <= 3, handler.begun.join(' '));
    other.destroy();
  }
});

t.test('the end of a connection that waits is noticed', async (t) => {
  const handler = new Handler({ isOpen: false });
  const server = createServer();
  const port = await serve(t, handler, { server });
  const [wire, [socket]] = await Promise.all([
    new Wire(port),
    once(server, 'connection') as Promise<[Socket]>,
  ]);
  wire.send(
    paths(10)
      .map((path) => get(path))
      .join(''),
  );
  await until('the first has begun', () => handler.begun.length > 0);
  wire.destroy();
  await until('it is closed', () => socket.destroyed);
  handler.open();
  for (let turns = 0; turns < 20; turns += 1) await nextTurn();
  t.strictSame(handler.begun, ['/0']);
});

t.test('a body may contain what looks like a head, and come with its next requests', async (t) => {
  const handler = new Handler();
  const port = await serve(t, handler);
  const body = `${get('/in-the-body')}\r\n\r\n`;
  const requests = [
    post('/a', body),
    chunked('/b', [body, 'x', body]),
    get('/c'),
    '\r\n\r\n',
    post('/d', ''),
    chunked('/e', []),
    post('/f', 'f'.repeat(200_000)),
    get('/g'),
  ];
  const wire = new Wire(port);
  wire.send(requests.join(''));
  await wire.until(/<\/g >/);
  t.strictSame(handler.begun, ['/a', '/b', '/c', '/d', '/e', '/f', '/g']);
  t.ok(wire.received.includes(`<${'/b'} ${body}x${body}>`));
  wire.destroy();
});

const name = fc.stringMatching(/^[a-z]{1,8}$/).map((text) => `/${text}`);
const text = fc.array(
  fc.constantFrom('\r', '\n', '\r\n\r\n', 'GET / HTTP/1.1\r\n\r\n', '0', 'x'.repeat(700)),
  {
    maxLength: 8,
  },
);
const request = fc.oneof(
  name.map((path) => get(path)),
  name.map((path) => get(path, 'Expect: 100-continue\r\n')),
  fc.tuple(name, text).map(([path, parts]) => post(path, parts.join(''))),
  fc.tuple(name, text).map(([path, parts]) =>
    chunked(
      path,
      parts.filter((part) => part !== ''),
    ),
  ),
  name.map((path) => `GET ${path} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n`),
  fc.constant('\r\n'),
);

t.test('the answers are those of a server that parses all at once, however the bytes are cut', async (t) => {
  const handler = new Handler();
  const port = await serve(t, handler, { handle: takingAnyBody(handler.handle) });
  const reference = new Handler();
  const plain = await listen(t, createServer(reference.handle));
  const cuts = fc.array(fc.integer({ min: 1, max: 400 }), { maxLength: 30 });
  await fc.assert(
    fc.asyncProperty(fc.array(request, { maxLength: 12 }), cuts, async (requests, lengths) => {
      const bytes = `${requests.join('')}${get('/last', 'Connection: close\r\n')}`;
      const received = await Promise.all(
        [port, plain].map(async (to) => {
          const wire = new Wire(to);
          wire.socket.setNoDelay();
          let at = 0;
          for (const length of lengths) {
            wire.send(bytes.slice(at, at + length));
            at += length;
            await nextTurn();
          }
          wire.send(bytes.slice(at));
          await wire.closed;
          return wire.received.replaceAll(/^Date: .*\r\n/gm, '');
        }),
      );
      return received[0] === received[1];
    }),
    { numRuns: mutations() },
  );
});

t.test('whoever reads slowly gets whole answers, and those behind', async (t) => {
  const big = 'b'.repeat(300_000);
  const handle = (req: IncomingMessage, res: ServerResponse) => {
    res.write(`<${req.url} ${big}`);
    setImmediate(() => res.end('>'));
  };
  const wire = new Wire(await serve(t, new Handler(), { handle }));
  wire.socket.pause();
  wire.send(
    paths(6)
      .map((path) => get(path))
      .join(''),
  );
  for (let n = 0; n < 10; n += 1) {
    wire.send(get('/more'));
    await nextTurn();
  }
  wire.socket.resume();
  await until('all is there', () => wire.received.split('>').length === 17);
  t.ok(answers(wire.received).every((answer) => answer.length > big.length));
  wire.destroy();
});

t.test(
  'behind a request under way: a body to ask for, a tunnel, a change of protocol, a fault',
  async (t) => {
    const handler = new Handler({ isOpen: false });
    const server = createServer();
    const port = await serve(t, handler, { server, handle: takingAnyBody(handler.handle) });
    server.on('connect', (_req: IncomingMessage, socket: Socket) => socket.end('HTTP/1.1 405 \r\n\r\n'));
    const behind = async (bytes: string) => {
      const wire = new Wire(port);
      const { length } = handler.begun;
      wire.send(`${get('/first')}${bytes}`);
      await until('the first has begun', () => handler.begun.length > length);
      return wire;
    };
    const asked = await behind(
      post('/asked', '', 'Expect: 100-continue\r\n').replace('Length: 0', 'Length: 2'),
    );
    t.notMatch(asked.received, /100 Continue/, 'nobody is asked for a body before its turn');
    handler.answerOne();
    await asked.until(/100 Continue/);
    asked.send('ok');
    await until('it was read', () => handler.begun.includes('/asked'));
    handler.open();
    await asked.until(/<\/asked ok>/);
    asked.destroy();

    handler.isOpen = false;
    const tunnel = await behind('CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\nbytes of the tunnel');
    handler.open();
    await tunnel.closed;

    const upgrade = await behind(get('/upgrade', 'Connection: Upgrade\r\nUpgrade: websocket\r\n'));
    await upgrade.until(/<\/upgrade >/);
    upgrade.send(get('/after'));
    await upgrade.until(/<\/after >/);
    upgrade.destroy();

    const faulty = await behind(`${get('/second')}no HTTP\r\n\r\n${get('/never')}`);
    await faulty.closed;
    t.match(faulty.received, /<\/first >[\s\S]*<\/second >[\s\S]*400/);
    t.notOk(handler.begun.includes('/never'));
  },
);

t.test('too many bytes that wait close the connections of strangers', async (t) => {
  const handler = new Handler({ isOpen: false });
  const known = new Set<number | undefined>();
  const port = await serve(t, handler, {
    admission: new Admission({ heldBytesMax: 40_000 }),
    isKnown: ({ remotePort }) => known.has(remotePort),
  });
  const flood = async () => {
    const wire = new Wire(port);
    await once(wire.socket, 'connect');
    return wire;
  };
  const client = await flood();
  known.add(client.socket.localPort);
  client.send(
    paths(500)
      .map((path) => get(path))
      .join(''),
  );
  const strangers = await Promise.all(Array.from({ length: 8 }, flood));
  for (const wire of strangers)
    wire.send(
      paths(500)
        .map((path) => get(path))
        .join(''),
    );
  await until('some were closed', () => strangers.filter(({ socket }) => socket.destroyed).length >= 3);
  handler.open();
  await until('all are answered', () => client.received.endsWith('</499 >'));
  for (const wire of [client, ...strangers]) wire.destroy();
});

t.test(
  'few requests begin in one turn of the event loop, first those of clients that are known',
  async (t) => {
    const handler = new Handler({ isOpen: false });
    const server = createServer();
    const known = new Set<unknown>();
    new Admission().admit(server, {
      handle: handler.handle,
      isKnown: (socket) => known.has(socket),
    });
    const arrive = (url: string) => {
      const socket = { listeners: () => [], once() {}, destroyed: false };
      if (url.startsWith('/known')) known.add(socket);
      server.emit(
        'request',
        { url, socket, complete: true, [Symbol.asyncIterator]: async function* () {} },
        {
          once() {},
          end() {},
        },
      );
    };
    for (const path of paths(12)) arrive(`/stranger${path}`);
    for (const path of paths(12)) arrive(`/known${path}`);
    t.strictSame(
      handler.begun,
      paths(8).map((path) => `/stranger${path}`),
      'at once if there is room',
    );
    await nextTurn();
    t.strictSame(handler.begun.slice(8), [
      ...paths(6).map((path) => `/known${path}`),
      '/stranger/8',
      '/stranger/9',
    ]);
    await nextTurn();
    t.equal(handler.begun.length, 24);
  },
);
