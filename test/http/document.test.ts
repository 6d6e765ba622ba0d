import { createHash } from 'node:crypto';
import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { Receipt } from '../../src/manifest/receipt.ts';
import { sampleContent, sampleJob } from '../store/samples.ts';
import { openTestApp, pullToken, type TestApp } from '../support/app.ts';
import type { Envelope, JobBody } from '../support/client.ts';
import { metadata, onePage, pdfFile } from '../support/pdf.ts';
import { openSource, sha256Of } from '../support/sources.ts';
import { until } from '../support/until.ts';
import { slowUpload, Wire } from '../support/wire.ts';

const WITH_XMP = Buffer.from(pdfFile({ ...onePage('/Metadata 5 0 R'), 5: metadata() }));
const WITHOUT_XMP = Buffer.from(pdfFile(onePage()));
const SIGNED = Buffer.from(pdfFile({ ...onePage(), 5: '<< /Type /Sig /ByteRange [0 1 2 3] >>' }));

const LARGE_BYTES = 24 * 2 ** 20;

const digestsOf = (data: Buffer) => ({
  sha256: createHash('sha256').update(data).digest('hex'),
  sha512: createHash('sha512').update(data).digest('hex'),
  bytes: data.length,
});

async function sealed(
  { client }: TestApp,
  document: Buffer<ArrayBuffer>,
  fields: Record<string, string> = {},
) {
  const answer = await client.seal(document, { mode: 'blocking', ...fields });
  const { id } = answer.json<JobBody>();
  const receipt = (await client.get(`/v1/jobs/${id}/receipt.json`)).json<Receipt>();
  return { id, path: `/v1/jobs/${id}/document.pdf`, receipt };
}

let now = 0;
const app = await openTestApp(t, {
  compliance: true,
  partitions: { probeIntervalMs: 50 },
  sources: { allow: ['127.0.0.0/8'] },
  monotonicMs: () => now,
});
const files = () => readdirSync(app.documentsDir);

t.test('the copy without metadata is served, and its digests are sealed', async (t) => {
  const { id, path, receipt } = await sealed(app, WITH_XMP);
  const answer = await app.client.get(path);
  t.equal(answer.status, 200);
  t.equal(answer.bytes.length, WITH_XMP.length);
  t.equal(answer.bytes.indexOf('xpacket'), -1);
  t.same(receipt.manifest.sealed_document, digestsOf(answer.bytes));
  t.same(receipt.manifest.document, digestsOf(WITH_XMP), 'the document is what was received');
  t.equal(receipt.document_sha256, digestsOf(WITH_XMP).sha256);

  const { sha256, sha512 } = digestsOf(answer.bytes);
  const [short, long] = [sha256, sha512].map((hex) => Buffer.from(hex, 'hex').toString('base64'));
  const headers = {
    'Content-Type': 'application/pdf',
    'Content-Length': String(WITH_XMP.length),
    'Content-Disposition': `attachment; filename="${id}.pdf"`,
    'Repr-Digest': `sha-256=:${short}:, sha-512=:${long}:`,
    'Cache-Control': 'no-store',
  };
  const head = await app.client.request('HEAD', path);
  t.equal(head.status, 200);
  for (const [name, value] of Object.entries(headers)) {
    t.equal(answer.headers.get(name), value, name);
    t.equal(head.headers.get(name), value, `${name} of HEAD`);
  }
  t.equal(answer.headers.get('Content-Digest'), headers['Repr-Digest']);
  t.notOk(head.headers.has('Content-Digest'), 'the content of HEAD is none');
  t.equal(files().length, 1);
});

t.test('a document without metadata has an identical copy', async (t) => {
  const { path, receipt } = await sealed(app, WITHOUT_XMP);
  t.same(receipt.manifest.sealed_document, receipt.manifest.document);
  t.same((await app.client.get(path)).bytes, WITHOUT_XMP);
});

t.test('documents that share a file are served each as it was sealed', async (t) => {
  const before = files();
  const documents = [1, 2, 3].map((n) =>
    Buffer.from(pdfFile({ ...onePage(), 5: `(${'n'.repeat(100 * n)})` })),
  );
  const all = await Promise.all(documents.map((document) => sealed(app, document)));
  for (const [n, { path }] of all.entries()) t.same((await app.client.get(path)).bytes, documents[n]);
  t.strictSame(files(), before, 'the file of the document before');
});

t.test('preserve_metadata=true seals the document as it is, and keeps no copy', async (t) => {
  const before = files();
  for (const document of [WITH_XMP, SIGNED]) {
    const { path, receipt } = await sealed(app, document, { preserve_metadata: 'true' });
    t.notOk('sealed_document' in receipt.manifest);
    t.match((await app.client.get(path)).json<Envelope>(), { error: { code: 'document_unavailable' } });
  }
  const form = new FormData();
  form.append('file', new Blob([WITH_XMP]), 'a.pdf');
  form.append('visibility', 'private');
  form.append('preserve_metadata', 'true');
  const last = await app.client.request('POST', '/v1/jobs/seal', { body: form });
  t.equal(last.status, 202, 'also where the field follows the file');
  t.strictSame(files(), before);
});

t.test('a document that cannot be stripped is refused, and leaves nothing', async (t) => {
  const before = files();
  const newest = async () =>
    (await app.client.get('/v1/jobs?limit=1')).json<{ jobs: JobBody[] }>().jobs[0]?.id;
  const last = await newest();
  const key = { 'Idempotency-Key': 'signed-document' };
  const refused = await app.client.seal(SIGNED, {}, key);
  t.equal(refused.status, 400);
  const { error } = refused.json<Envelope>();
  t.match(error, {
    type: 'invalid_request_error',
    code: 'metadata_not_strippable',
    message: /signed.*preserve_metadata=true/s,
  });
  t.strictSame(files(), before);
  t.equal(await newest(), last, 'no job was made');
  const again = await app.client.seal(SIGNED, { preserve_metadata: 'true' }, key);
  t.equal(again.status, 202, 'the key is free for the corrected request');
});

t.test('a repeat makes no second copy, and a refused upload makes none', async (t) => {
  const { length } = files();
  const key = { 'Idempotency-Key': 'one-and-the-same' };
  const first = await app.client.seal(WITH_XMP, { mode: 'blocking' }, key);
  const second = await app.client.seal(WITH_XMP, { mode: 'blocking' }, key);
  t.equal(second.text, first.text);
  t.equal(files().length, length + 1);
  const wrong = await app.client.seal(WITH_XMP, { checksum_sha256: '0'.repeat(64) });
  t.equal(wrong.status, 409);
  t.equal((await app.client.seal(Buffer.from('no PDF'))).status, 400);
  await until('nothing else is left', () => files().length === length + 1);
});

t.test('a copy is served to those who see the job, until it expires', async (t) => {
  const { path } = await sealed(app, WITH_XMP, { visibility: 'organization' });
  const status = async (apiKey: string) => (await app.client.as(apiKey).get(path)).status;
  t.equal(await status(await app.issue({ clientId: 'other' })), 200, 'its organization');
  t.equal(await status(await app.issue({ clientId: 'x', organization: 'x' })), 404, 'nobody else');
  t.equal(await status(await app.issue({ scopes: ['jobs:create'] })), 403);
  t.equal((await app.client.as(undefined).get(path)).status, 401);
  t.equal((await app.client.get('/v1/jobs/job_0/document.pdf')).status, 404);
  now += 3_600_000;
  const late = await app.client.get(path);
  t.equal(late.status, 404);
  t.match(late.json<Envelope>().error, { code: 'document_expired', message: /for 1 hours/ });
  t.equal((await app.client.request('HEAD', path)).status, 404);
  now -= 3_600_000;
});

t.test('a waiting or failed job has no copy to serve', async (t) => {
  const receiving = await slowUpload(app.client, WITH_XMP);
  const putBack = await pullToken(app);
  const { id } = JSON.parse((await receiving.finish()).text) as JobBody;
  const path = `/v1/jobs/${id}/document.pdf`;
  const waiting = await app.client.get(path);
  t.match(waiting.json<Envelope>().error, { code: 'document_not_ready' });
  t.ok(Number(waiting.headers.get('Retry-After')) > 0);
  await putBack();

  const job = sampleJob({
    clientId: 'acme-web',
    content: { ...sampleContent(), sealedDocument: sampleContent().document },
  });
  await app.store.jobs.accept(job, { copy: { file: 'a-file', key: 'a2V5' } });
  await app.store.jobs.fail(job.id, {
    code: 'timestamp_unavailable',
    message: 'No authority.',
    failedAt: now,
  });
  const failed = await app.client.get(`/v1/jobs/${job.id}/document.pdf`);
  t.match(failed.json<Envelope>().error, { code: 'document_unavailable', message: /failed/ });
});

t.test('a copy that is damaged is an error, and one that is missing is none', async (t) => {
  const before = new Set(files());
  const { path } = await sealed(app, WITH_XMP);
  const [name = ''] = files().filter((file) => !before.has(file));
  writeFileSync(join(app.documentsDir, name), Buffer.alloc(WITH_XMP.length));
  t.equal((await app.client.get(path)).status, 500);
  t.ok(app.log().some(({ msg }) => msg === 'unexpected error'));
  rmSync(join(app.documentsDir, name));
  const missing = await app.client.get(path);
  t.equal(missing.status, 404);
  t.match(missing.json<Envelope>().error, {
    code: 'document_unavailable',
    message: /missing, as after a restore/,
  });
  const warnings = app.log().filter(({ msg }) => msg === 'the file of a kept document is missing');
  t.match(warnings, [{ level: 'warn', file: name }]);
  t.strictSame(app.fatal, []);
});

t.test('a document from a source_url has a copy, too', async (t) => {
  const source = await openSource(
    t,
    (req, res) => void res.end(req.url === '/signed.pdf' ? SIGNED : WITH_XMP),
  );
  const create = (path: string, document: Buffer, fields: object = {}) =>
    app.client.request('POST', '/v1/jobs/seal', {
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({
        source_url: source.origin + path,
        checksum_sha256: sha256Of(document),
        visibility: 'private',
        mode: 'blocking',
        ...fields,
      }),
    });
  const { id } = (await create('/a.pdf', WITH_XMP)).json<JobBody>();
  const receipt = (await app.client.get(`/v1/jobs/${id}/receipt.json`)).json<Receipt>();
  const copy = await app.client.get(`/v1/jobs/${id}/document.pdf`);
  t.same(receipt.manifest.sealed_document, digestsOf(copy.bytes));
  t.equal(copy.bytes.indexOf('xpacket'), -1);

  const { length } = files();
  const refused = await create('/signed.pdf', SIGNED);
  t.match(refused.json<Envelope>().error, { code: 'metadata_not_strippable' });
  const kept = await create('/signed.pdf', SIGNED, { preserve_metadata: true });
  t.equal(kept.json<JobBody>().phase, 'completed');
  t.equal(files().length, length);
});

t.test('downloads that are not read hold a share of the places, and not for ever', async (t) => {
  const app = await openTestApp(t, {
    compliance: true,
    documentBytesMax: 64 * 2 ** 20,
    bodyIdleTimeoutMs: 1_000,
    app: { downloadsMax: 4 },
  });
  // More than sockets hold.
  const content = `<< /Length ${LARGE_BYTES} >>\nstream\n${' '.repeat(LARGE_BYTES)}\nendstream`;
  const { path } = await sealed(app, Buffer.from(pdfFile({ ...onePage(), 5: content })));
  const wires = [1, 2].map(() => new Wire(app.server.port));
  for (const wire of wires) {
    wire.send(`GET ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${app.client.apiKey}\r\n\r\n`);
    await wire.until(/^HTTP\/1\.1 200/);
    wire.socket.pause();
  }
  const refused = await app.client.get(path);
  t.equal(refused.status, 429);
  t.match(refused.json<Envelope>().error, { code: 'too_many_requests', message: /2 downloads under way/ });
  const colleague = app.client.as(await app.issue({ clientId: 'colleague' }));
  const shared = await sealed({ ...app, client: colleague }, WITH_XMP);
  t.equal((await colleague.get(shared.path)).status, 200, 'another client finds a place');
  await until('a place again', async () => (await app.client.get(path)).status === 200);
  for (const wire of wires) wire.destroy();
});

t.test('without compliance mode no copy is kept', async (t) => {
  const app = await openTestApp(t);
  const { path, receipt } = await sealed(app, WITH_XMP);
  t.notOk('sealed_document' in receipt.manifest);
  t.match((await app.client.get(path)).json<Envelope>().error, { code: 'document_unavailable' });
  t.strictSame(readdirSync(app.documentsDir), []);
});

t.test('a full disk refuses only copies', async (t) => {
  const full = await openTestApp(t, { compliance: true, freeBytesMin: 2 ** 60 });
  const refused = await full.client.seal(WITH_XMP);
  t.equal(refused.status, 503);
  t.match(refused.json<Envelope>().error, { type: 'unavailable_error', code: 'storage_full' });
  t.ok(Number(refused.headers.get('Retry-After')) > 0);
  await until('nothing is left', () => readdirSync(full.documentsDir).length === 0);
  const form = new FormData();
  form.append('visibility', 'private');
  form.append('preserve_metadata', 'true');
  form.append('file', new Blob([WITH_XMP]), 'a.pdf');
  t.equal((await full.client.request('POST', '/v1/jobs/seal', { body: form })).status, 202);
});
