import t from 'tap';
import { hashApiKey } from '../../src/job/apikey.ts';
import { Limits } from '../../src/limits/limits.ts';
import { UnknownOutcome } from '../../src/store/store.ts';
import { putCredentials } from '../store/samples.ts';
import { openTestApp, pdfOf, pullToken } from '../support/app.ts';
import type { Answer, Client, Envelope, JobBody } from '../support/client.ts';
import {
  BatchStream,
  digestFields,
  digestLines,
  digestsOf,
  problemOf,
  sealBatch,
} from '../support/client.ts';
import { NO_LIMITS } from '../support/limits.ts';
import { until } from '../support/until.ts';

const DOCUMENT = pdfOf('which stays with its owner');

function post(client: Client, fields: object, headers: Record<string, string> = {}): Promise<Answer> {
  return client.request('POST', '/v1/digests/seal', {
    headers: { 'Content-Type': 'application/json', ...headers },
    body: JSON.stringify(fields),
  });
}

t.test('a document is sealed by its digests', async (t) => {
  const { client, log } = await openTestApp(t);
  const fields = digestFields(DOCUMENT, { mode: 'blocking', purpose: 'archive', customer_reference: '4711' });
  const headers = { 'Idempotency-Key': 'digest-0001' };
  const answer = await post(client, fields, headers);
  t.equal(answer.status, 202);
  const job = answer.json<JobBody>();
  t.equal(job.phase, 'completed');
  const receipt = (await client.get(`/v1/jobs/${job.id}/receipt.json`)).json();
  t.match(receipt, {
    customer_reference: '4711',
    manifest: {
      document: digestsOf(DOCUMENT),
      source: 'digest',
      scan: { verdict: 'not_scanned' },
      purpose: 'archive',
    },
  });

  await t.test('a repeat gets the same answer, and another request with that key is refused', async (t) => {
    const upper = { ...fields, document_sha256: String(fields.document_sha256).toUpperCase() };
    const again = await post(client, upper, headers);
    t.equal(again.text, answer.text);
    t.equal(again.headers.get('Idempotent-Replayed'), 'true');
    for (const other of [{ bytes: 1 }, { document_sha512: 'ab'.repeat(64) }, { mode: 'async' }]) {
      t.equal(problemOf(await post(client, { ...fields, ...other }, headers)), '409 idempotency_key_reused');
    }
    const upload = await client.seal(DOCUMENT, {}, headers);
    t.notOk(upload.headers.has('Idempotent-Replayed'), 'uploads have keys of their own');
  });

  await t.test('the faulty parameter is named', async (t) => {
    const cases: [object, string, string][] = [
      [{ document_sha256: 'ab' }, '400 invalid_parameter', 'document_sha256'],
      [{ document_sha512: 'ab'.repeat(32) }, '400 invalid_parameter', 'document_sha512'],
      ...[0, -1, 1.5, '9', 2 ** 53].map((bytes): [object, string, string] => [
        { bytes },
        '400 invalid_parameter',
        'bytes',
      ]),
      [{ bytes: undefined }, '400 missing_parameter', 'bytes'],
      [{ visibility: undefined }, '400 missing_parameter', 'visibility'],
      ...['preserve_metadata', 'checksum_sha256', 'source_url', 'file', 'idempotency_key', 'receipt'].map(
        (name): [object, string, string] => [{ [name]: true }, '400 unknown_parameter', name],
      ),
    ];
    for (const [change, problem, name] of cases) {
      const refused = await post(client, { ...fields, ...change });
      t.equal(problemOf(refused), problem, JSON.stringify(change));
      t.match(refused.json<Envelope>().error.message, name);
    }
    t.equal(problemOf(await post(client, [])), '400 malformed_json');
    const form = await client.request('POST', '/v1/digests/seal', { body: new FormData() });
    t.equal(problemOf(form), '415 unsupported_media_type');
    const elsewhere = await client.seal(DOCUMENT, { document_sha256: 'ab'.repeat(32) });
    t.equal(problemOf(elsewhere), '400 unknown_parameter');
  });
  t.notMatch(JSON.stringify(log()), digestsOf(DOCUMENT).sha256);
});

t.test('each line of a batch is a create of its own', async (t) => {
  const { client, server, store, issue, log } = await openTestApp(t);
  const url = `http://127.0.0.1:${server.port}`;
  const apiKey = await issue();
  const good = JSON.stringify(digestFields(DOCUMENT));
  const key = { idempotency_key: 'in-a-batch' };
  const lines = [
    good,
    '{"document_sha256":',
    '',
    '[]',
    JSON.stringify(digestFields(DOCUMENT, { mode: 'blocking', receipt: true, ...key })),
    `{${'"purpose":"a",'.repeat(2)}${good.slice(1)}`,
    JSON.stringify(digestFields(DOCUMENT, { receipt: true })),
    JSON.stringify(digestFields(DOCUMENT, { idempotency_key: 'short' })),
    `{"purpose":"${'x'.repeat(20_000)}"}`,
    `${good}\r`,
    JSON.stringify(digestFields(DOCUMENT, { preserve_metadata: false })),
    Buffer.concat([Buffer.from('{"purpose":"'), Buffer.from([0xff]), Buffer.from('"}')]).toString('latin1'),
    JSON.stringify(digestFields(DOCUMENT, { mode: 'blocking' })),
    JSON.stringify(digestFields(DOCUMENT, { idempotency_key: 'async-in-a-batch' })),
  ];
  // Through the client, so that every line of the answer is held to the description.
  const body = Buffer.from(lines.join('\n'), 'latin1');
  const headers = { 'Content-Type': 'application/x-ndjson' };
  const answer = await client.as(apiKey).request('POST', '/v1/batches/seal', { headers, body });
  t.equal(answer.status, 200);
  t.equal(answer.headers.get('Content-Type'), 'application/x-ndjson');
  const answers = answer.text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
    .sort((a, b) => a.line - b.line);
  t.strictSame(
    answers.map(({ line, status, job, error }) => `${line} ${status} ${error?.code ?? job.phase}`),
    [
      '1 202 queued',
      '2 400 malformed_json',
      '4 400 malformed_json',
      '5 202 completed',
      '6 400 duplicate_parameter',
      '7 400 invalid_parameter',
      '8 400 invalid_idempotency_key',
      '9 413 body_too_large',
      '10 202 queued',
      '11 400 unknown_parameter',
      '12 400 malformed_json',
      '13 202 completed',
      '14 202 queued',
    ],
  );
  t.match(answers[2].error, { type: 'invalid_request_error', doc_url: '/v1/errors/malformed_json' });
  const { job, receipt } = answers[3];
  const served = await client.get(`/v1/jobs/${job.id}/receipt.json`);
  t.strictSame(receipt, served.json(), 'the receipt that is in the answer is the one');
  t.match(
    log().find(({ msg }) => msg === 'a batch was answered'),
    { lines: 13, accepted: 5, replayed: 0, refused: 8 },
  );

  await t.test('idempotency keys are shared with single creates by digests', async (t) => {
    const { receipt: _, ...fields } = JSON.parse(lines[4] ?? '');
    delete fields.idempotency_key;
    const single = await post(client, fields, { 'Idempotency-Key': 'in-a-batch' });
    t.equal(single.headers.get('Idempotent-Replayed'), 'true');
    t.equal(single.json<JobBody>().id, job.id);
    const [again] = await sealBatch(url, apiKey, [lines[4] ?? '']);
    t.match(again, { replayed: true, job: { id: job.id }, receipt: { job_id: job.id } });
  });

  await t.test('a repeat of an asynchronous create shows the job as it is now', async (t) => {
    const { id } = answers.at(-1).job;
    const read = async () => (await client.get(`/v1/jobs/${id}`)).json<JobBody>();
    await until('it is sealed', async () => (await read()).phase === 'completed');
    const now = await read();
    const [again] = await sealBatch(url, apiKey, [lines.at(-1) ?? '']);
    t.strictSame(again, { line: 1, status: 202, job: now, replayed: true });
    const single = await post(client, digestFields(DOCUMENT), { 'Idempotency-Key': 'async-in-a-batch' });
    t.strictSame(single.json(), now);
  });

  await t.test('a wrong type, query or scope refuses the whole batch', async (t) => {
    const send = (path: string, type: string) =>
      client.request('POST', path, { headers: { 'Content-Type': type }, body: good });
    t.equal(problemOf(await send('/v1/batches/seal', 'application/json')), '415 unsupported_media_type');
    t.equal(
      problemOf(await send('/v1/batches/seal?mode=blocking', 'application/x-ndjson')),
      '400 unknown_parameter',
    );
    const reader = client.as(await issue({ scopes: ['jobs:read'] }));
    const refused = await reader.request('POST', '/v1/batches/seal', { headers, body: good });
    t.equal(problemOf(refused), '403 insufficient_scope');
    const empty = await client.request('POST', '/v1/batches/seal', { headers, body: '\n\n' });
    t.strictSame([empty.status, empty.text], [200, '']);
  });

  await t.test('answers come while lines are still being sent', async (t) => {
    const stream = new BatchStream(url, apiKey);
    for (let n = 1; n <= 3; n++) {
      stream.send(good);
      await stream.until(n);
    }
    stream.request.end();
    t.match(await stream.ended, [{ status: 202 }, { status: 202 }, { status: 202 }]);
  });

  await t.test('lines answered before the sender left are kept, and a repeat finds them', async (t) => {
    const all = digestLines(600, { customer_reference: 'broken off' });
    const broken = new BatchStream(url, apiKey);
    broken.send(...all.slice(0, 300));
    broken.request.write((all[300] ?? '').slice(0, 50));
    await broken.until(100);
    broken.destroy();
    const first = new Map(broken.answers.map(({ line, job: { id } = { id: '' } }) => [line, id]));
    await until(
      'the end of the first batch',
      () => log().filter(({ msg }) => msg === 'a batch was answered').length >= 5,
    );
    const repeated = await sealBatch(url, apiKey, all);
    t.equal(repeated.length, 600);
    t.ok(repeated.every(({ status }) => status === 202));
    for (const [line, id] of first) t.equal(repeated[line - 1]?.job?.id, id);
    const replayed = repeated.filter((one) => one.replayed).length;
    t.ok(replayed >= first.size && replayed <= 300, `${replayed} replayed`);
    t.equal(new Set(repeated.map((one) => one.job?.id)).size, 600);
  });

  await t.test('a key that is revoked during a batch creates nothing more', async (t) => {
    const doomed = await issue();
    const stream = new BatchStream(url, doomed);
    stream.send(good);
    await stream.until(1);
    const credential = await store.credentials.get(hashApiKey(doomed));
    if (!credential) throw new Error('no credential');
    await putCredentials(store, [{ ...credential, revokedAt: Date.now() - 1 }]);
    stream.send(good);
    stream.request.end();
    t.match(await stream.ended, [{ status: 202 }, { status: 401, error: { code: 'invalid_api_key' } }]);
  });
});

t.test('a silent sender gets a timeout, and the lines sent before it go on', async (t) => {
  const { server, issue } = await openTestApp(t, { bodyIdleTimeoutMs: 1_000 });
  const stream = new BatchStream(`http://127.0.0.1:${server.port}`, await issue());
  const good = JSON.stringify(digestFields(DOCUMENT));
  stream.request.write(`${good}\n${good.slice(0, 20)}`);
  await stream.until(2);
  stream.request.end();
  const answers = await stream.ended;
  t.match(
    answers.sort((a, b) => a.line - b.line),
    [
      { line: 1, status: 202 },
      { line: 2, status: 400, error: { code: 'body_timeout' } },
    ],
  );
});

t.test('rates and quotas count every line', async (t) => {
  const limits = new Limits(NO_LIMITS, [], Date.now);
  const { client, server, issue, store } = await openTestApp(t, { app: { limits } });
  const url = `http://127.0.0.1:${server.port}`;
  const apiKey = await issue();
  const day = { windowMs: 86_400_000 };

  limits.update({ ...NO_LIMITS, quotas: { default: { jobs: 20, ...day } } });
  const lines = digestLines(30);
  const answers = await sealBatch(url, apiKey, lines);
  t.equal(answers.filter(({ status }) => status === 202).length, 20);
  const refused = answers.filter(({ error }) => error?.code === 'quota_exceeded');
  t.equal(refused.length, 10);
  t.ok(refused.every(({ status, retry_after: seconds = 0 }) => status === 429 && seconds > 0));
  t.match(await store.jobs.quotaCounts(), [{ clientId: 'acme-web', jobs: 20 }]);
  const again = await sealBatch(url, apiKey, lines);
  t.strictSame(
    again.map(({ job }) => job?.id),
    answers.map(({ job }) => job?.id),
    'what was accepted is given again, and nothing is counted twice',
  );

  limits.update({ ...NO_LIMITS, rate: { requests: 5, windowMs: 3_600_000 } });
  const limited = new BatchStream(url, await issue({ clientId: 'other' }));
  limited.send(...lines, '[]');
  await limited.until(5);
  limits.update({ ...NO_LIMITS, rate: { requests: 26, windowMs: 3_600_000 } });
  limited.request.end();
  const paced = await limited.ended;
  t.equal(paced.filter(({ status }) => status === 202).length, 30, 'no line is refused for the rate');
  t.equal(limits.rate('other')?.remaining, 0, 'a faulty line is counted, too');
  limits.update({ ...NO_LIMITS, rate: { requests: 5, windowMs: 3_600_000 } });
  const headers = { 'Content-Type': 'application/x-ndjson' };
  const described = await client.request('POST', '/v1/batches/seal', { headers, body: lines[0] ?? '' });
  t.match(described.headers.get('RateLimit'), /^"client";r=5;t=/);
});

t.test('a line that cannot be sealed or does not fit in the queue gets its own refusal', async (t) => {
  const app = await openTestApp(t, { sealer: { queueJobsMax: 10 }, partitions: { probeIntervalMs: 50 } });
  const url = `http://127.0.0.1:${app.server.port}`;
  const apiKey = await app.issue();
  const restore = await pullToken(app);
  const [blocking] = await sealBatch(url, apiKey, digestLines(1, { mode: 'blocking' }));
  t.match(blocking, { status: 503, error: { code: 'kms_partition_unavailable' }, retry_after: Number });
  const first = await sealBatch(url, apiKey, digestLines(10));
  t.strictSame(
    first.map(({ status }) => status),
    Array(10).fill(202),
  );
  const full = await sealBatch(url, apiKey, digestLines(12));
  t.strictSame(
    full.map(({ status, replayed, error }) => (replayed ? 'replayed' : `${status} ${error?.code}`)),
    [...Array(10).fill('replayed'), ...Array(2).fill('503 queue_full')],
  );
  await restore();
  await until('room again', () => app.sealer.waitingCount === 0);
  const rest = await sealBatch(url, apiKey, digestLines(12, {}));
  t.strictSame(
    rest.map(({ status }) => status),
    Array(12).fill(202),
  );
});

t.test('one client cannot take all batches', async (t) => {
  const { server, issue, client } = await openTestApp(t, { app: { batchesMax: 4 } });
  const url = `http://127.0.0.1:${server.port}`;
  const open = async (apiKey: string) => {
    const stream = new BatchStream(url, apiKey);
    stream.send(JSON.stringify(digestFields(DOCUMENT)));
    await stream.until(1);
    return stream;
  };
  const [one, other] = [await issue(), await issue({ clientId: 'other' })];
  const streams = [await open(one), await open(one)];
  const headers = { 'Content-Type': 'application/x-ndjson' };
  const send = (apiKey: string) =>
    client.as(apiKey).request('POST', '/v1/batches/seal', { headers, body: '\n' });
  t.equal(problemOf(await send(one)), '429 too_many_uploads');
  streams.push(await open(other));
  t.equal(problemOf(await send(other)), '429 too_many_uploads', 'the last place is for who holds none');
  const third = await issue({ clientId: 'third' });
  streams.push(await open(third));
  t.equal(problemOf(await send(await issue({ clientId: 'fourth' }))), '503 queue_full');
  for (const stream of streams) stream.destroy();
  await until('places again', async () => (await send(third)).status === 200);
});

t.test('an unknown outcome of a line ends the process, even if the client has left', async (t) => {
  const { client, sealer, server, fatal, issue } = await openTestApp(t);
  const apiKey = await issue();
  const begun = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<never>();
  sealer.accept = () => {
    begun.resolve();
    return ended.promise;
  };
  const stream = new BatchStream(`http://127.0.0.1:${server.port}`, apiKey);
  stream.send(JSON.stringify(digestFields(DOCUMENT, { mode: 'async' })));
  await begun.promise;
  stream.request.destroy();
  await t.rejects(stream.ended);
  ended.reject(new UnknownOutcome('of a test'));
  await until('the process is to end', () => fatal.length > 0);
  t.match(fatal, [{ name: 'UnknownOutcome' }]);
  t.match(await client.get('/v1/jobs'), { status: 200 });
});
