import { createHash } from 'node:crypto';
import t from 'tap';
import { openTestApp, pdfOf, type TestApp } from '../support/app.ts';
import type { Answer, Envelope, JobBody } from '../support/client.ts';

type Client = TestApp['client'];
type Body = ReadableStream | Uint8Array<ArrayBuffer>;

const sha256 = (document: Buffer) => createHash('sha256').update(document).digest('hex');

function seal(client: Client, query: string, body: Body, headers: Record<string, string> = {}) {
  const all = { 'Content-Type': 'application/pdf', ...headers };
  return client.request('POST', `/v1/jobs/seal${query}`, { headers: all, body });
}

const summaryOf = (answer: Answer) => `${answer.status} ${answer.json<Envelope>().error.code}`;

t.test('every field of the query is in the receipt', async (t) => {
  const { client, store } = await openTestApp(t);
  const document = pdfOf('fields');
  const customerReference = '  Rechnung №12+1\t"é" &=% \u{1f600} ';
  const query = new URLSearchParams({
    visibility: 'organization',
    mode: 'blocking',
    purpose: 'invoices',
    preserve_metadata: 'true',
    customer_reference: customerReference,
    checksum_sha256: sha256(document).toUpperCase(),
  });
  for (const form of [query.toString(), query.toString().replaceAll('+', '%20')]) {
    const answer = await seal(client, `?${form}`, document);
    t.match(answer, { status: 202 });
    const { id, phase } = answer.json<JobBody>();
    t.equal(phase, 'completed');
    const receipt = (await client.get(`/v1/jobs/${id}/receipt.json`)).json();
    t.match(receipt, {
      document_sha256: sha256(document),
      customer_reference: customerReference,
      manifest: { visibility: 'organization', purpose: 'invoices', document: { bytes: document.length } },
    });
    t.match(await store.jobs.get(id), { job: { preserveMetadata: true, source: 'upload' } });
  }
});

t.test('a multipart and a plain body make the same request, so that repeats match', async (t) => {
  const { client } = await openTestApp(t);
  const document = pdfOf('repeat');
  const key = { 'Idempotency-Key': 'repeat-0001' };
  const first = await seal(client, '?visibility=private', document, key);
  const again = await client.seal(document, { visibility: 'private' }, key);
  t.equal(again.headers.get('Idempotent-Replayed'), 'true');
  t.equal(again.json<JobBody>().id, first.json<JobBody>().id);
  const other = await seal(client, '?visibility=partner', document, key);
  t.equal(summaryOf(other), '409 idempotency_key_reused');
  t.equal(
    summaryOf(await seal(client, '?visibility=private', pdfOf('other'), key)),
    '409 idempotency_key_reused',
  );
});

t.test('each faulty request is refused with its code', async (t) => {
  const { client, fatal, log } = await openTestApp(t, { documentBytesMax: 100_000 });
  const good = pdfOf('good');
  const chunked = (document: Buffer) =>
    new ReadableStream({
      start(controller) {
        for (let at = 0; at < document.length; at += 10_000)
          controller.enqueue(document.subarray(at, at + 10_000));
        controller.close();
      },
    });
  const cases: [query: string, body: Body, expected: string][] = [
    ['', good, '400 missing_parameter'],
    ['?visibility=public', good, '400 invalid_parameter'],
    ['?visibility=private&visibility=private', good, '400 duplicate_parameter'],
    ['?visibility=private&mode', good, '400 invalid_parameter'],
    ['?visibility=private&preserve_metadata=1', good, '400 invalid_parameter'],
    ['?visibility=private&purpose=', good, '400 invalid_parameter'],
    ['?visibility=private&preserve_metdata=true', good, '400 unknown_parameter'],
    ['?visibility=private&source_url=https://a.example/b.pdf', good, '400 unknown_parameter'],
    ['?visibility=private&file=a.pdf', good, '400 unknown_parameter'],
    ['?visibility=private&__proto__=x', good, '400 unknown_parameter'],
    ['?visibility=private&document_sha256=00', good, '400 unknown_parameter'],
    ['?visibility=private&purpose=%', good, '400 invalid_request'],
    ['?visibility=private&purpose=%e9', good, '400 invalid_request'],
    ['?visibility=private&purpose=%ed%a0%80', good, '400 invalid_request'],
    ['?visibility=private&purpose=%00', good, '400 invalid_parameter'],
    [`?visibility=private&checksum_sha256=${'0'.repeat(64)}`, good, '409 checksum_mismatch'],
    ['?visibility=private', Buffer.from('hello'.repeat(500)), '400 not_a_pdf'],
    ['?visibility=private', good.subarray(0, -8), '400 not_a_pdf'],
    ['?visibility=private', Buffer.alloc(0), '400 not_a_pdf'],
    ['?visibility=private', pdfOf('large', 100_001), '413 document_too_large'],
    ['?visibility=private', chunked(pdfOf('large', 100_001)), '413 document_too_large'],
  ];
  for (const [query, body, expected] of cases) {
    t.equal(summaryOf(await seal(client, query, body)), expected, query);
  }
  const withForm = new FormData();
  withForm.append('file', new Blob([good]), 'a.pdf');
  const mixed = await client.request('POST', '/v1/jobs/seal?visibility=private', { body: withForm });
  t.equal(summaryOf(mixed), '400 unknown_parameter', 'a form has its fields inside');

  t.strictSame((await client.get('/v1/jobs')).json(), { jobs: [] }, 'nothing of it is kept');
  for (const body of [pdfOf('large', 100_000), chunked(pdfOf('chunked', 100_000))]) {
    t.equal((await seal(client, '?visibility=private', body)).status, 202);
  }
  t.strictSame(fatal, []);
  t.notOk(log().some(({ level }) => level === 'error' || level === 'fatal'));
});

t.test('the request log does not contain the query', async (t) => {
  const { client, log } = await openTestApp(t);
  const secret = 'reference-4711';
  await seal(client, `?visibility=private&customer_reference=${secret}`, pdfOf('secret'));
  await seal(client, `?visibility=nobody&customer_reference=${secret}`, pdfOf('secret'));
  t.notOk(JSON.stringify(log()).includes(secret));
});

t.test('compliance mode keeps a copy unless metadata is preserved', async (t) => {
  const { client } = await openTestApp(t, { compliance: true });
  const document = pdfOf('without metadata');
  const made = (await seal(client, '?visibility=private&mode=blocking', document)).json<JobBody>();
  const copy = await client.get(`/v1/jobs/${made.id}/document.pdf`);
  t.same(copy.text, document.toString());
  const query = '?visibility=private&mode=blocking&preserve_metadata=true';
  const preserved = (await seal(client, query, document)).json<JobBody>();
  t.equal(summaryOf(await client.get(`/v1/jobs/${preserved.id}/document.pdf`)), '404 document_unavailable');
});
