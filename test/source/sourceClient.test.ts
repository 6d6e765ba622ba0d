import type { lookup } from 'node:dns';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { ServiceError } from '../../src/base/errors.ts';
import { SourceClient } from '../../src/source/sourceClient.ts';
import { EgressClient } from '../../src/web/egressClient.ts';
import { HttpClient, type HttpClientOptions } from '../../src/web/httpClient.ts';
import { IncomingBody } from '../../src/web/incomingBody.ts';
import { TargetPolicy } from '../../src/web/policy.ts';
import { pdfOf } from '../support/app.ts';
import { HOSTILITIES, openHostile, TLS_HOSTILITIES } from '../support/hostile.ts';
import { NEVER } from '../support/partitions.ts';
import {
  either,
  makeTls,
  openSource,
  type SourceHandler,
  serving,
  sha256Of,
  status,
} from '../support/sources.ts';

const DOCUMENT = pdfOf('a hosted document', 2000);
const LOOPBACK = ['127.0.0.0/8', '::1'];

interface Options extends HttpClientOptions {
  allow?: string[];
  answerTimeoutMs?: number;
}

function clientOf({
  allow = LOOPBACK,
  answerTimeoutMs = 60_000,
  policy = new TargetPolicy(allow),
  ...more
}: Options = {}): SourceClient {
  return new SourceClient(new HttpClient({ policy, ...more }), answerTimeoutMs);
}

function read(client: SourceClient, url: string, signal = NEVER): Promise<Buffer> {
  return client.fetch(url, signal, (answer) => buffer(answer));
}

/** What both kinds of request to such a server end in. */
async function refusals(t: Test, handle: SourceHandler, options: Parameters<typeof clientOf>[0] = {}) {
  const { origin } = await openSource(t, handle);
  const client = clientOf(options);
  const caught = async (ask: () => Promise<unknown>) => {
    try {
      await ask();
      return 'answered';
    } catch (error) {
      const { code, message, retryAfterSeconds } = error as Record<string, unknown>;
      return `${code}${retryAfterSeconds === undefined ? '' : ` (again after ${retryAfterSeconds} s)`}: ${message}`;
    }
  };
  return {
    head: await caught(() => client.probe(`${origin}/a.pdf`, NEVER)),
    get: await caught(() => read(client, `${origin}/a.pdf`)),
  };
}

t.test('HEAD gives digest and length, and GET the document', async (t) => {
  const source = await openSource(t, serving(DOCUMENT));
  const client = clientOf();
  const url = `${source.origin}/a.pdf?signature=x%20y#page=2`;
  t.same(await client.probe(url, NEVER), { sha256: sha256Of(DOCUMENT), bytes: DOCUMENT.length });
  t.same(await read(client, url), DOCUMENT);
  t.same(source.requests, ['HEAD /a.pdf?signature=x%20y', 'GET /a.pdf?signature=x%20y']);
  for (const headers of source.headers) {
    t.match(headers, {
      'want-repr-digest': 'sha-256=10',
      'accept-encoding': 'identity',
      'user-agent': 'pdfseald',
      connection: 'close',
    });
  }
});

t.test('a source that answers only GET announces nothing, but can be fetched from', async (t) => {
  for (const code of [403, 405, 501]) {
    const { origin } = await openSource(t, either(status(code), serving(DOCUMENT)));
    t.same(await clientOf().probe(origin, NEVER), {}, `${code}`);
    t.same(await read(clientOf(), origin), DOCUMENT);
  }
});

t.test('an answer that is not the document is refused with the reason', async (t) => {
  const encoded = { 'Content-Encoding': 'gzip' };
  const cases: [string, SourceHandler, head: RegExp, get: RegExp][] = [
    ['404', status(404), /^source_unreachable: .*status 404/, /^source_unreachable: .*status 404/],
    ['410', status(410), /^source_unreachable: /, /^source_unreachable: .*status 410/],
    ['500', status(500), /^source_unreachable \(again after 1 s\): .*500/, /\(again after 1 s\)/],
    ['503 with a time', status(503, { 'Retry-After': '7' }), /\(again after 7 s\)/, /\(again after 7 s\)/],
    ['503 with a very long time', status(503, { 'Retry-After': '999999' }), /after 3600 s/, /after 3600 s/],
    ['503 with a date', status(503, { 'Retry-After': 'tomorrow' }), /after 1 s/, /after 1 s/],
    ['429', status(429), /\(again after 1 s\)/, /\(again after 1 s\)/],
    ['206', status(206), /^answered/, /^source_unreachable: .*status 206/],
    ['204', status(204), /^answered/, /^source_unreachable: .*status 204/],
    ['304', status(304), /^source_unreachable: /, /^source_unreachable: .*status 304/],
    ['a redirect to nowhere', status(302), /status 302/, /status 302/],
    ['a redirect to no URL', status(302, { Location: 'http://[' }), /an invalid URL/, /an invalid URL/],
    ['gzip', serving(DOCUMENT, encoded), /^source_unreachable: .*encoded/, /^source_unreachable: .*encoded/],
    [
      'a connection that ends',
      (_, res) => res.socket?.destroy(),
      /again after 1 s.*closed/,
      /again after 1 s.*closed/,
    ],
    [
      'what is no HTTP',
      (_, res) => void res.socket?.end('SSH-2.0-OpenSSH_9.2\r\n'),
      /again after 1 s/,
      /again after 1 s/,
    ],
    [
      'headers without end',
      (_, res) => {
        const socket = res.socket;
        socket?.write('HTTP/1.1 200 OK\r\n');
        const more = () => socket?.writable && socket.write(`X: ${'y'.repeat(1000)}\r\n`, more);
        more();
      },
      /again after 1 s/,
      /again after 1 s/,
    ],
  ];
  for (const [name, handle, head, get] of cases) {
    const refused = await refusals(t, handle);
    t.match(refused.head, head, `HEAD: ${name}`);
    t.match(refused.get, get, `GET: ${name}`);
  }
});

t.test('a source that sends nothing, or 103 for ever, times out', async (t) => {
  const silent = await refusals(t, () => {}, { answerTimeoutMs: 100 });
  t.match(silent.head, /^source_unreachable \(again after 1 s\): .*did not answer within 0.1 s/);
  const hinting: SourceHandler = async (_, res) => {
    while (res.socket?.writable) {
      res.writeEarlyHints({ link: '</a>; rel=preload' });
      await sleep(5);
    }
  };
  t.match((await refusals(t, hinting)).get, /does not answer in valid HTTP/);
});

t.test('a source that does not speak HTTP can be asked again later', async (t) => {
  const bytesMax = 100_000;
  const readAll = (answer: IncomingMessage) => {
    let bytes = 0;
    return new IncomingBody(answer, { idleTimeoutMs: 50, bytesPerSecondMin: 1_000_000 }).read((chunk) => {
      bytes += chunk.length;
      if (bytes > bytesMax) throw new ServiceError('document_too_large', 'too long');
    });
  };
  const outcomeOf = (asking: Promise<unknown>) =>
    asking.then(
      () => 'answered',
      ({ code, retryAfterSeconds }: ServiceError) => `${code} ${retryAfterSeconds}`,
    );
  for (const [scheme, hostilities] of [
    ['http', HOSTILITIES],
    ['https', TLS_HOSTILITIES],
  ] as const) {
    for (const hostility of hostilities) {
      const { name, stage, reason } = hostility;
      const server = await openHostile(t, hostility);
      const url = `${scheme}://${server.host}/a.pdf`;
      const client = clientOf({ answerTimeoutMs: reason === 'timeout' && stage !== 'body' ? 50 : 60_000 });
      const head = await outcomeOf(client.probe(url, NEVER));
      t.equal(head, stage === 'body' ? 'answered' : 'source_unreachable 1', `HEAD: ${name}`);
      const get = await outcomeOf(client.fetch(url, NEVER, readAll));
      const body = /^(body_timeout|incomplete_body|document_too_large) undefined$/;
      t.match(get, stage === 'body' ? body : /^source_unreachable 1$/, `GET: ${name}`);
      await server.left();
    }
  }
});

t.test('at most three redirects are followed, only to allowed places', async (t) => {
  const target = await openSource(t, serving(DOCUMENT));
  const hops = await openSource(t, (req, res) => {
    const left = Number(req.url?.slice(1));
    const location = left > 1 ? `/${left - 1}` : `${target.origin}/a.pdf`;
    res.writeHead([301, 302, 303, 307, 308][left % 5] ?? 302, { Location: location }).end('elsewhere');
  });
  for (const count of [1, 3]) {
    t.same(await clientOf().probe(`${hops.origin}/${count}`, NEVER), {
      sha256: sha256Of(DOCUMENT),
      bytes: DOCUMENT.length,
    });
    t.same(await read(clientOf(), `${hops.origin}/${count}`), DOCUMENT);
  }
  await t.rejects(read(clientOf(), `${hops.origin}/4`), {
    code: 'source_unreachable',
    message: /redirects more than 3 times/,
  });
  hops.requests.length = 0;
  await t.rejects(read(clientOf(), `${hops.origin}/200`), { code: 'source_unreachable' });
  t.equal(hops.requests.length, 4, 'and no further than that');

  const aside = await openSource(t, serving(DOCUMENT), { host: '127.0.0.2' });
  for (const Location of [
    aside.origin,
    'http://169.254.169.254/latest/meta-data/',
    'http://[::ffff:169.254.169.254]/',
    'http://[64:ff9b::a9fe:a9fe]/',
    'http://2852039166/',
    'ftp://127.0.0.1/',
    'file:///etc/passwd',
    `http://user:secret@127.0.0.1:${target.port}/`,
  ]) {
    const from = await openSource(t, status(302, { Location }));
    await t.rejects(
      read(clientOf({ allow: ['127.0.0.1'] }), from.origin),
      { code: 'source_not_allowed', retryAfterSeconds: undefined },
      Location,
    );
  }
  t.same(aside.requests, []);
});

t.test('TLS is verified, and a redirect to plain HTTP is refused', async (t) => {
  const tls = makeTls(t);
  const plain = await openSource(t, serving(DOCUMENT));
  const source = await openSource(
    t,
    (req, res) =>
      (req.url === '/down' ? status(302, { Location: plain.origin }) : serving(DOCUMENT))(req, res),
    { tls },
  );
  await t.rejects(read(clientOf(), source.origin), {
    code: 'source_unreachable',
    message: /certificate is not trusted/,
    retryAfterSeconds: 1,
  });
  t.same(source.requests, [], 'nothing was asked of a stranger');
  const trusting = clientOf({ ca: tls.cert });
  t.same(await read(trusting, source.origin), DOCUMENT);
  t.same(await read(trusting, `https://localhost:${source.port}/`), DOCUMENT);
  await t.rejects(read(trusting, `https://127.0.0.9:${source.port}/`), { code: 'source_unreachable' });
  await t.rejects(read(trusting, `${source.origin}/down`), { code: 'source_not_allowed' });
  const alien = clientOf({ ca: makeTls(t).cert });
  await t.rejects(read(alien, source.origin), { message: /certificate is not trusted/ });
  t.same(plain.requests, []);
});

t.test('the checked address is the one connected to, even if look-ups change', async (t) => {
  const inside = await openSource(t, serving(Buffer.from('internal')), { host: '127.0.0.1' });
  const outside = await openSource(t, serving(DOCUMENT), { host: '127.0.0.2', port: inside.port });
  const answers: string[][] = [];
  const looked: string[] = [];
  const resolve = ((name: string, _: object, done: (error: null, found: object[]) => void) => {
    looked.push(name);
    done(
      null,
      (answers.shift() ?? []).map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
    );
  }) as unknown as typeof lookup;
  const policy = new TargetPolicy(['127.0.0.2'], resolve);
  const client = clientOf({ policy });
  const url = `http://files.example.com:${inside.port}/`;

  answers.push(['127.0.0.2'], ['127.0.0.1']);
  t.same(await client.probe(url, NEVER), { sha256: sha256Of(DOCUMENT), bytes: DOCUMENT.length });
  await t.rejects(read(client, url), { code: 'source_not_allowed' }, 'it is inside now');
  answers.push(['127.0.0.1', '169.254.169.254', '127.0.0.2', '::ffff:127.0.0.1']);
  t.same(await read(client, url), DOCUMENT, 'of several addresses only those that are allowed');
  t.same(looked, Array(3).fill('files.example.com'), 'one look-up for each connection');
  t.same(inside.requests, []);
  t.equal(outside.requests.length, 2);
});

t.test('IPv6 addresses are allowed only if they are listed', async (t) => {
  const source = await openSource(t, serving(DOCUMENT), { host: '::1' }).catch(() => undefined);
  const url = source?.origin ?? 'http://[::1]:9';
  await t.rejects(read(clientOf({ allow: ['127.0.0.0/8'] }), url), { code: 'source_not_allowed' });
  await t.rejects(read(clientOf({ allow: [url] }), url), { code: 'source_not_allowed' });
  // A machine without IPv6 has nothing there, and that is what it must say.
  if (source) t.same(await read(clientOf({ allow: ['::1'] }), url), DOCUMENT);
  else await t.rejects(read(clientOf({ allow: ['::1'] }), url), { code: 'source_unreachable' });
  const mapped = await openSource(t, serving(DOCUMENT));
  const mappedUrl = `http://[::ffff:127.0.0.1]:${mapped.port}/`;
  await t.rejects(read(clientOf({ allow: ['::1'] }), mappedUrl), { code: 'source_not_allowed' });
});

t.test('a local fault does not count against a source, and its document is fetched later', async (t) => {
  const away = new SourceClient(
    new EgressClient('sources', {
      socketPath: async () => '/nowhere/egress.sock',
      noticed: () => {},
      troubleSince: async () => undefined,
    }),
    1000,
  );
  t.same(await away.probe('https://erp.example.com/a.pdf', NEVER), {});
  await t.rejects(read(away, 'https://erp.example.com/a.pdf'), {
    code: 'source_unreachable',
    retryAfterSeconds: 1,
  });
});

t.test('an aborted request ends with its reason at any time', async (t) => {
  const source = await openSource(t, (_, res) => res.writeHead(200).write('%PDF-'));
  const reason = new Error('enough');
  await t.rejects(read(clientOf(), source.origin, AbortSignal.abort(reason)), reason);
  const stop = new AbortController();
  const reading = clientOf().fetch(source.origin, stop.signal, async (answer) => {
    answer.once('data', () => stop.abort(reason));
    await once(answer, 'close');
    t.notOk(answer.complete);
    throw new Error('broken off');
  });
  await t.rejects(reading, reason);
});
