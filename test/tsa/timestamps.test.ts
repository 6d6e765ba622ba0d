import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import type { Certificate } from '../../src/asn1/certificate.ts';
import { ACCURACY_MAX_MS } from '../../src/asn1/stamping.ts';
import { encodeQuery, parseQuery } from '../../src/asn1/timestampQuery.ts';
import { encodeGranted, encodeRejection } from '../../src/asn1/timestampResponse.ts';
import { sha512 } from '../../src/base/crypto.ts';
import { readCertificates } from '../../src/tsa/pki.ts';
import { type RemoteAuthorityOptions, remoteAuthority } from '../../src/tsa/remoteAuthority.ts';
import type { TimestampAuthority } from '../../src/tsa/stamp.ts';
import { Timestamps } from '../../src/tsa/timestamps.ts';
import { openTrustedClock } from '../../src/tsa/trustedClock.ts';
import { HttpClient } from '../../src/web/httpClient.ts';
import { DOCUMENT, HeldClock, IMPRINT, makeAuthority, makePki, NOON, SILENT } from '../support/authority.ts';
import { openssl } from '../support/certificates.ts';
import { HOSTILITIES, openHostile, TLS_HOSTILITIES } from '../support/hostile.ts';

const DIGEST = sha512(DOCUMENT);
const NEVER = new AbortController().signal;
const REPLY = { 'content-type': 'application/timestamp-reply' };

async function serve(t: Test, listener: RequestListener): Promise<URL> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  await new Promise((resolve) => server.once('listening', resolve));
  return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/tsa?a=b`);
}

function remote(
  t: Test,
  {
    ca,
    ...options
  }: Partial<RemoteAuthorityOptions> & { url: URL; roots: readonly Certificate[]; ca?: string },
) {
  const client = new HttpClient({ ca, idleConnectionsMax: 1 });
  t.teardown(() => client.close());
  const authority = remoteAuthority({ name: 'remote', timeoutMs: 60_000, client, ...options });
  return { ...authority, close: () => client.close() };
}

interface Bench {
  timestamps: Timestamps;
  /** The clock nobody sets. */
  pass(ms: number): void;
  log(): string;
}

/** Timestamps on the real clock, which nobody distrusts; `NOON` instead where the authority's clock stands there. */
async function openBench(
  t: Test,
  authorities: readonly TimestampAuthority[],
  clock?: () => number,
): Promise<Bench> {
  const lines: string[] = [];
  let monotonic = 0;
  const trusted = await openTrustedClock({
    source: { trust: 'system' },
    accuracyMs: 1000,
    newest: 0,
    logger: SILENT,
    ...(clock && { clock, monotonicMs: () => 0 }),
  });
  t.teardown(() => trusted.close());
  const logger = pino({}, { write: (line: string) => void lines.push(line) });
  return {
    timestamps: new Timestamps({ authorities, clock: trusted, logger, monotonicMs: () => monotonic }),
    pass: (ms) => {
      monotonic += ms;
    },
    log: () => lines.join(''),
  };
}

/** An OpenSSL authority in a folder: `openssl ts -reply` with a root and a unit of its own. */
function makeOpensslAuthority(t: Test): { root: Certificate; reply(query: Buffer): Buffer } {
  const dir = t.testdir({
    'tsa.cnf': `
[ tsa ]
serial = ${join(t.testdirName, 'serial')}
signer_cert = ${join(t.testdirName, 'unit.pem')}
signer_key = ${join(t.testdirName, 'unit.key')}
certs = ${join(t.testdirName, 'root.pem')}
signer_digest = sha256
default_policy = 1.2.3.4.1
other_policies = 1.2.3.4.5
digests = sha256, sha512
accuracy = secs:1, millisecs:500
clock_precision_digits = 3
ess_cert_id_alg = sha256
[ unit ]
extendedKeyUsage = critical,timeStamping
keyUsage = critical,digitalSignature
[ req ]
distinguished_name = dn
[ dn ]
`,
    serial: '01\n',
  });
  const file = (name: string) => join(dir, name);
  const run = (...args: string[]) => {
    const { status, output } = openssl(...args);
    if (status !== 0) throw new Error(output);
  };
  run(
    'req',
    '-x509',
    '-newkey',
    'rsa:3072',
    '-nodes',
    '-keyout',
    file('root.key'),
    '-subj',
    '/CN=Other Root',
    '-days',
    '9',
    '-out',
    file('root.pem'),
  );
  run(
    'req',
    '-new',
    '-config',
    file('tsa.cnf'),
    '-newkey',
    'rsa:3072',
    '-nodes',
    '-keyout',
    file('unit.key'),
    '-subj',
    '/CN=Other TSU',
    '-out',
    file('unit.csr'),
  );
  run(
    'x509',
    '-req',
    '-in',
    file('unit.csr'),
    '-CA',
    file('root.pem'),
    '-CAkey',
    file('root.key'),
    '-CAcreateserial',
    '-days',
    '8',
    '-extfile',
    file('tsa.cnf'),
    '-extensions',
    'unit',
    '-out',
    file('unit.pem'),
  );
  const [root] = readCertificates(readFileSync(file('root.pem')), 'root.pem');
  if (root === undefined) throw new Error('no root');
  return {
    root,
    reply: (query) => {
      writeFileSync(file('query'), query);
      const args = [
        'ts',
        '-reply',
        '-config',
        file('tsa.cnf'),
        '-section',
        'tsa',
        '-queryfile',
        file('query'),
      ];
      return execFileSync('openssl', args, { stdio: ['ignore', 'pipe', 'ignore'] });
    },
  };
}

/** What a stock authority behind a small server sees and says. */
function answerWith(reply: (query: Buffer) => Uint8Array) {
  return async (request: IncomingMessage, response: ServerResponse) => {
    const query = await buffer(request);
    response.writeHead(200, REPLY).end(reply(query));
  };
}

t.test('an authority of another implementation gives a time-stamp over HTTP', async (t) => {
  const other = makeOpensslAuthority(t);
  const seen: { method?: string; url?: string; type?: string; length?: string }[] = [];
  const url = await serve(t, async (request, response) => {
    const { method = '', url = '', headers } = request;
    seen.push({ method, url, type: headers['content-type'] ?? '', length: headers['content-length'] ?? '' });
    await answerWith(other.reply)(request, response);
  });
  const { timestamps } = await openBench(t, [remote(t, { url, roots: [other.root] })]);
  const stamp = await timestamps.stamp(DIGEST);
  t.match(stamp, {
    authorityName: 'remote',
    timestamp: { authority: 'CN=Other TSU', policy: '1.2.3.4.1', accuracyMs: 1500, serial: '02' },
  });
  t.equal(stamp.timestamp.chain.length, 2);
  t.ok(Math.abs(stamp.timestamp.genTime - Date.now()) < 60_000);
  t.match(seen, [{ method: 'POST', url: '/tsa?a=b', type: 'application/timestamp-query', length: /^\d+$/ }]);
  t.match(timestamps.status().authorities, [{ name: 'remote', tokens: 1, failures: 0, notAfter: Number }]);

  await t.test('the requested policy is used', async (t) => {
    const asking = (policy: string) => openBench(t, [remote(t, { url, roots: [other.root], policy })]);
    const { timestamps } = await asking('1.2.3.4.5');
    t.match(await timestamps.stamp(DIGEST), { timestamp: { policy: '1.2.3.4.5' } });
    const refused = (await asking('1.2.3.4.6')).timestamps;
    await t.rejects(refused.stamp(DIGEST), { trouble: 'authority_refused', message: /unacceptedPolicy/ });
  });

  await t.test('a token under another root is refused', async (t) => {
    const { root } = await makePki();
    const { timestamps } = await openBench(t, [remote(t, { url, roots: [root] })]);
    await t.rejects(timestamps.stamp(DIGEST), { trouble: 'token_invalid', message: /no trusted root/ });
  });
});

t.test('an authority is reached over HTTPS with a certificate authority of its own', async (t) => {
  const { unit, root } = await makePki();
  const authority = makeAuthority([unit]);
  const dir = t.testdir();
  const [key, cert] = [join(dir, 'key.pem'), join(dir, 'cert.pem')];
  openssl(
    'req',
    '-x509',
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:P-256',
    '-nodes',
    '-keyout',
    key,
    '-subj',
    '/CN=localhost',
    '-addext',
    'subjectAltName=IP:127.0.0.1',
    '-days',
    '2',
    '-out',
    cert,
  );
  const ca = readFileSync(cert, 'utf8');
  const server = createTlsServer({ key: readFileSync(key), cert: ca }, async (request, response) => {
    response.writeHead(200, REPLY).end(await authority.answerQuery(await buffer(request)));
  }).listen(0, '127.0.0.1');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  await new Promise((resolve) => server.once('listening', resolve));
  const url = new URL(`https://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  const trusting = await openBench(t, [remote(t, { url, roots: [root], ca })], () => NOON);
  t.match(await trusting.timestamps.stamp(DIGEST), { timestamp: { genTime: NOON } });
  const distrusting = await openBench(t, [remote(t, { url, roots: [root] })], () => NOON);
  await t.rejects(distrusting.timestamps.stamp(DIGEST), {
    trouble: 'authority_unreachable',
    message: /self-signed/,
  });
});

t.test('each wrong answer of an authority is refused with its trouble', async (t) => {
  const { unit, root } = await makePki();
  const authority = makeAuthority([unit]);
  const stale = await authority.answerQuery(encodeQuery({ imprint: IMPRINT, certReq: true }));
  const late = makeAuthority([unit], new HeldClock(NOON + 10_000));
  const early = makeAuthority([unit], new HeldClock(NOON - 10_000));
  const vague = makeAuthority([unit], new HeldClock(NOON, ACCURACY_MAX_MS + 1));
  const misbehaviours: [what: string, trouble: string, message: RegExp, listener: RequestListener][] = [
    [
      'status 500',
      'authority_unreachable',
      /HTTP status 500/,
      (_, response) => response.writeHead(500, REPLY).end(),
    ],
    [
      'redirect',
      'authority_unreachable',
      /HTTP status 307/,
      (_, response) => response.writeHead(307, { location: '/' }).end(),
    ],
    [
      'a web page',
      'authority_unreachable',
      /content type "text\/html"/,
      (_, response) => response.writeHead(200, { 'content-type': 'Text/HTML; charset=utf-8' }).end('<html>'),
    ],
    [
      'too much',
      'authority_unreachable',
      /more than 66560 bytes/,
      (_, response) => response.writeHead(200, REPLY).end(Buffer.alloc(70_000)),
    ],
    [
      'half an answer',
      'authority_unreachable',
      /aborted|hang up|ECONNRESET/,
      (_, response) =>
        response.writeHead(200, { ...REPLY, 'content-length': 99 }).write('x', () => response.destroy()),
    ],
    ['hanging up', 'authority_unreachable', /hang up|ECONNRESET/, (request) => request.socket.destroy()],
    ['silence', 'authority_unreachable', /no answer within 150 ms/, () => {}],
    [
      'an answer that never ends',
      'authority_unreachable',
      /no answer within 150 ms/,
      (_, response) => response.writeHead(200, REPLY).write('x'),
    ],
    ['no DER', 'token_invalid', /its response: not DER/, answerWith(() => Buffer.from('hello'))],
    [
      'a refusal',
      'authority_refused',
      /rejection, timeNotAvailable, later/,
      answerWith(() => encodeRejection('timeNotAvailable', 'later')),
    ],
    ['no token in it', 'token_invalid', /malformed/, answerWith(() => encodeGranted(root.der))],
    ['an old token', 'token_invalid', /nonce/, answerWith(() => stale)],
    [
      'another imprint',
      'token_invalid',
      /imprint/,
      (request, response) =>
        void buffer(request).then(async (query) => {
          const { nonce = Buffer.from([1]) } = parseQuery(query);
          const digest = { algorithm: 'sha512', digest: sha512(Buffer.from('else')) } as const;
          response
            .writeHead(200, REPLY)
            .end(await authority.answerQuery(encodeQuery({ imprint: digest, nonce, certReq: true })));
        }),
    ],
    [
      'a time ahead',
      'token_invalid',
      /its token says .*12:00:10/,
      (request, response) =>
        void buffer(request).then(async (query) =>
          response.writeHead(200, REPLY).end(await late.answerQuery(query)),
        ),
    ],
    [
      'a time behind',
      'token_invalid',
      /its token says .*11:59:50/,
      (request, response) =>
        void buffer(request).then(async (query) =>
          response.writeHead(200, REPLY).end(await early.answerQuery(query)),
        ),
    ],
    [
      'an accuracy that no verifier accepts',
      'token_invalid',
      /its token states an accuracy of 300001 ms; needed: 300000 ms or better/,
      (request, response) =>
        void buffer(request).then(async (query) =>
          response.writeHead(200, REPLY).end(await vague.answerQuery(query)),
        ),
    ],
  ];
  for (const [what, trouble, message, listener] of misbehaviours) {
    const url = await serve(t, listener);
    const authorities = [
      remote(t, { url, roots: [root], timeoutMs: message.source.includes('150') ? 150 : 60_000 }),
    ];
    const { timestamps } = await openBench(t, authorities, () => NOON);
    await t.rejects(timestamps.stamp(DIGEST), { name: 'TimestampUnavailable', trouble, message }, what);
    t.match(timestamps.status().authorities, [{ tokens: 0, failures: 1, trouble }]);
  }
});

t.test('if an authority fails in any way, the next one is asked', async (t) => {
  const { unit, root } = await makePki();
  const builtIn = makeAuthority([unit]);
  for (const [scheme, hostilities] of [
    ['http', HOSTILITIES],
    ['https', TLS_HOSTILITIES],
  ] as const) {
    for (const hostility of hostilities) {
      const server = await openHostile(t, hostility);
      const timeoutMs = hostility.reason === 'timeout' ? 50 : 60_000;
      const url = new URL(`${scheme}://${server.host}/tsa`);
      const hostile = remote(t, { url, roots: [root], timeoutMs });
      const { timestamps } = await openBench(t, [hostile, builtIn], () => NOON);
      t.match(await timestamps.stamp(DIGEST), { authorityName: 'built-in' }, hostility.name);
      t.match(timestamps.status().authorities, [
        { name: 'remote', tokens: 0, failures: 1, trouble: 'authority_unreachable' },
        { name: 'built-in', tokens: 1, failures: 0 },
      ]);
      await server.left();
    }
  }
});

t.test(
  'a stamp that is aborted does not count as a failure, and a closed authority is not asked',
  async (t) => {
    const { unit, root } = await makePki();
    const builtIn = makeAuthority([unit]);
    const asked = Promise.withResolvers<void>();
    const url = await serve(t, () => asked.resolve());
    const silent = remote(t, { url, roots: [root], timeoutMs: 60_000 });
    const { timestamps } = await openBench(t, [silent, builtIn], () => NOON);
    const stop = new AbortController();
    const stamping = timestamps.stamp(DIGEST, stop.signal);
    await asked.promise;
    stop.abort();
    await t.rejects(stamping, { name: 'TimestampUnavailable' });
    t.match(timestamps.status().authorities, [
      { tokens: 0, failures: 0 },
      { tokens: 0, failures: 0 },
    ]);
    const answering = silent.answerQuery(Buffer.from('a query'));
    silent.close();
    await t.rejects(answering, { trouble: 'authority_unreachable', message: /being stopped/ });
  },
);

t.test('a kept connection that went stale is not a failure', async (t) => {
  const { unit, root } = await makePki();
  const authority = makeAuthority([unit]);
  let connections = 0;
  const url = await serve(t, async (request, response) => {
    const query = await buffer(request);
    response.writeHead(200, { ...REPLY, connection: 'keep-alive' });
    response.end(await authority.answerQuery(query), () => {
      connections += 1;
      request.socket.once('data', () => request.socket.destroy());
    });
  });
  const { timestamps } = await openBench(t, [remote(t, { url, roots: [root] })], () => NOON);
  for (let n = 0; n < 3; n++) t.match(await timestamps.stamp(DIGEST), { authorityName: 'remote' });
  t.equal(connections, 3);
});

t.test('if an authority fails, the next one is asked, and the first one again later', async (t) => {
  const { unit, root } = await makePki();
  const builtIn = makeAuthority([unit]);
  let up = false;
  let asked = 0;
  const url = await serve(t, async (request, response) => {
    asked += 1;
    if (!up) return void response.writeHead(503).end();
    response.writeHead(200, REPLY).end(await builtIn.answerQuery(await buffer(request)));
  });
  const bench = await openBench(t, [remote(t, { url, roots: [root] }), builtIn], () => NOON);
  const { timestamps, pass } = bench;
  const stampedBy = async () => (await timestamps.stamp(DIGEST)).authorityName;

  t.equal(await stampedBy(), 'built-in');
  t.equal(await stampedBy(), 'built-in');
  t.equal(asked, 1, 'the failed one comes last for a while');
  up = true;
  pass(29_999);
  t.equal(await stampedBy(), 'built-in');
  pass(1);
  t.equal(await stampedBy(), 'remote');
  t.match(timestamps.status().authorities, [
    { name: 'remote', tokens: 1, failures: 1, trouble: undefined },
    { name: 'built-in', tokens: 3, failures: 0 },
  ]);
  t.match(bench.log(), /no time-stamp from this authority[\s\S]*answers again/);
});

t.test('if all authorities fail, none is asked during a pause that grows', async (t) => {
  const { unit } = await makePki();
  const dead = makeAuthority([{ ...unit, signer: { ...unit.signer, sign: async () => undefined } }]);
  const { timestamps, pass, log } = await openBench(t, [dead], () => NOON);
  t.ok(timestamps.canStamp());
  for (const pauseMs of [250, 500, 1000, 2000, 4000, 5000, 5000]) {
    await t.rejects(timestamps.stamp(DIGEST), { trouble: 'authority_refused', message: /systemFailure/ });
    t.notOk(timestamps.canStamp());
    pass(pauseMs - 1);
    t.notOk(timestamps.canStamp());
    pass(1);
    t.ok(timestamps.canStamp());
    await timestamps.recovered(NEVER);
  }
  t.equal(log().split('no time-stamp from').length, 2, 'told once');
  const none = await openBench(t, []);
  await t.rejects(none.timestamps.stamp(DIGEST), { message: /no time-stamp authority is configured/ });
});

t.test('a clock that fails meanwhile does not count against the authority', async (t) => {
  const { unit } = await makePki();
  const builtIn = makeAuthority([unit]);
  let wall = NOON;
  const stepping: TimestampAuthority = {
    name: 'stepping',
    roots: builtIn.roots,
    answerQuery: async (query) => {
      wall += 10_000;
      return builtIn.answerQuery(query);
    },
  };
  const { timestamps } = await openBench(t, [stepping], () => wall);
  await t.rejects(timestamps.stamp(DIGEST), { trouble: 'clock_stepped', message: /it was set/ });
  t.strictSame(timestamps.status().authorities, [{ name: 'stepping', tokens: 0, failures: 0 }]);
});

t.test('without a trusted clock no authority is asked', async (t) => {
  const { root } = await makePki();
  const url = await serve(t, () => t.fail('asked'));
  const clock = await openTrustedClock({
    source: { trust: 'chrony', program: '/bin/false' },
    accuracyMs: 1000,
    newest: 0,
    logger: SILENT,
  });
  t.teardown(() => clock.close());
  const timestamps = new Timestamps({
    authorities: [remote(t, { url, roots: [root] })],
    clock,
    logger: SILENT,
  });
  await t.rejects(timestamps.stamp(DIGEST), { trouble: 'clock_unknown', message: /cannot be asked/ });
  t.notOk(timestamps.canStamp());
  t.match(timestamps.status(), { clock: { trouble: 'clock_unknown' }, authorities: [{ failures: 0 }] });
  const stop = new AbortController();
  const waiting = timestamps.recovered(stop.signal);
  stop.abort();
  await waiting;
});
