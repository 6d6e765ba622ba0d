import { getEventListeners, once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { getCACertificates } from 'node:tls';
import t from 'tap';
import {
  HttpClient,
  type HttpClientOptions,
  type HttpRequest,
  readAuthorities,
} from '../../src/web/httpClient.ts';
import { NoAnswer } from '../../src/web/noAnswer.ts';
import { discardBody, readBody } from '../../src/web/response.ts';
import {
  HOSTILITIES,
  type Hostility,
  hostilityOf,
  openHostile,
  TLS_HOSTILITIES,
} from '../support/hostile.ts';
import { makeTls, openSource, type SourceHandler, serving } from '../support/sources.ts';
import { until } from '../support/until.ts';

const LATE_MS = 50;
const NEVER_LATE_MS = 60_000;
const BYTES_MAX = 100_000;
const METHODS = ['GET', 'HEAD', 'POST'] as const;

/** What becomes of a request: the reason of its failure, or the status of the answer. */
async function outcomeOf(client: HttpClient, request: HttpRequest): Promise<string> {
  const body = request.method === 'POST' ? { body: Buffer.from('a request') } : {};
  try {
    return await client.exchange({ ...request, ...body }, async (answer) => {
      await readBody(answer, BYTES_MAX);
      return String(answer.statusCode);
    });
  } catch (error) {
    return error instanceof NoAnswer ? error.reason : `body: ${(error as NodeJS.ErrnoException).code}`;
  }
}

t.test('with any server, a request ends and leaves nothing behind', async (t) => {
  const clients: [string, HttpClientOptions][] = [
    ['', {}],
    [', kept', { idleConnectionsMax: 4 }],
  ];
  for (const [scheme, hostilities] of [
    ['http', HOSTILITIES],
    ['https', TLS_HOSTILITIES],
  ] as const) {
    for (const hostility of hostilities) {
      const server = await openHostile(t, hostility);
      const url = new URL(`${scheme}://${server.host}/`);
      const ask = async ([kept, options]: [string, HttpClientOptions], method: HttpRequest['method']) => {
        const client = new HttpClient(options);
        const { signal } = new AbortController();
        const isOver = method === 'HEAD' && hostility.stage === 'body';
        const timeoutMs = hostility.reason === 'timeout' && !isOver ? LATE_MS : NEVER_LATE_MS;
        const outcome = await outcomeOf(client, { method, url, signal, timeoutMs });
        const expected = isOver ? /^200$/ : expectedOf(hostility);
        t.match(outcome, expected, `${scheme}: ${hostility.name}: ${method}${kept}`);
        t.equal(getEventListeners(signal, 'abort').length, 0);
        // A connection that is kept is closed with its client.
        if (isOver) client.close();
      };
      await Promise.all(METHODS.flatMap((method) => clients.map((client) => ask(client, method))));
      await server.left();
    }
  }
});

/** A body that breaks is told by Node, as a connection that does; one that is too slow or too long by us. */
function expectedOf({ stage, reason, name }: Hostility): RegExp {
  const isOurs = reason === 'timeout' || /(body|chunks) for ever$/.test(name);
  return stage !== 'body' || isOurs ? new RegExp(`^${reason}$`) : /^body: ECONNRESET$/;
}

t.test('a body that nobody reads is cut, wherever it breaks', async (t) => {
  for (const hostility of HOSTILITIES.filter(({ stage }) => stage === 'body')) {
    const server = await openHostile(t, hostility);
    const client = new HttpClient({ idleConnectionsMax: 4 });
    const request = {
      method: 'POST',
      url: new URL(`http://${server.host}/`),
      timeoutMs: NEVER_LATE_MS,
    } as const;
    const status = await client.exchange(
      { ...request, body: Buffer.alloc(9), timed: 'head' },
      async (answer) => {
        await discardBody(answer, BYTES_MAX, LATE_MS);
        return answer.statusCode;
      },
    );
    t.equal(status, 200, hostility.name);
    await server.left();
  }
});

t.test('the reader decides how much of an answer is read, and the rest is cut', async (t) => {
  const server = await openHostile(t, hostilityOf('sends a body for ever'));
  const request = {
    method: 'GET',
    url: new URL(`http://${server.host}/`),
    timeoutMs: NEVER_LATE_MS,
  } as const;
  const client = new HttpClient({});
  t.equal(await client.exchange(request, async ({ statusCode }) => statusCode), 200);
  await server.left();
  const error = new Error('no more');
  const failing = client.exchange(request, async () => {
    throw error;
  });
  await t.rejects(failing, error);
  await server.left();
});

t.test('closing the client, or a caller that leaves, ends all requests under way', async (t) => {
  const warnings: Error[] = [];
  const warned = (warning: Error) => void warnings.push(warning);
  process.on('warning', warned);
  t.teardown(() => process.off('warning', warned));
  const server = await openHostile(t, hostilityOf('says nothing'));
  const url = new URL(`http://${server.host}/`);
  const ask = (client: HttpClient, signal: AbortSignal) =>
    Array.from({ length: 50 }, () =>
      client
        .exchange({ method: 'GET', url, timeoutMs: NEVER_LATE_MS, signal }, readAll)
        .catch((error: unknown) => error),
    );
  const stop = new AbortController();
  const client = new HttpClient({ idleConnectionsMax: 4 });
  const closed = ask(client, stop.signal);
  const gone = ask(new HttpClient({}), stop.signal);
  await until('all are under way', () => server.connections() === 100);
  client.close();
  for (const error of await Promise.all(closed)) t.match(error, { name: 'NoAnswer', reason: 'closed' });
  const reason = new Error('gone');
  stop.abort(reason);
  for (const error of await Promise.all(gone)) t.equal(error, reason);
  await server.left();
  t.equal(getEventListeners(stop.signal, 'abort').length, 0);
  t.same(warnings, []);
});

const readAll = (answer: IncomingMessage) => readBody(answer, BYTES_MAX);

t.test(
  'connections are kept if that is wanted, and one that went stale meanwhile is not a failure',
  async (t) => {
    const sockets = new Set<Socket>();
    let cut = false;
    const server = createServer(async (req, res) => {
      sockets.add(req.socket);
      res.end(await buffer(req));
      // As a server does whose idle time is over: at the moment the next request is on its way.
      if (cut) req.socket.once('data', () => req.socket.resetAndDestroy());
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.teardown(() => server.close());
    const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
    const ask = async (client: HttpClient, text: string) =>
      String(
        await client.exchange(
          { method: 'POST', url, body: Buffer.from(text), timeoutMs: NEVER_LATE_MS },
          (answer) => readBody(answer, 10),
        ),
      );
    const keeping = new HttpClient({ idleConnectionsMax: 1 });
    t.teardown(() => keeping.close());
    for (const text of ['a', 'b', 'c']) t.equal(await ask(keeping, text), text);
    t.equal(sockets.size, 1);
    cut = true;
    for (const text of ['d', 'e']) t.equal(await ask(keeping, text), text);
    t.equal(sockets.size, 2, 'asked again on a new connection');
    cut = false;
    const forgetting = new HttpClient({});
    for (const text of ['f', 'g']) t.equal(await ask(forgetting, text), text);
    t.equal(sockets.size, 4);
  },
);

t.test('redirects are returned as answers unless they are to be followed', async (t) => {
  const endless: SourceHandler = (_, res) => res.writeHead(302, { Location: '/again' }).end('elsewhere');
  const source = await openSource(t, endless);
  const request = { method: 'GET', url: new URL(source.origin), timeoutMs: NEVER_LATE_MS } as const;
  const client = new HttpClient({});
  const statusOf = async ({ statusCode }: IncomingMessage) => statusCode;
  t.equal(await client.exchange(request, statusOf), 302);
  t.equal(source.requests.length, 1);
  await t.rejects(client.exchange({ ...request, redirectsMax: 2 }, statusOf), {
    reason: 'invalid_redirect',
    message: 'redirects more than 2 times',
  });
  t.equal(source.requests.length, 4);
  const target = await openSource(t, serving(Buffer.from('here')));
  const once = await openSource(t, (_, res) => res.writeHead(307, { Location: target.origin }).end());
  t.equal(
    String(await client.exchange({ ...request, url: new URL(once.origin), redirectsMax: 1 }, readAll)),
    'here',
  );
});

t.test('a file of authorities replaces the public ones unless both are wanted', async (t) => {
  const { cert } = makeTls(t);
  const caFile = join(t.testdir({ 'ca.pem': cert }), 'ca.pem');
  t.equal(readAuthorities({ publicCas: false }), undefined, 'without a file, those of Node.js');
  t.equal(readAuthorities({ publicCas: true }), undefined);
  t.strictSame(readAuthorities({ caFile, publicCas: false }), [cert]);
  t.strictSame(readAuthorities({ caFile, publicCas: true }), [...getCACertificates('default'), cert]);
});
