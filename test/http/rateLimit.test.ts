import t from 'tap';
import { belowQuorum } from '../../src/kms/partitions.ts';
import { Limits } from '../../src/limits/limits.ts';
import type { LimitPolicies } from '../../src/limits/policies.ts';
import { openTestApp, pdfOf } from '../support/app.ts';
import type { Answer, Client, Envelope, JobBody } from '../support/client.ts';
import { NO_LIMITS } from '../support/limits.ts';
import { parseAnswer, slowUpload, Wire } from '../support/wire.ts';

const HOUR_MS = 3_600_000;
const ENDLESS = Number.POSITIVE_INFINITY;
/** Half an hour of the day is left. */
const START_MS = Date.UTC(2026, 0, 2, 23, 30);

const codeOf = (answer: Answer) => `${answer.status} ${answer.json<Envelope>().error.code}`;
const daily = (jobs: number) => ({ jobs, windowMs: 24 * HOUR_MS });
const rate = (requests: number) => ({ requests, windowMs: 60_000 });
const headersOf = ({ headers }: { headers: Headers }) =>
  ['RateLimit-Policy', 'RateLimit', 'Retry-After'].map((name) => headers.get(name));
/** The partition keys, Base64. */
const DEFAULT = 'pk=:ZGVmYXVsdA==:';
const INVOICE = 'pk=:aW52b2ljZQ==:';

const time = { now: START_MS };
const clock = () => time.now;
const limits = new Limits(NO_LIMITS, [], clock, undefined, clock);
const app = await openTestApp(t, { app: { limits } });
const { partitions, store } = app;
let clients = 0;

/** A client that nothing counts against yet; the policies hold from now on. */
async function openLimited(policies: Partial<LimitPolicies>) {
  time.now = START_MS;
  limits.update({ ...NO_LIMITS, ...policies });
  clients += 1;
  const clientId = `client-${clients}`;
  const client = app.client.as(await app.issue({ clientId }));
  /** What is left of the default quota. */
  const left = () => limits.quota(clientId, undefined)?.remaining;
  const counts = async () => (await store.jobs.quotaCounts()).filter((count) => count.clientId === clientId);
  return { client, clientId, left, counts };
}

t.test('without policies there are no headers', async (t) => {
  const { client } = await openLimited({});
  t.strictSame(headersOf(await client.seal(pdfOf('a'))), [null, null, null]);
});

t.test('requests past the rate are refused, with the time to retry', async (t) => {
  const { client, clientId } = await openLimited({ rate: rate(2) });
  const first = await client.seal(pdfOf('a'));
  t.strictSame(headersOf(first), ['"client";q=2;w=60', '"client";r=1;t=30', null]);
  t.equal(codeOf(await client.seal(Buffer.from('no PDF'))), '400 not_a_pdf', 'a failure counts');
  const refused = await client.seal(pdfOf('a'));
  t.equal(codeOf(refused), '429 rate_limit_exceeded');
  t.equal(refused.json<Envelope>().error.type, 'rate_limit_error');
  t.strictSame(headersOf(refused), ['"client";q=2;w=60', '"client";r=0;t=30', '30']);
  t.equal((await client.get('/v1/jobs')).headers.get('RateLimit'), null, 'reading is not limited');
  t.equal(
    (await client.as(await app.issue({ clientId, id: 'key_other' })).seal(pdfOf('a'))).status,
    429,
    'nor is it per key',
  );
  t.equal((await client.as(await app.issue({ clientId: 'other' })).seal(pdfOf('a'))).status, 202);
  time.now += 29_999;
  t.equal((await client.seal(pdfOf('a'))).status, 429);
  time.now += 1;
  t.strictSame(headersOf(await client.seal(pdfOf('a'))), ['"client";q=2;w=60', '"client";r=0;t=30', null]);
});

t.test('changes to webhook endpoints count too, but reads do not', async (t) => {
  const { clientId } = await openLimited({ rate: rate(7) });
  const scopes = ['webhooks:manage'] as const;
  const client = app.client.as(await app.issue({ clientId, id: 'key_hooks', scopes: [...scopes] }));
  const all = '/v1/webhook-endpoints';
  const send = (method: string, path: string, body?: object) =>
    client.request(method, path, {
      ...(body && { headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) }),
    });
  const made = await send('POST', all, { url: 'https://hooks.example.com/' });
  t.strictSame([made.status, made.headers.get('RateLimit')], [201, '"client";r=6;t=9']);
  const one = `${all}/${made.json<{ id: string }>().id}`;
  const changes = [
    () => send('PATCH', one, { description: 'a' }),
    () => send('POST', `${one}/rotate-secret`),
    () => send('POST', `${one}/disable`),
    () => send('POST', `${one}/enable`),
    () => send('POST', `${one}/test`),
    () => send('POST', `${one}/replay`),
  ];
  for (const change of changes) t.match((await change()).status, /^20[02]$/);
  const newest = await store.trail.newest();
  for (const change of [() => send('POST', all, {}), ...changes, () => send('DELETE', one)]) {
    const refused = await change();
    t.equal(codeOf(refused), '429 rate_limit_exceeded');
    t.strictSame(headersOf(refused), ['"client";q=7;w=60', '"client";r=0;t=9', '9']);
  }
  t.equal(await store.trail.newest(), newest, 'what is refused leaves no record');
  for (const path of [all, one, `${one}/deliveries`, `${one}/dead-letters`])
    t.strictSame(
      [(await client.get(path)).status, (await client.get(path)).headers.get('RateLimit')],
      [200, null],
    );
  time.now += 60_000;
  const gone = await send('DELETE', one);
  t.strictSame([gone.status, gone.headers.get('RateLimit')], [204, '"client";r=6;t=9']);
});

t.test('jobs past a quota are refused until its window ends', async (t) => {
  const { client } = await openLimited({ quotas: { default: daily(1), invoice: daily(2) } });
  const invoice = { purpose: 'invoice' };
  t.strictSame(headersOf(await client.seal(pdfOf('a'), invoice)), [
    `"purpose";q=2;w=86400;${INVOICE}`,
    `"purpose";r=1;t=1800;${INVOICE}`,
    null,
  ]);
  t.equal((await client.seal(pdfOf('b'), invoice)).status, 202);
  const refused = await client.seal(pdfOf('c'), invoice);
  t.equal(codeOf(refused), '429 quota_exceeded');
  t.strictSame(headersOf(refused)[1], `"purpose";r=0;t=1800;${INVOICE}`);
  t.equal(refused.headers.get('Retry-After'), '1800');
  const other = await client.seal(pdfOf('c'));
  t.equal(other.status, 202);
  t.strictSame(headersOf(other)[1], `"purpose";r=0;t=1800;${DEFAULT}`);
  time.now += 1_800_000;
  t.strictSame(headersOf(await client.seal(pdfOf('c'), invoice))[1], `"purpose";r=1;t=86400;${INVOICE}`);
});

t.test('rate and quota are both reported, and a refusal takes nothing of either', async (t) => {
  const { client } = await openLimited({ rate: rate(5), quotas: { default: daily(1) } });
  t.strictSame(headersOf(await client.seal(pdfOf('a'))), [
    `"client";q=5;w=60, "purpose";q=1;w=86400;${DEFAULT}`,
    `"client";r=4;t=12, "purpose";r=0;t=1800;${DEFAULT}`,
    null,
  ]);
  t.match(
    headersOf(await client.seal(pdfOf('a'))),
    [/^/, /"client";r=4;/, '1800'],
    'of a 429 nothing is taken',
  );
});

t.test('a purpose can be any text in any alphabet', async (t) => {
  const { client } = await openLimited({ quotas: { 'Übersicht 月': daily(1) } });
  const answer = await client.seal(pdfOf('a'), { purpose: 'Übersicht 月' });
  const [, key = ''] = /pk=:(.*):/.exec(answer.headers.get('RateLimit') ?? '') ?? [];
  t.equal(Buffer.from(key, 'base64').toString(), 'Übersicht 月');
  t.equal(codeOf(await client.seal(pdfOf('a'), { purpose: 'Übersicht 月' })), '429 quota_exceeded');
  t.equal((await client.seal(pdfOf('a'), { purpose: '__proto__' })).status, 202);
});

t.test('a create that is not accepted does not count', async (t) => {
  const { client, left } = await openLimited({ quotas: { default: daily(1) } });
  const bad = await client.seal(Buffer.from('no PDF'), { purpose: 'p' });
  t.equal(codeOf(bad), '400 not_a_pdf');
  t.match(headersOf(bad)[1], /r=1;/);
  t.equal(
    codeOf(await client.seal(pdfOf('a'), { checksum_sha256: '0'.repeat(64) })),
    '409 checksum_mismatch',
  );
  t.equal(left(), 1);

  const gone = await slowUpload(client, pdfOf('gone'));
  gone.abandon();
  t.equal((await client.seal(pdfOf('a'), { purpose: 'x' })).status, 202);
  t.equal(codeOf(await client.seal(pdfOf('b'))), '429 quota_exceeded');
  t.equal(left(), 0);
});

t.test('a blocking create that cannot be sealed gives back what it took', async (t) => {
  const { client, left, counts } = await openLimited({ quotas: { default: daily(1) } });
  const signing = t.intercept(partitions, 'sign', {
    value: () => Promise.reject(belowQuorum()),
  });
  const failed = await client.seal(pdfOf('a'), { mode: 'blocking' });
  t.equal(codeOf(failed), '503 kms_partition_unavailable');
  t.equal(left(), 1);
  t.same(await counts(), []);
  signing.restore();
  t.equal((await client.seal(pdfOf('a'), { mode: 'blocking' })).status, 202);
  t.match(await counts(), [{ jobs: 1 }]);
});

t.test('repeats count against the rate, but not against the quota', async (t) => {
  const { client } = await openLimited({ rate: rate(4), quotas: { default: daily(1) } });
  const key = { 'Idempotency-Key': 'repeated-1' };
  const accepted = await client.seal(pdfOf('a'), { purpose: 'p' }, key);
  for (const left of [2, 1, 0]) {
    const again = await client.seal(pdfOf('a'), { purpose: 'p' }, key);
    t.equal(again.json<JobBody>().id, accepted.json<JobBody>().id);
    t.match(headersOf(again), [
      /"client";q=4;w=60, /,
      new RegExp(`"client";r=${left};.*"purpose";r=0;`),
      null,
    ]);
  }
  t.equal(codeOf(await client.seal(pdfOf('a'), { purpose: 'p' }, key)), '429 rate_limit_exceeded');
  time.now += 60_000;
  t.equal(codeOf(await client.seal(pdfOf('b'), { mode: 'blocking' }, key)), '409 idempotency_key_reused');
  t.equal(codeOf(await client.seal(pdfOf('b'))), '429 quota_exceeded');
});

t.test('concurrent creates never exceed a quota', async (t) => {
  const { client, counts } = await openLimited({ quotas: { default: daily(1000), invoice: daily(17) } });
  const answers = await Promise.all(
    Array.from({ length: 60 }, (_, n) =>
      client.seal(
        pdfOf(`${n}`),
        { purpose: n % 5 === 0 ? 'other' : 'invoice' },
        { 'Idempotency-Key': `create-${n}` },
      ),
    ),
  );
  const [others, invoices] = [0, 1].map((kind) =>
    answers.filter(({ status }, n) => status === 202 && (n % 5 === 0 ? 0 : 1) === kind),
  );
  t.equal(others?.length, 12);
  t.equal(invoices?.length, 17);
  t.ok(answers.every(({ status }) => status === 202 || status === 429));
  const counted = (await counts()).map(({ name, jobs }) => `${name} ${jobs}`);
  t.strictSame(counted.sort(), ['default 12', 'invoice 17']);
  const again = await client.seal(pdfOf('1'), { purpose: 'invoice' }, { 'Idempotency-Key': 'create-1' });
  t.equal(
    again.status === 202,
    answers[1]?.status === 202,
    'a 429 does not pin the key, nor does it open the door',
  );
});

t.test('the body of a request that must be refused is not requested', async (t) => {
  const { client, clientId } = await openLimited({ quotas: { default: daily(1) } });
  await client.seal(pdfOf('a'));
  t.match(await expectContinue(client), { status: 429 });
  limits.update({ ...NO_LIMITS, rate: rate(1) });
  limits.takeRequest(clientId);
  t.match(await expectContinue(client), { status: 429 });
});

t.test('a create whose purpose has no quota left is refused in the middle of the body', async (t) => {
  const { client } = await openLimited({ quotas: { p: daily(1), default: daily(ENDLESS) } });
  t.equal((await client.seal(pdfOf('a'), { purpose: 'p' })).status, 202);
  const endless = new ReadableStream({
    start(controller) {
      const field = 'Content-Disposition: form-data; name="purpose"\r\n\r\np\r\n';
      const file = 'Content-Disposition: form-data; name="file"; filename="a"\r\n\r\n%PDF-';
      controller.enqueue(Buffer.from(`--b\r\n${field}--b\r\n${file}`));
    },
    async pull(controller) {
      controller.enqueue(Buffer.alloc(4_096));
      await new Promise((resolve) => setImmediate(resolve));
    },
  });
  const headers = { 'Content-Type': 'multipart/form-data; boundary=b' };
  const answer = await client.request('POST', '/v1/jobs/seal', { headers, body: endless });
  t.equal(codeOf(answer), '429 quota_exceeded');
  const { jobs } = (await client.get('/v1/jobs')).json<{ jobs: JobBody[] }>();
  t.equal(jobs.length, 1);
});

/** The answer to a create that waits to be asked for its body. */
async function expectContinue(client: Client) {
  const wire = new Wire(Number(new URL(client.baseUrl).port));
  wire.send(
    `POST /v1/jobs/seal HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${client.apiKey}\r\n` +
      'Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 1000\r\n' +
      'Expect: 100-continue\r\nConnection: close\r\n\r\n',
  );
  await wire.until(/^HTTP\/1\.1 429 [\s\S]*\r\n\r\n\{.*\}/);
  const answer = parseAnswer(wire.received);
  wire.destroy();
  client.check.check({ method: 'POST', path: '/v1/jobs/seal', ...answer });
  return answer;
}

t.test('a create by reference uses the same quota, and returns it if its source fails', async (t) => {
  const { client, counts } = await openLimited({ quotas: { p: daily(1) } });
  const create = () =>
    client.request('POST', '/v1/jobs/seal', {
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({
        source_url: 'https://documents.example.com/a.pdf',
        checksum_sha256: '0'.repeat(64),
        visibility: 'private',
        purpose: 'p',
      }),
    });
  const refused = await create();
  t.equal(codeOf(refused), '400 source_not_allowed');
  t.match(refused.headers.get('RateLimit'), /^"purpose";r=1;/);
  t.equal((await client.seal(pdfOf('a'), { purpose: 'p' })).status, 202);
  t.equal(codeOf(await create()), '429 quota_exceeded');
  t.match(await counts(), [{ name: 'p', jobs: 1 }]);
});

t.test('a client sees who it is, and how much of its limits is left', async (t) => {
  const { client, clientId } = await openLimited({
    rate: rate(3),
    quotas: { default: daily(10), invoice: daily(2) },
  });
  await client.seal(pdfOf('me'), { purpose: 'invoice' });
  const answer = await client.get('/v1/me');
  t.equal(answer.headers.get('Cache-Control'), 'no-store');
  const day = { window_seconds: 86_400, resets_at: String };
  t.match(answer.json(), {
    client: clientId,
    organization: 'acme',
    environment: 'env_test',
    key_id: /^key_/,
    scopes: ['jobs:create', 'jobs:read'],
    document_bytes_max: Number,
    rate: { limit: 3, window_seconds: 60, remaining: 2 },
    quotas: [
      { name: 'default', limit: 10, remaining: 10, ...day },
      { name: 'invoice', limit: 2, remaining: 1, ...day },
    ],
  });
  const [{ resets_at: reset } = { resets_at: '' }] = answer.json<{ quotas: { resets_at: string }[] }>()
    .quotas;
  const leftMs = Date.parse(reset) - Date.now();
  t.ok(leftMs > 0 && leftMs <= HOUR_MS / 2, 'the day of the service ends in half an hour');
  t.match((await client.get('/v1/me')).json(), { rate: { remaining: 2 } }, 'to ask costs nothing');
  const free = await openLimited({});
  const { rate: none, quotas } = (await free.client.get('/v1/me')).json<{
    rate?: object;
    quotas: object[];
  }>();
  t.strictSame([none, quotas], [undefined, []]);
  t.equal(codeOf(await client.as('x').get('/v1/me')), '401 invalid_api_key');
});
