/** `POST /v1/timestamp`, asked as stock clients ask it, over an authority whose key is in a real token. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { constructed, contextTag, integer, octetString, oid, sequence } from '../../src/asn1/der.ts';
import { encodePem } from '../../src/asn1/pem.ts';
import { encodeQuery } from '../../src/asn1/timestampQuery.ts';
import { type FailureInfo, parseResponse } from '../../src/asn1/timestampResponse.ts';
import { parseTimestampToken } from '../../src/asn1/timestampToken.ts';
import { toHex } from '../../src/base/bytes.ts';
import { QUERIES_MAX, STAMPED_MAX } from '../../src/http/timestampRoute.ts';
import { QUERY_BYTES_MAX } from '../../src/tsa/builtInAuthority.ts';
import { openTestApp, pdfOf } from '../support/app.ts';
import { DOCUMENT, IMPRINT, POLICY } from '../support/authority.ts';
import { openssl } from '../support/certificates.ts';
import type { Answer, Client, Envelope, JobBody } from '../support/client.ts';
import { partsOf } from '../support/der.ts';
import { pidOf } from '../support/partitions.ts';
import { exchange, parseAnswer, Wire } from '../support/wire.ts';
import { openHsmAuthority } from '../tsa/hsmAuthority.ts';

const run = promisify(execFile);
const PATH = '/v1/timestamp';
const QUERY_TYPE = 'application/timestamp-query';
const REPLY_TYPE = 'application/timestamp-reply';
const QUERY = encodeQuery({ imprint: IMPRINT, certReq: true });

const codeOf = (answer: Pick<Answer, 'status' | 'text'>) =>
  `${answer.status} ${(JSON.parse(answer.text) as Envelope).error.code}`;

const ask = (client: Client, query: Uint8Array, headers: Record<string, string> = {}): Promise<Answer> =>
  client.request('POST', PATH, {
    headers: { 'Content-Type': QUERY_TYPE, ...headers },
    body: Uint8Array.from(query),
  });

const { authority, partitions, root } = await openHsmAuthority(t, 'ecdsa-p256', 30_000);
const { client, server, issue } = await openTestApp(t, { app: { authority } });

t.test('openssl verifies the time-stamp of a query that curl sent', async (t) => {
  const dir = t.testdir({ document: DOCUMENT, 'root.pem': encodePem('CERTIFICATE', root.der) });
  const file = (name: string) => join(dir, name);
  for (const options of [['-sha256'], ['-sha384', '-no_nonce'], ['-sha512', '-tspolicy', POLICY]]) {
    openssl('ts', '-query', '-data', file('document'), '-cert', ...options, '-out', file('query'));
    const { stdout } = await run('curl', [
      ...['--silent', '--show-error', '--max-time', '15', '--output', file('response')],
      ...['--header', `Authorization: Bearer ${client.apiKey}`, '--header', `Content-Type: ${QUERY_TYPE}`],
      ...['--data-binary', `@${file('query')}`, '--write-out', '%{http_code} %{content_type}'],
      client.baseUrl + PATH,
    ]);
    t.equal(stdout, `200 ${REPLY_TYPE}`);
    const verify = ['ts', '-verify', '-in', file('response'), '-CAfile', file('root.pem')];
    t.match(openssl(...verify, '-queryfile', file('query')), { status: 0, output: /Verification: OK/ });
    t.match(openssl(...verify, '-data', file('document')), { status: 0, output: /Verification: OK/ });
  }
});

const fields = partsOf(QUERY);
const extensions = constructed(contextTag(0), [sequence(oid('1.2.3.4'), octetString(Buffer.alloc(0)))]);
const sha1 = sequence(sequence(oid('1.3.14.3.2.26')), octetString(Buffer.alloc(20)));

t.test('every rejection of the standard is given as a time-stamp response', async (t) => {
  const cases: [string, Uint8Array, FailureInfo][] = [
    ['SHA-1', sequence(...fields.with(1, sha1)), 'badAlg'],
    ['version 2', sequence(...fields.with(0, integer(2))), 'badRequest'],
    ['nothing', Buffer.alloc(0), 'badDataFormat'],
    ['no DER', Buffer.from('%PDF-1.7'), 'badDataFormat'],
    ['all that fits', Buffer.alloc(QUERY_BYTES_MAX), 'badDataFormat'],
    ['another policy', encodeQuery({ imprint: IMPRINT, certReq: true, policy: '1.2.3' }), 'unacceptedPolicy'],
    ['an extension', sequence(...fields, extensions), 'unacceptedExtension'],
  ];
  for (const [what, query, failure] of cases) rejected(t, await ask(client, query), failure, what);
  t.equal(parseResponse((await ask(client, QUERY)).bytes).status, 'granted');
});

t.test('without a key that signs or a trusted time, the answer is a rejection', async (t) => {
  const { authority, clock, partitions } = await openHsmAuthority(t);
  const { client } = await openTestApp(t, { app: { authority } });
  await partitions.close();
  rejected(t, await ask(client, QUERY), 'systemFailure');
  clock.raiseFloor(Date.now() + 3_600_000);
  rejected(t, await ask(client, QUERY), 'timeNotAvailable');
});

t.test('a request that does not reach the authority gets the error envelope', async (t) => {
  const cases: [string, () => Promise<Answer>, string][] = [
    ['no key', () => ask(client.as(undefined), QUERY), '401 authentication_required'],
    ['a wrong key', () => ask(client.as('nonsense'), QUERY), '401 invalid_api_key'],
    [
      'no scope',
      async () => ask(client.as(await issue({ scopes: ['jobs:read'] })), QUERY),
      '403 insufficient_scope',
    ],
    [
      'another type',
      () => ask(client, QUERY, { 'Content-Type': 'application/octet-stream' }),
      '415 unsupported_media_type',
    ],
    ['a coded body', () => ask(client, QUERY, { 'Content-Encoding': 'gzip' }), '415 unsupported_media_type'],
    ['too long', () => ask(client, Buffer.alloc(QUERY_BYTES_MAX + 1)), '413 body_too_large'],
    ['too long, in chunks', () => stream(client, Buffer.alloc(QUERY_BYTES_MAX + 1)), '413 body_too_large'],
    ['another method', () => client.get(PATH), '405 method_not_allowed'],
  ];
  for (const [what, send, expected] of cases) t.equal(codeOf(await send()), expected, what);

  const post = (headers: string) =>
    exchange(server.port, `${head(client, headers)}Connection: close\r\n\r\n`);
  t.equal(codeOf(await post('Content-Length: 0\r\n')), '415 unsupported_media_type', 'no type');
  const { status } = await post('CONTENT-TYPE: APPLICATION/TIMESTAMP-QUERY; a=b\r\nContent-Length: 0\r\n');
  t.equal(status, 200, 'the type in capitals and with parameters is the type');
});

t.test('a query that arrives too slowly times out', async (t) => {
  const { client, server } = await openTestApp(t, { app: { authority }, bodyIdleTimeoutMs: 500 });
  for (const piece of ['', 'x']) {
    const wire = new Wire(server.port);
    wire.send(`${head(client, `Content-Type: ${QUERY_TYPE}\r\nContent-Length: 4000\r\n`)}\r\n`);
    const drip = setInterval(() => wire.send(piece), 50);
    await wire.until(/\}\}$/);
    clearInterval(drip);
    wire.destroy();
    t.equal(codeOf(parseAnswer(wire.received)), '400 body_timeout');
  }
});

t.test('the number of time-stamps under way is bounded, and one client cannot take all places', async (t) => {
  let asked = 0;
  const counted = {
    answerQuery: (query: Uint8Array) => {
      asked += 1;
      return authority.answerQuery(query);
    },
  };
  const { client, issue } = await openTestApp(t, { app: { authority: counted } });
  const pid = pidOf(partitions);
  process.kill(pid, 'SIGSTOP');
  const own = Array.from({ length: QUERIES_MAX / 2 + 1 }, () => ask(client, QUERY));
  const refused = await firstOf(own);
  t.equal(codeOf(refused.answer), '429 too_many_requests');
  t.ok(Number(refused.answer.headers.get('Retry-After')) > 0);
  const keys = own.map((_, index) => issue({ clientId: `other-${index}` }));
  const others = (await Promise.all(keys)).map((key) => ask(client.as(key), QUERY));
  const last = await firstOf(others);
  t.equal(codeOf(last.answer), '503 queue_full', 'each other client has a place, until there is none');
  t.equal(asked, STAMPED_MAX, 'and the authority has few of them at once');
  t.equal(
    (await client.seal(pdfOf('meanwhile'), { mode: 'blocking' })).status,
    202,
    'jobs are sealed meanwhile',
  );
  process.kill(pid, 'SIGCONT');
  const held = await Promise.all([...refused.others, ...last.others]);
  const tokens = held.map(({ bytes }) => parseResponse(bytes).token ?? Buffer.alloc(0));
  const serials = tokens.map((token) => toHex(parseTimestampToken(token).info.serial));
  t.equal(new Set(serials).size, QUERIES_MAX, 'as many tokens, none twice');
  t.equal(parseResponse((await ask(client, QUERY)).bytes).status, 'granted', 'and there is room again');
});

t.test(
  'beside clients that seal, the place of a time-stamp rests as long as the time-stamp took',
  async (t) => {
    const begun: number[] = [];
    const ended: number[] = [];
    const slow = {
      answerQuery: async (query: Uint8Array) => {
        begun.push(performance.now());
        const answer = await authority.answerQuery(query);
        await sleep(50);
        t.equal((await modest.seal(pdfOf('beside'), { mode: 'async' })).status, 202);
        ended.push(performance.now());
        return answer;
      },
    };
    const { client, issue } = await openTestApp(t, { app: { authority: slow } });
    const modest = client.as(await issue({ clientId: 'modest' }));
    await Promise.all(Array.from({ length: STAMPED_MAX + 1 }, () => ask(client, QUERY)));
    const pauseMs = (begun.at(-1) ?? 0) - (ended[0] ?? 0);
    t.ok(pauseMs > 45, `${pauseMs} ms`);
  },
);

t.test('an app that stamps only its own jobs has no time-stamp route', async (t) => {
  const { client } = await openTestApp(t, { app: { timestamped: () => true } });
  t.equal(codeOf(await ask(client, QUERY)), '404 not_found');
  const { capabilities } = (await client.seal(pdfOf('a'))).json<JobBody>();
  t.strictSame(capabilities, ['receipt.sha512', 'receipt.inclusion_proof', 'receipt.timestamp']);
});

/** The one that is answered first, and those that are not answered yet. */
async function firstOf(asked: Promise<Answer>[]): Promise<{ answer: Answer; others: Promise<Answer>[] }> {
  const { answer, index } = await Promise.race(
    asked.map(async (one, index) => ({ answer: await one, index })),
  );
  return { answer, others: asked.toSpliced(index, 1) };
}

function head(client: Client, headers: string): string {
  return `POST ${PATH} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${client.apiKey}\r\n${headers}`;
}

function rejected(t: Test, answer: Answer, failure: FailureInfo, what: string = failure): void {
  t.equal(answer.status, 200, what);
  t.equal(answer.headers.get('Content-Type'), REPLY_TYPE, what);
  t.match(parseResponse(answer.bytes), { status: 'rejection', failures: [failure], text: /\w/ }, what);
}

/** Sent in chunks, without a length. */
function stream(client: Client, query: Uint8Array): Promise<Answer> {
  const body = ReadableStream.from([query]) as ReadableStream;
  return client.request('POST', PATH, { headers: { 'Content-Type': QUERY_TYPE }, body });
}
