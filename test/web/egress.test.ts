import type { lookup } from 'node:dns';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { type IncomingMessage, request as requestHttp } from 'node:http';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import {
  ANSWER_HEADER,
  askAboutEgress,
  EgressClient,
  type EgressProcess,
  type EgressRequest,
  REQUEST_HEADER,
} from '../../src/web/egressClient.ts';
import { type Destination, openEgressServer } from '../../src/web/egressServer.ts';
import { HttpClient, type HttpRequest } from '../../src/web/httpClient.ts';
import { NoAnswer } from '../../src/web/noAnswer.ts';
import { TargetPolicy } from '../../src/web/policy.ts';
import { discardBody, readBody } from '../../src/web/response.ts';
import { HOSTILITIES, hostilityOf, openHostile } from '../support/hostile.ts';
import { openSource, serving } from '../support/sources.ts';
import { until } from '../support/until.ts';

const LATE_MS = 50;
const NEVER_LATE_MS = 60_000;
const BYTES_MAX = 100_000;
const BODY_BYTES_MAX = 1024 * 1024;
const NOWHERE = new URL('http://127.0.0.1:9/');

interface Rig {
  socket: string;
  to(purpose: string): EgressClient;
  lines: Record<string, unknown>[];
  close(): Promise<void>;
}

/** An egress process that always answers the daemon itself. */
function egressAt(socketPath: () => Promise<string>, more: Partial<EgressProcess> = {}): EgressProcess {
  return { socketPath, noticed: () => {}, troubleSince: async () => undefined, ...more };
}

/** With a path that is short enough for a socket. */
function folderFor(t: Test): string {
  const dir = mkdtempSync(join(tmpdir(), 'pdfseal-egress-'));
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

/** An egress process without its process: the destinations with these changes. */
async function openEgress(t: Test, more: Record<string, Partial<Destination>> = {}): Promise<Rig> {
  const socket = join(folderFor(t), 'socket');
  const lines: Record<string, unknown>[] = [];
  const logger = pino({}, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const open = new HttpClient({ policy: new TargetPolicy(['127.0.0.0/8']), idleConnectionsMax: 4 });
  const common = { client: open, headers: ['content-type'], redirectsMax: 0, requestsMax: 100 };
  const defaults: Record<string, Destination> = {
    source: { ...common, methods: ['GET', 'HEAD'], redirectsMax: 3 },
    webhook: { ...common, methods: ['POST'] },
    'authority:acme': { ...common, methods: ['POST'], urls: new Set(['http://127.0.0.1:1/tsa']) },
  };
  const destinations = new Map(
    Object.entries(defaults).map(([name, one]) => [name, { ...one, ...more[name] }]),
  );
  const about = { version: '1', configSha256: 'ab' };
  const server = await openEgressServer({
    listen: { path: socket },
    destinations,
    about,
    logger,
  });
  t.teardown(() => server.close());
  const to = (purpose: string) =>
    new EgressClient(
      purpose,
      egressAt(async () => socket),
    );
  return { socket, to, lines, close: () => server.close() };
}

type Asked = Partial<HttpRequest> & { url: URL };

async function outcomeOf(client: EgressClient, request: Asked): Promise<string> {
  try {
    return await client.exchange({ method: 'GET', timeoutMs: NEVER_LATE_MS, ...request }, async (answer) =>
      String((await readBody(answer, BYTES_MAX)).toString() || answer.statusCode),
    );
  } catch (error) {
    if (error instanceof NoAnswer) return `${error.reason}: ${error.message}`;
    return `body: ${(error as NodeJS.ErrnoException).code}`;
  }
}

t.test('a relayed answer keeps its status, body and all header fields', async (t) => {
  const egress = await openEgress(t);
  const source = await openSource(t, (req, res) => {
    const fields = ['X-Twice', 'one', 'X-Twice', 'two', 'Content-Type', 'text/plain', 'X-Odd', 'é"\\'];
    res.writeHead(req.method === 'POST' ? 299 : 200, fields);
    req.pipe(res);
  });
  const url = new URL(`${source.origin}/path?a=b`);
  const headers = { 'content-type': 'application/json' };
  const request = {
    method: 'POST',
    url,
    headers,
    body: Buffer.from('a body'),
    timeoutMs: NEVER_LATE_MS,
  } as const;
  const seen = async (answer: IncomingMessage) => ({
    ...{ status: answer.statusCode, type: answer.headers['content-type'], odd: answer.headers['x-odd'] },
    ...{ twice: answer.headersDistinct['x-twice'], body: String(await readBody(answer, 100)) },
  });
  const relayed = await egress.to('webhook').exchange(request, seen);
  t.strictSame(relayed, await new HttpClient({}).exchange(request, seen), 'the same as without the relay');
  t.match(relayed, { status: 299, type: 'text/plain', twice: ['one', 'two'], body: 'a body' });
  t.strictSame(source.requests, Array(2).fill('POST /path?a=b'));
  t.equal(source.headers[0]?.['content-type'], 'application/json');
  t.equal(source.headers[0]?.[REQUEST_HEADER], undefined, 'what is said to the relay stays there');
});

t.test('large documents arrive whole, and HEAD gives their length', async (t) => {
  const egress = await openEgress(t);
  const document = Buffer.alloc(5_000_000, 'document');
  const { origin } = await openSource(t, serving(document));
  const [client, url] = [egress.to('source'), new URL(origin)];
  const request = { method: 'GET', url, timeoutMs: NEVER_LATE_MS } as const;
  t.same(await client.exchange(request, (answer) => readBody(answer, 6_000_000)), document);
  const length = await client.exchange(
    { ...request, method: 'HEAD' },
    async ({ headers }) => headers['content-length'],
  );
  t.equal(length, '5000000');
});

t.test('with any server, a request through the egress process ends like a direct one', async (t) => {
  const egress = await openEgress(t);
  for (const hostility of HOSTILITIES) {
    const server = await openHostile(t, hostility);
    const url = new URL(`http://${server.host}/`);
    const timeoutMs = hostility.reason === 'timeout' ? LATE_MS : NEVER_LATE_MS;
    const isOurs = hostility.reason === 'timeout' || /(body|chunks) for ever$/.test(hostility.name);
    const expected =
      hostility.stage !== 'body' || isOurs ? new RegExp(`^${hostility.reason}:`) : /^body: ECONNRESET$/;
    t.match(await outcomeOf(egress.to('source'), { url, timeoutMs }), expected, hostility.name);
    await server.left();
  }
});

t.test(
  'a reader that stops reading, and a caller that goes away, end the request at the server',
  async (t) => {
    const egress = await openEgress(t);
    const flooding = await openHostile(t, hostilityOf('sends a body for ever'));
    const request = {
      method: 'POST',
      url: new URL(`http://${flooding.host}/`),
      timeoutMs: NEVER_LATE_MS,
    } as const;
    await egress
      .to('webhook')
      .exchange({ ...request, timed: 'head' }, (answer) => discardBody(answer, 1000, LATE_MS));
    await flooding.left();
    const mute = await openHostile(t, hostilityOf('says nothing'));
    const stop = new AbortController();
    const [gone, closing] = [egress.to('webhook'), egress.to('webhook')];
    const ask = { url: new URL(`http://${mute.host}/`), method: 'POST' } as const;
    const asked = [outcomeOf(gone, { ...ask, signal: stop.signal }), outcomeOf(closing, ask)];
    await until('both are under way', () => mute.connections() === 2);
    stop.abort(new NoAnswer('closed', 'away'));
    closing.close();
    t.strictSame(await Promise.all(asked), [
      'closed: away',
      'closed: cancelled: the daemon is being stopped',
    ]);
    await mute.left();
  },
);

t.test('each purpose reaches what is configured for it, and nothing else', async (t) => {
  const resolve = ((_: string, __: object, done: (error: null, found: object[]) => void) =>
    done(null, [{ address: '127.0.0.1', family: 4 }])) as unknown as typeof lookup;
  const inside = await openSource(t, (_, res) => res.end('inside'));
  const turning = await openSource(t, (_, res) => res.writeHead(302, { Location: 'http://10.0.0.1/' }).end());
  const { port } = new URL(inside.origin);
  const policy = new TargetPolicy([`http://files.example.com:${port}`], resolve);
  const egress = await openEgress(t, { webhook: { client: new HttpClient({ policy }) } });
  const post = { method: 'POST', body: Buffer.from('bytes') } as const;
  const cases: [what: string, purpose: string, request: Asked, outcome: RegExp][] = [
    [
      'a host that is not listed',
      'source',
      { url: new URL('http://10.0.0.1/') },
      /^not_allowed: 10\.0\.0\.1 is/,
    ],
    [
      'a forbidden target of a redirect',
      'source',
      { url: new URL(turning.origin), redirectsMax: 3 },
      /^not_allowed: 10\.0\.0\.1 is/,
    ],
    [
      'a name at a private address',
      'webhook',
      { ...post, url: new URL(`http://files.example.com:${port}/`) },
      /^not_allowed: files\.example\.com is at 127\.0\.0\.1/,
    ],
    [
      'the URL of no authority',
      'authority:acme',
      { ...post, url: new URL(inside.origin) },
      /^not_allowed: the URL is none/,
    ],
    [
      'an authority by another name',
      'authority:other',
      { ...post, url: NOWHERE },
      /^not_allowed: nothing is configured/,
    ],
    [
      'a purpose that is not configured',
      'witness',
      { ...post, url: NOWHERE },
      /^not_allowed: nothing is configured/,
    ],
    ['another method', 'webhook', { url: new URL(inside.origin) }, /^not_allowed: GET is not/],
    [
      'another server behind an address',
      'source',
      { url: new URL(inside.origin), headers: { Host: 'other' } },
      /^not_allowed: the header Host/,
    ],
    [
      'redirects where none are followed',
      'webhook',
      { ...post, url: new URL(inside.origin), redirectsMax: 1 },
      /^not_allowed: redirects/,
    ],
    [
      'a body for GET',
      'source',
      { body: Buffer.from('x'), url: new URL(inside.origin) },
      /^not_allowed: a body for GET/,
    ],
    [
      'a body that is too long',
      'webhook',
      { ...post, url: new URL(inside.origin), body: Buffer.alloc(BODY_BYTES_MAX + 1) },
      /^not_allowed: a body of more than|^unreachable/,
    ],
    [
      'another protocol',
      'source',
      { url: new URL('file:///etc/passwd') },
      /^not_allowed: only http and https/,
    ],
  ];
  for (const [what, purpose, request, outcome] of cases)
    t.match(await outcomeOf(egress.to(purpose), request), outcome, what);
  t.strictSame(inside.requests, [], 'nothing came to the server inside');
  t.match(egress.lines[0], { event: 'egress_refused' }, 'what no daemon asks is in the log');
  t.match(await outcomeOf(egress.to('source'), { url: new URL(inside.origin) }), /^inside$/, 'it goes on');
});

t.test('one purpose cannot use up the share of another', async (t) => {
  const egress = await openEgress(t, { webhook: { requestsMax: 3 } });
  const mute = await openHostile(t, hostilityOf('says nothing'));
  const other = await openSource(t, (_, res) => res.end('here'));
  const client = egress.to('webhook');
  const ask = { url: new URL(`http://${mute.host}/`), method: 'POST' } as const;
  const asked = [1, 2, 3].map(() => outcomeOf(client, ask));
  await until('all are under way', () => mute.connections() === 3);
  t.match(await outcomeOf(client, ask), /^unreachable: 3 requests of this purpose are under way/);
  t.equal(await outcomeOf(egress.to('source'), { url: new URL(other.origin) }), 'here');
  client.close();
  await Promise.all(asked);
  await mute.left();
  const again = { method: 'POST', url: new URL(other.origin) } as const;
  await until(
    'the share is free again',
    async () => (await outcomeOf(egress.to('webhook'), again)) === 'here',
  );
});

t.test('a request that is not from a daemon is refused, and an endless one is cut', async (t) => {
  const egress = await openEgress(t);
  const reasonOf = async (value: unknown, method = 'POST') => {
    const text = typeof value === 'string' ? value : Buffer.from(JSON.stringify(value)).toString('base64url');
    const headers = { [REQUEST_HEADER]: text };
    const request = requestHttp({ socketPath: egress.socket, path: '/source', method, headers }).end();
    const [answer] = (await once(request, 'response')) as [IncomingMessage];
    answer.resume();
    return (
      JSON.parse(Buffer.from(String(answer.headers[ANSWER_HEADER]), 'base64url').toString()) as NoAnswer
    ).message;
  };
  const good: EgressRequest = {
    method: 'GET',
    url: 'http://10.0.0.1/',
    headers: {},
    timeoutMs: 1,
    timed: 'head',
  };
  t.match(await reasonOf(good), /^10\.0\.0\.1 is not allowed/, 'a valid one');
  t.match(await reasonOf(good, 'PUT'), /not valid/);
  const bad = [
    ...['', 'null', '[]', 'x'.repeat(1000), { ...good, more: 1 }, { ...good, timeoutMs: 1e9 }],
    ...[
      { ...good, url: '//' },
      { ...good, url: `http://h/${'a'.repeat(20_000)}` },
      { ...good, method: 'PUT' },
    ],
    ...[
      { ...good, redirectsMax: 100 },
      { ...good, headers: { a: 'b'.repeat(5000) } },
      { ...good, timed: 'never' },
    ],
  ];
  for (const value of bad) t.match(await reasonOf(value), /not valid/, JSON.stringify(value).slice(0, 80));
  t.strictSame(await askAboutEgress(async () => egress.socket, NEVER_LATE_MS), {
    version: '1',
    configSha256: 'ab',
  });
  const slow = connect(egress.socket);
  slow.write('POST /source HTTP/1.1\r\nHost: egress\r\n');
  const ended = once(slow.resume(), 'close');
  await ended;
  t.pass('a head that never ends has its deadline');
});

t.test(
  'if the egress process is missing or another process, a request fails as to a dead server',
  async (t) => {
    const dir = folderFor(t);
    const troubles: (NoAnswer | undefined)[] = [];
    const to = (socket: string) =>
      new EgressClient(
        'webhook',
        egressAt(async () => socket, { noticed: (trouble) => troubles.push(trouble) }),
      );
    const url = NOWHERE;
    t.match(
      await outcomeOf(to(join(dir, 'none')), { url }),
      /^unreachable: the egress process does not answer/,
    );
    t.match(troubles, [{ reason: 'unreachable' }]);
    for (const says of [
      'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n',
      'HTTP/1.1 200 OK\r\nPdfseal-Answer: e30\r\n\r\n',
      'no HTTP\r\n\r\n',
    ]) {
      const path = join(dir, `socket${troubles.length}`);
      const liar = createServer((socket) =>
        socket.once('data', () => socket.end(says)).on('error', () => {}),
      );
      await once(liar.listen(path), 'listening');
      t.match(await outcomeOf(to(path), { url }), /^unreachable: the egress process/, says);
      liar.close();
    }
    const waiting = new EgressClient(
      'webhook',
      egressAt(() => new Promise(() => {})),
    );
    t.match(
      await outcomeOf(waiting, { url, timeoutMs: LATE_MS }),
      /^unreachable: the egress process does not answer: no answer within 50 ms/,
      'it does not start',
    );
  },
);

t.test(
  'a time-out is charged to the server only if the egress process itself answers meanwhile',
  async (t) => {
    const egress = await openEgress(t);
    const mute = await openHostile(t, hostilityOf('says nothing'));
    const url = new URL(`http://${mute.host}/`);
    const hangs = new NoAnswer('timeout', 'it hangs');
    const asked: boolean[] = [];
    const at = (trouble?: NoAnswer) =>
      new EgressClient(
        'source',
        egressAt(async () => egress.socket, {
          troubleSince: async (_, isDoubtful) => {
            asked.push(isDoubtful);
            return trouble;
          },
        }),
      );
    t.match(await outcomeOf(at(), { url, timeoutMs: LATE_MS }), /^timeout: no answer within 50 ms/);
    t.match(
      await outcomeOf(at(hangs), { url, timeoutMs: LATE_MS }),
      /^unreachable: the egress process does not answer: it hangs/,
    );
    t.match(await outcomeOf(at(hangs), { url: NOWHERE }), /^unreachable: the egress process does not answer/);
    t.strictSame(asked, [true, true, false], 'only a time-out leaves a doubt');
  },
);
