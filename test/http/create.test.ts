import { createHash } from 'node:crypto';
import t from 'tap';
import { openTestApp, PUBLIC_URL, pdfOf } from '../support/app.ts';
import type { Answer, Envelope, JobBody } from '../support/client.ts';
import { slowUpload } from '../support/wire.ts';

const codeOf = (answer: Answer) => `${answer.status} ${answer.json<Envelope>().error.code}`;

const { client, store } = await openTestApp(t);

t.test('an async create is answered as queued, and completes by itself', async (t) => {
  const answer = await client.seal(pdfOf('async'));
  const job = answer.json<JobBody>();
  t.equal(answer.status, 202);
  t.match(job, { mode: 'async', visibility: 'private' });
  t.notOk(answer.headers.has('Content-Encoding'), 'as the description says');
  t.match(job, { phase: 'queued', environment: 'env_test', trace_id: answer.headers.get('Seal-Trace-Id') });
  t.strictSame(job.capabilities, ['receipt.sha512', 'receipt.inclusion_proof']);
  t.notOk('receipt_url' in job);
  t.equal(answer.headers.get('Location'), `${PUBLIC_URL}/v1/jobs/${job.id}`);
  t.equal(answer.headers.get('Cache-Control'), 'no-store');
  t.equal(answer.headers.get('X-Content-Type-Options'), 'nosniff');
});

t.test('a blocking create is answered with the completed job', async (t) => {
  const answer = await client.seal(pdfOf('blocking'), { mode: 'blocking' });
  const job = answer.json<JobBody>();
  t.equal(answer.status, 202);
  t.equal(job.phase, 'completed');
  t.equal(job.receipt_url, `${PUBLIC_URL}/v1/jobs/${job.id}/receipt.json`);
  t.equal(answer.headers.get('Location'), `${PUBLIC_URL}/v1/jobs/${job.id}`);
  const status = await client.get(`/v1/jobs/${job.id}`);
  t.equal(status.text, answer.text);
});

t.test('every requested field is in the receipt', async (t) => {
  const document = pdfOf('fields');
  const sha256 = createHash('sha256').update(document).digest('hex');
  const customerReference = '  Rechnung №12\t"é" e\u0301 <b>\u{1f600} ';
  const answer = await client.seal(document, {
    visibility: 'organization',
    purpose: 'invoices',
    preserve_metadata: 'true',
    customer_reference: customerReference,
    checksum_sha256: sha256.toUpperCase(),
    mode: 'blocking',
  });
  const { id } = answer.json<JobBody>();
  const receipt = (await client.get(`/v1/jobs/${id}/receipt.json`)).json();
  t.match(receipt, {
    document_sha256: sha256,
    customer_reference: customerReference,
    manifest: { visibility: 'organization', purpose: 'invoices', customer_reference: customerReference },
  });
  t.match(await store.jobs.get(id), {
    job: { preserveMetadata: true, organization: 'acme', clientId: 'acme-web' },
  });
});

t.test('a document on which two hash engines disagree ends the process, and is not accepted', async (t) => {
  const worker = new URL('../hash/faulty-worker.ts', import.meta.url);
  const app = await openTestApp(t, { pool: { worker, crossCheckShare: 1 } });
  t.equal(codeOf(await app.client.seal(pdfOf('mishash'), { mode: 'blocking' })), '500 internal_error');
  t.match(app.fatal, [{ name: 'BrokenInvariant', message: /engine/ }]);
  t.strictSame((await app.client.get('/v1/jobs')).json<{ jobs: unknown[] }>().jobs, []);
  t.equal((await app.client.seal(pdfOf('sound'))).status, 202);
  t.equal(app.fatal.length, 1);
});

t.test('the trace of the caller is continued', async (t) => {
  const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
  const answer = await client.seal(pdfOf('a'), {}, { traceparent: `00-${traceId}-00f067aa0ba902b7-01` });
  t.equal(answer.headers.get('Seal-Trace-Id'), traceId);
  t.equal(answer.json<JobBody>().trace_id, traceId);
});

t.test('each faulty create is refused with its code', async (t) => {
  const app = await openTestApp(t, { documentBytesMax: 100_000 });
  const { client } = app;
  const good = pdfOf('good');
  const form = (build: (form: FormData) => void) => {
    const body = new FormData();
    build(body);
    return client.request('POST', '/v1/jobs/seal', { body });
  };
  const raw = (type: string, body: string, headers: Record<string, string> = {}) =>
    client.request('POST', '/v1/jobs/seal', { headers: { 'Content-Type': type, ...headers }, body });
  const withQuery = (query: string) => {
    const body = new FormData();
    body.append('visibility', 'private');
    body.append('file', new Blob([good]), 'a.pdf');
    return client.request('POST', `/v1/jobs/seal?${query}`, { body });
  };
  const json = (body: unknown) => raw('application/json', JSON.stringify(body));
  const source = {
    source_url: 'https://a.example/b.pdf',
    checksum_sha256: 'a'.repeat(64),
    visibility: 'private',
  };

  const cases: [string, () => Promise<Answer>, string][] = [
    ['no file', () => form((f) => f.append('visibility', 'private')), '400 missing_file'],
    [
      'no visibility',
      () => form((f) => f.append('file', new Blob([good]), 'a.pdf')),
      '400 missing_parameter',
    ],
    ['visibility unknown', () => client.seal(good, { visibility: 'public' }), '400 invalid_parameter'],
    ['unknown field', () => client.seal(good, { preserve_metdata: 'true' }), '400 unknown_parameter'],
    ['a field in the query', () => withQuery('mode=blocking'), '400 unknown_parameter'],
    ['anything in the query', () => withQuery('=&x'), '400 unknown_parameter'],
    ['boolean', () => client.seal(good, { preserve_metadata: 'yes' }), '400 invalid_parameter'],
    [
      'source_url beside the file',
      () => client.seal(good, { source_url: source.source_url }),
      '400 file_and_source_url',
    ],
    [
      'checksum of other bytes',
      () => client.seal(good, { checksum_sha256: '0'.repeat(64) }),
      '409 checksum_mismatch',
    ],
    ['not a PDF', () => client.seal(Buffer.from('hello'.repeat(500))), '400 not_a_pdf'],
    ['empty file', () => client.seal(Buffer.alloc(0)), '400 not_a_pdf'],
    ['too large', () => client.seal(pdfOf('large', 100_001)), '413 document_too_large'],
    ['no boundary', () => raw('multipart/form-data', 'x'), '400 malformed_multipart'],
    ['truncated', () => raw('multipart/form-data; boundary=b', '--b\r\nContent-'), '400 malformed_multipart'],
    ['another type', () => raw('application/octet-stream', 'x'), '415 unsupported_media_type'],
    ['a look-alike type', () => raw('application/jsonp', '{}'), '415 unsupported_media_type'],
    [
      'compressed',
      () => raw('application/json', 'x', { 'Content-Encoding': 'gzip' }),
      '415 unsupported_media_type',
    ],
    ['JSON create', () => json(source), '400 source_not_allowed'],
    [
      'JSON with charset',
      () => raw('Application/JSON; charset=utf-8', JSON.stringify(source)),
      '400 source_not_allowed',
    ],
    ['JSON without checksum', () => json({ ...source, checksum_sha256: undefined }), '400 missing_parameter'],
    [
      'JSON with a text for a boolean',
      () => json({ ...source, preserve_metadata: 'true' }),
      '400 invalid_parameter',
    ],
    [
      'JSON with a member twice',
      () => raw('application/json', `{"visibility":"partner",${JSON.stringify(source).slice(1)}`),
      '400 duplicate_parameter',
    ],
    ['JSON unknown field', () => json({ ...source, file: 'x' }), '400 unknown_parameter'],
    ['not JSON', () => raw('application/json', '{"a":'), '400 malformed_json'],
    ['JSON scalar', () => raw('application/json', '42'), '400 malformed_json'],
    ['JSON array', () => json([]), '400 malformed_json'],
    ['empty JSON', () => raw('application/json', ''), '400 malformed_json'],
    ['blank JSON', () => raw('application/json', ' \n'), '400 malformed_json'],
    ['JSON __proto__', () => raw('application/json', '{"__proto__":{"x":1}}'), '400 malformed_json'],
    ['JSON too large', () => json({ purpose: 'x'.repeat(70_000) }), '413 body_too_large'],
    [
      'JSON deep',
      () => raw('application/json', `${'['.repeat(30_000)}${']'.repeat(30_000)}`),
      '400 malformed_json',
    ],
    [
      'no type',
      () => client.request('POST', '/v1/jobs/seal', { body: new Uint8Array([1]) }),
      '415 unsupported_media_type',
    ],
    ['no body', () => client.request('POST', '/v1/jobs/seal'), '415 unsupported_media_type'],
  ];
  for (const [what, send, expected] of cases) t.equal(codeOf(await send()), expected, what);

  t.strictSame((await client.get('/v1/jobs')).json(), { jobs: [] }, 'nothing of it is kept');
  await client.seal(pdfOf('after all that'));
  t.strictSame(app.fatal, []);
  t.notOk(app.log().some(({ level }) => level === 'error' || level === 'fatal'));
});

t.test('a refusal in the middle of a large body reaches the client', async (t) => {
  const { client } = await openTestApp(t, { documentBytesMax: 1_000_000 });
  const endless = new ReadableStream({
    start(controller) {
      controller.enqueue(
        Buffer.from('--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n%PDF-'),
      );
    },
    async pull(controller) {
      controller.enqueue(Buffer.alloc(65_536));
      await new Promise((resolve) => setImmediate(resolve));
    },
  });
  const headers = { 'Content-Type': 'multipart/form-data; boundary=b' };
  const answer = await client.request('POST', '/v1/jobs/seal', { headers, body: endless });
  t.equal(codeOf(answer), '413 document_too_large');
  t.equal(answer.headers.get('Connection'), 'close');
});

t.test('concurrent uploads are limited, per client and in total', async (t) => {
  const { client, issue } = await openTestApp(t, { app: { uploadsMax: 3, uploadsPerClientMax: 2 } });
  const other = client.as(await issue({ clientId: 'other' }));
  const first = await slowUpload(client, pdfOf('slow'));
  const second = await slowUpload(client, pdfOf('slow'));
  const refused = await client.seal(pdfOf('third'));
  t.equal(codeOf(refused), '429 too_many_uploads');
  t.ok(Number(refused.headers.get('Retry-After')) > 0);
  const third = await slowUpload(other, pdfOf('slow'));
  t.equal(codeOf(await other.seal(pdfOf('fourth'))), '503 queue_full');
  for (const upload of [first, second, third]) t.equal((await upload.finish()).status, 202);
  t.equal((await client.seal(pdfOf('fifth'))).status, 202);
});

t.test('a full queue refuses before the body is read', async (t) => {
  const { client } = await openTestApp(t, { sealer: { queueJobsMax: 0 } });
  const answer = await client.seal(pdfOf('a'));
  t.equal(codeOf(answer), '503 queue_full');
  t.ok(Number(answer.headers.get('Retry-After')) > 0);
});

t.test('the path of one form takes no other form', async (t) => {
  const bodies = {
    '/v1/documents/seal?visibility=private': 'application/pdf',
    '/v1/forms/seal': 'multipart/form-data; boundary=b',
    '/v1/sources/seal': 'application/json',
  };
  for (const path of Object.keys(bodies)) {
    for (const [own, type] of Object.entries(bodies)) {
      const answer = await client.request('POST', path, { headers: { 'Content-Type': type }, body: '{}' });
      if (path === own) t.not(answer.status, 415, path);
      else t.equal(codeOf(answer), '415 unsupported_media_type', `${path} ${type}`);
    }
  }
  const headers = { 'Content-Type': 'application/json' };
  const { error } = (
    await client.request('POST', '/v1/forms/seal', { headers, body: '{}' })
  ).json<Envelope>();
  t.equal(error.message, 'Content-Type must be multipart/form-data.');
});
