import { createHash } from 'node:crypto';
import t from 'tap';
import { verifyEvidenceRecord } from '../../src/asn1/evidenceRecord.ts';
import { fromUtf8, toBase64 } from '../../src/base/bytes.ts';
import { parseTlogProof } from '../../src/log/tlogProof.ts';
import { bundleDigest } from '../../src/manifest/bundle.ts';
import { type Receipt, receiptDigest } from '../../src/manifest/receipt.ts';
import { openTestApp, pdfOf } from '../support/app.ts';
import type { Answer, Client, Envelope, JobBody } from '../support/client.ts';
import { renew, YearlyAuthority } from '../support/renewals.ts';
import { exchange } from '../support/wire.ts';

const { client, store, issue, server } = await openTestApp(t);
const codeOf = (answer: Answer) => `${answer.status} ${answer.json<Envelope>().error.code}`;
const seal = async (by: Client, text: string, fields: Record<string, string> = {}) =>
  (await by.seal(pdfOf(text), { mode: 'blocking', ...fields })).json<JobBody>();

t.test('unknown, malformed and invisible jobs give the same answer', async (t) => {
  const stranger = client.as(await issue({ clientId: 'x', organization: 'x' }));
  const { id } = await seal(stranger, 'secret', { visibility: 'partner' });
  const ids = [
    id,
    'job_0123',
    'job_',
    'seal',
    'job_a-b',
    'JOB_1',
    '%00',
    '%ff',
    'job_%2e',
    `job_${'a'.repeat(5000)}`,
    '__proto__',
  ];
  const answers = new Set<string>();
  for (const one of ids) {
    for (const path of [
      '',
      '/receipt.json',
      '/receipt.tlog-proof',
      '/receipt.ers',
      '/receipt.bundle.json',
    ].map((end) => `/v1/jobs/${one}${end}`)) {
      const answer = await client.get(path);
      const { request_id: _, ...rest } = answer.json<Envelope>();
      answers.add(JSON.stringify([answer.status, rest]));
    }
  }
  t.equal(answers.size, 1);
  t.match([...answers][0], 'job_not_found');
});

t.test('a job names its document and the time of sealing', async (t) => {
  const fields = { purpose: 'invoice', customer_reference: 'R-1 ü' };
  const sha256 = createHash('sha256').update(pdfOf('named')).digest('hex');
  const said = { document_sha256: sha256, ...fields };
  const headers = { 'Idempotency-Key': 'named-document' };
  const create = () => client.seal(pdfOf('named'), { mode: 'blocking', ...fields }, headers);
  const created = await create();
  const { sealed_at } = (await client.get(`/v1/jobs/${created.json<JobBody>().id}/receipt.json`)).json<{
    sealed_at: string;
  }>();
  t.match(created.json(), { ...said, sealed_at });
  t.equal((await create()).text, created.text, 'a repeat says the same');
  const { id } = created.json<JobBody>();
  t.strictSame((await client.get(`/v1/jobs/${id}`)).json(), created.json());
  const { jobs } = (await client.get('/v1/jobs?limit=1')).json<{ jobs: object[] }>();
  t.strictSame(jobs, [created.json()]);

  const queued = (await client.seal(pdfOf('nameless'))).json<object>();
  t.match(queued, { document_sha256: /^[0-9a-f]{64}$/ });
  for (const absent of ['purpose', 'customer_reference', 'sealed_at']) t.notOk(absent in queued, absent);
});

/** fetch makes every conditional request a reload, so this is sent by hand. */
function conditional(path: string, tags: string) {
  const headers = `Host: a\r\nAuthorization: Bearer ${client.apiKey}\r\nIf-None-Match: ${tags}\r\nConnection: close\r\n`;
  return exchange(server.port, `GET ${path} HTTP/1.1\r\n${headers}\r\n`, client.check);
}

t.test('the receipt has its digest as ETag, and never changes', async (t) => {
  const { id } = await seal(client, 'receipt');
  const path = `/v1/jobs/${id}/receipt.json`;
  const answer = await client.get(path);
  const receipt = answer.json<{ receipt_sha512: string; document_sha256: string }>();
  t.equal(receipt.receipt_sha512, receiptDigest(receipt));
  t.equal(receipt.document_sha256, createHash('sha256').update(pdfOf('receipt')).digest('hex'));
  t.equal(answer.headers.get('ETag'), `"${receipt.receipt_sha512}"`);
  t.match(answer.headers.get('Cache-Control'), /^private, .*immutable$/);

  await seal(client, 'the log grows');
  t.equal((await client.get(path)).text, answer.text, 'never changes');

  t.match(await conditional(path, `"other", "${receipt.receipt_sha512}"`), { status: 304, text: '' });
  t.equal((await conditional(path, '"other"')).status, 200);

  const head = await client.request('HEAD', path);
  t.equal(head.status, 200);
  t.equal(head.headers.get('Content-Length'), String(answer.bytes.length));
  t.equal(head.headers.get('ETag'), answer.headers.get('ETag'));
});

t.test('the proof for other tools has the leaf, the path and the checkpoint of the receipt', async (t) => {
  const { id } = await seal(client, 'proof');
  const receipt = (await client.get(`/v1/jobs/${id}/receipt.json`)).json<Receipt>();
  const answer = await client.get(`/v1/jobs/${id}/receipt.tlog-proof`);
  t.equal(answer.headers.get('Content-Type'), 'text/plain; charset=utf-8');
  t.equal(answer.headers.get('Cache-Control'), 'private, no-cache');
  const proof = parseTlogProof(answer.text);
  t.strictSame(JSON.parse(Buffer.from(proof?.extra ?? []).toString()), receipt.manifest);
  t.equal(proof?.index, receipt.evidence.leaf_index);
  t.strictSame(proof?.proof.map(toBase64), receipt.evidence.inclusion_proof);
  t.equal(proof?.checkpoint, receipt.evidence.checkpoint);

  await seal(client, 'the log grows');
  const head = await store.log.head();
  if (head === undefined) throw new Error('a log that grew has a head');
  const witnessed = { treeSize: head.treeSize, checkpoint: head.checkpoint };
  await store.witnessing.put({ witnesses: {}, witnessed });
  const later = parseTlogProof((await client.get(`/v1/jobs/${id}/receipt.tlog-proof`)).text);
  t.strictSame([later?.extra, later?.index], [proof?.extra, proof?.index]);
  t.equal(later?.checkpoint, head.checkpoint, 'the newest that witnesses saw');
  const newest = await seal(client, 'newer than what witnesses saw');
  const { evidence } = (await client.get(`/v1/jobs/${newest.id}/receipt.json`)).json<Receipt>();
  const own = parseTlogProof((await client.get(`/v1/jobs/${newest.id}/receipt.tlog-proof`)).text);
  t.equal(own?.checkpoint, evidence.checkpoint, 'or else that of the receipt');
});

t.test('a bundle exists once witnesses have seen the receipt, and changes with what they see', async (t) => {
  const { id } = await seal(client, 'bundle');
  const path = `/v1/jobs/${id}/receipt.bundle.json`;
  const early = await client.get(path);
  t.equal(codeOf(early), '404 bundle_not_ready');
  t.ok(early.headers.has('Retry-After'));
  const witness = async () => {
    const head = await store.log.head();
    if (head === undefined) throw new Error('a log that grew has a head');
    const { treeSize, checkpoint } = head;
    await store.witnessing.put({ witnesses: {}, witnessed: { treeSize, checkpoint } });
    return checkpoint;
  };
  const checkpoint = await witness();
  const answer = await client.get(path);
  const bundle = answer.json<{ bundle_sha512: string; receipt: Receipt; tlog_proof: string }>();
  t.strictSame(bundle.receipt, (await client.get(`/v1/jobs/${id}/receipt.json`)).json());
  t.equal(parseTlogProof(bundle.tlog_proof)?.checkpoint, checkpoint);
  t.equal(bundle.bundle_sha512, bundleDigest(bundle));
  t.equal(answer.headers.get('ETag'), `"${bundle.bundle_sha512}"`);
  t.equal(answer.headers.get('Cache-Control'), 'private, no-cache');
  const tag = `"${bundle.bundle_sha512}"`;
  t.match(await conditional(path, tag), { status: 304, text: '' });

  await seal(client, 'the log grows beyond the bundle');
  t.equal((await client.get(path)).text, answer.text);
  await witness();
  t.equal((await conditional(path, tag)).status, 200, 'another checkpoint, another bundle');
  const newer = await client.get(path);
  t.strictSame(newer.json<{ receipt: Receipt }>().receipt, bundle.receipt);
});

t.test(
  'the evidence record covers the checkpoint of the receipt, once something has stamped it',
  async (t) => {
    const { id } = await seal(client, 'evidence');
    const path = `/v1/jobs/${id}/receipt.ers`;
    t.equal(codeOf(await client.get(path)), '404 not_found', 'no authority, no renewal');
    const authority = await YearlyAuthority.make('alpha');
    const at = Date.now();
    await renew(store, { digest: 'sha512', at, authorities: [authority] });
    const answer = await client.get(path);
    t.equal(answer.status, 200);
    t.equal(answer.headers.get('Content-Disposition'), `attachment; filename="${id}.ers"`);
    const { evidence } = (await client.get(`/v1/jobs/${id}/receipt.json`)).json<Receipt>();
    const verdict = verifyEvidenceRecord({
      record: answer.bytes,
      data: fromUtf8(evidence.checkpoint),
      trustedRoots: [authority.trusted.root],
      at,
    });
    t.match(verdict, { outcome: 'good' });
  },
);

t.test('jobs are listed page by page, newest first', async (t) => {
  const lister = client.as(await issue({ clientId: 'lister', organization: 'lister' }));
  const sealed: string[] = [];
  for (let n = 0; n < 5; n++) sealed.unshift((await seal(lister, `list ${n}`)).id);
  const pages: string[][] = [];
  let cursor = '';
  do {
    const answer = await lister.get(`/v1/jobs?limit=2${cursor}`);
    const page = answer.json<{ jobs: JobBody[]; next_cursor?: string }>();
    pages.push(page.jobs.map(({ id }) => id));
    cursor = page.next_cursor === undefined ? '' : `&cursor=${page.next_cursor}`;
  } while (cursor !== '');
  t.strictSame(pages.flat(), sealed, 'newest first, each once');
  t.ok(pages.every((page) => page.length <= 2));
  t.strictSame(
    (await lister.get('/v1/jobs')).json<{ jobs: JobBody[] }>().jobs.map(({ id }) => id),
    sealed,
  );
});

t.test('filters select jobs by reference, digest, visibility and phase', async (t) => {
  const lister = client.as(await issue({ clientId: 'filter', organization: 'filter' }));
  const a = await seal(lister, 'a', { customer_reference: 'ref&=+ é', visibility: 'organization' });
  const b = await seal(lister, 'b', { customer_reference: 'other', purpose: 'Miete "2026"' });
  const sha256 = createHash('sha256').update(pdfOf('a')).digest('hex');
  const cases: [Record<string, string>, JobBody[]][] = [
    [{ customer_reference: 'ref&=+ é' }, [a]],
    [{ customer_reference: 'REF&=+ é' }, []],
    [{ document_sha256: sha256 }, [a]],
    [{ document_sha256: sha256.toUpperCase() }, [a]],
    [{ visibility: 'private' }, [b]],
    [{ purpose: 'Miete "2026"' }, [b]],
    [{ purpose: 'other' }, []],
    [{ visibility: 'organization', document_sha256: sha256 }, [a]],
    [{ visibility: 'private', document_sha256: sha256 }, []],
    [{ phase: 'completed' }, [b, a]],
    [{ phase: 'queued' }, []],
    [{ phase: 'hashing' }, []],
    [{ phase: 'failed' }, []],
    [{ created_from: a.created_at }, [b, a]],
    [{ created_to: a.created_at }, []],
    [{ created_from: a.created_at, created_to: b.created_at }, [a]],
    [{ created_from: '2024-02-29T23:59:59+02:00', created_to: '2024-12-31T00:00:00Z' }, []],
    [{ created_from: '2000-01-01T00:00:00+02:00', created_to: '2000-01-02T00:00:00.123456-02:30' }, []],
  ];
  for (const [query, expected] of cases) {
    const { jobs } = (await lister.get(`/v1/jobs?${new URLSearchParams(query)}`)).json<{ jobs: JobBody[] }>();
    t.strictSame(jobs, expected, JSON.stringify(query));
  }
});

t.test('a malformed query is refused', async (t) => {
  const cases: [string, string][] = [
    ['limit=0', 'invalid_parameter'],
    ['limit=101', 'invalid_parameter'],
    ['limit=1e1', 'invalid_parameter'],
    ['limit=', 'invalid_parameter'],
    ['limit=1&limit=1', 'duplicate_parameter'],
    ['cursor=nonsense', 'invalid_parameter'],
    [`cursor=${Buffer.from('job_a').toString('base64url')}%3D`, 'invalid_parameter'],
    ['document_sha256=abc', 'invalid_parameter'],
    ['customer_reference=', 'invalid_parameter'],
    ['customer_reference=a%00b', 'invalid_parameter'],
    ['purpose=', 'invalid_parameter'],
    ['visibility=public', 'invalid_parameter'],
    ['phase=done', 'invalid_parameter'],
    ['created_from=yesterday', 'invalid_parameter'],
    ['created_from=2026-01-02', 'invalid_parameter'],
    ['created_from=2026-02-31T25:00:00Z', 'invalid_parameter'],
    ['created_from=2026-02-31T05:00:00Z', 'invalid_parameter'],
    ['created_to=2026-02-29T05:00:00Z', 'invalid_parameter'],
    ['created_to=2026-01-02T03:04:05', 'invalid_parameter'],
    ['Limit=1', 'unknown_parameter'],
    ['__proto__=1', 'unknown_parameter'],
    ['constructor=1', 'unknown_parameter'],
    ['=', 'unknown_parameter'],
    ['%ff%00=1', 'unknown_parameter'],
  ];
  for (const [query, code] of cases)
    t.equal(codeOf(await client.get(`/v1/jobs?${query}`)), `400 ${code}`, query);
});

t.test('a store that contradicts itself ends the process, without details to the caller', async (t) => {
  const app = await openTestApp(t);
  const { id } = await seal(app.client, 'a');
  t.intercept(app.store.log, 'batchOf', { value: async () => undefined });
  const answer = await app.client.get(`/v1/jobs/${id}/receipt.json`);
  t.equal(codeOf(answer), '500 internal_error');
  t.notMatch(answer.text, 'leaf');
  t.match(app.fatal, [{ name: 'BrokenInvariant' }]);
  t.ok(app.log().some(({ request_id }) => request_id === answer.headers.get('X-Request-Id')));
});

t.test('an unexpected error is logged with its stack, without details to the caller', async (t) => {
  const app = await openTestApp(t);
  t.intercept(app.store.jobs, 'list', {
    value: async () => {
      throw new TypeError('/secret/path', { cause: new Error('the cause') });
    },
  });
  const answer = await app.client.get('/v1/jobs?customer_reference=Erika');
  t.equal(codeOf(answer), '500 internal_error');
  t.notMatch(answer.text, 'secret');
  const requestId = answer.headers.get('X-Request-Id');
  const lines = app.log().filter((line) => line.request_id === requestId);
  t.match(lines, [
    { level: 'error', err: { type: 'TypeError', stack: /secret/, cause: { message: 'the cause' } } },
    { level: 'info', status: 500, error_code: 'internal_error', route: '/v1/jobs', client_id: 'acme-web' },
  ]);
  t.notMatch(JSON.stringify(lines), 'Erika');
  t.strictSame(app.fatal, [], 'and the process goes on');
});

t.test('a failed job gives its reason', async (t) => {
  const job = await seal(client, 'to fail');
  const record = await store.jobs.get(job.id);
  if (!record) throw new Error('no job');
  const failure = { code: 'kms_partition_unavailable', message: 'why', failedAt: 1 } as const;
  t.intercept(store.jobs, 'get', {
    value: async () => ({ ...record, outcome: { kind: 'failed', failure } }),
  });
  t.match((await client.get(`/v1/jobs/${job.id}`)).json(), {
    phase: 'failed',
    error: {
      type: 'unavailable_error',
      code: failure.code,
      message: 'why',
      doc_url: `/v1/errors/${failure.code}`,
    },
  });
});
