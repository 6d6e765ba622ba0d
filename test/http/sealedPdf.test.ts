import { createHash } from 'node:crypto';
import { readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { openTestApp, type TestApp } from '../support/app.ts';
import type { Answer, Envelope, JobBody } from '../support/client.ts';
import { encryptedPdf, makePdf, metadata, onePage, pdfFile } from '../support/pdf.ts';
import { openSource, sha256Of } from '../support/sources.ts';
import { until } from '../support/until.ts';
import { exchange } from '../support/wire.ts';

const DOCUMENT = Buffer.from(await makePdf('Invoice'));
const ENCRYPTED = Buffer.from(encryptedPdf());
const ATTACH = { sealed_pdf: 'attach', mode: 'blocking' };

let now = 0;
const app = await openTestApp(t, {
  attach: true,
  sources: { allow: ['127.0.0.0/8'] },
  monotonicMs: () => now,
});
const files = () => readdirSync(app.documentsDir);
const codeOf = (answer: Answer) => answer.json<Envelope>().error.code;

async function sealed({ client }: Pick<TestApp, 'client'>, document = DOCUMENT, fields = {}) {
  const answer = await client.seal(document, { ...ATTACH, ...fields });
  t.equal(answer.status, 202, answer.text);
  const { id, capabilities, sealed_pdf_url } = answer.json<JobBody & { sealed_pdf_url?: string }>();
  const path = `/v1/jobs/${id}/sealed.pdf`;
  t.ok(sealed_pdf_url?.endsWith(path), 'the job says where');
  t.ok(capabilities.includes('pdf.attached'));
  const receipt = (await client.get(`/v1/jobs/${id}/receipt.json`)).bytes;
  return { id, path, receipt, suffixPath: `/v1/jobs/${id}/sealed-pdf.suffix` };
}

t.test('the sealed PDF is the document and a suffix with the receipt', async (t) => {
  const { id, path, suffixPath, receipt } = await sealed(app);
  const answer = await app.client.get(path);
  t.equal(answer.status, 200);
  t.same(answer.bytes.subarray(0, DOCUMENT.length), DOCUMENT);
  const suffix = await app.client.get(suffixPath);
  t.equal(suffix.status, 200);
  t.equal(suffix.headers.get('Content-Type'), 'application/octet-stream');
  t.same(answer.bytes.subarray(DOCUMENT.length), suffix.bytes);
  t.ok(suffix.bytes.includes(receipt.toString('hex')), 'the receipt, byte for byte');

  const sha256 = sha256Of(answer.bytes);
  const headers = {
    'Content-Type': 'application/pdf',
    'Content-Length': String(answer.bytes.length),
    'Content-Disposition': `attachment; filename="${id}.sealed.pdf"`,
    'Repr-Digest': `sha-256=:${Buffer.from(sha256, 'hex').toString('base64')}:`,
    ETag: `"${sha256}"`,
    'Accept-Ranges': 'bytes',
    'Cache-Control': 'no-store',
  };
  const head = await app.client.request('HEAD', path);
  for (const [name, value] of Object.entries(headers)) {
    t.equal(answer.headers.get(name), value, name);
    t.equal(head.headers.get(name), value, `${name} of HEAD`);
  }
  // fetch makes every conditional request a reload, so this is sent by hand.
  const known = `Authorization: Bearer ${app.client.apiKey}\r\nIf-None-Match: ${headers.ETag}\r\n`;
  const request = `GET ${path} HTTP/1.1\r\nHost: a\r\n${known}Connection: close\r\n\r\n`;
  t.match(await exchange(app.server.port, request, app.client.check), { status: 304, text: '' });
});

t.test('a part of it can be read', async (t) => {
  const { path } = await sealed(app);
  const { bytes, headers } = await app.client.get(path);
  const { length } = bytes;
  const edge = DOCUMENT.length;
  const part = (range: string, ifRange = '') => app.client.get(path, { Range: range, 'If-Range': ifRange });
  for (const [range, start, end] of [
    ['bytes=0-0', 0, 1],
    [`bytes=${edge - 5}-${edge + 4}`, edge - 5, edge + 5],
    [`bytes=${edge}-`, edge, length],
    ['bytes=10-99999999', 10, length],
    ['bytes=-7', length - 7, length],
    [`bytes=-${length + 5}`, 0, length],
  ] as const) {
    const answer = await part(range);
    t.equal(answer.status, 206, range);
    t.equal(answer.headers.get('Content-Range'), `bytes ${start}-${end - 1}/${length}`);
    t.equal(answer.headers.get('Content-Length'), String(end - start));
    t.same(answer.bytes, bytes.subarray(start, end));
  }
  for (const range of ['bytes=5-3', 'bytes=0-1,3-4', 'lines=0-1', 'bytes=-', 'bytes=x-'])
    t.equal((await part(range)).status, 200, `${range} is ignored`);
  for (const range of [`bytes=${length}-`, 'bytes=-0']) {
    const answer = await part(range);
    t.equal(answer.status, 416, range);
    t.equal(codeOf(answer), 'range_not_satisfiable');
    t.equal(answer.headers.get('Content-Range'), `bytes */${length}`);
    for (const name of ['Repr-Digest', 'Content-Disposition']) t.notOk(answer.headers.has(name), name);
  }
  t.equal((await part('bytes=0-0', headers.get('ETag') ?? '')).status, 206);
  t.equal((await part('bytes=0-0', '"another"')).status, 200, 'of another version, everything');
});

t.test('each form of a create can ask for it', async (t) => {
  const source = await openSource(
    t,
    (req, res) => void res.end(req.url === '/no.pdf' ? ENCRYPTED : DOCUMENT),
  );
  const raw = await app.client.request(
    'POST',
    '/v1/jobs/seal?visibility=private&mode=blocking&sealed_pdf=attach',
    {
      headers: { 'Content-Type': 'application/pdf' },
      body: DOCUMENT,
    },
  );
  const bySource = (path: string, document: Buffer) =>
    app.client.request('POST', '/v1/jobs/seal', {
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({
        source_url: source.origin + path,
        checksum_sha256: sha256Of(document),
        visibility: 'private',
        ...ATTACH,
      }),
    });
  for (const answer of [raw, await bySource('/a.pdf', DOCUMENT)]) {
    t.equal(answer.status, 202, answer.text);
    const pdf = await app.client.get(`/v1/jobs/${answer.json<JobBody>().id}/sealed.pdf`);
    t.equal(pdf.status, 200);
    t.same(pdf.bytes.subarray(0, DOCUMENT.length), DOCUMENT);
  }
  const { length } = files();
  t.equal(codeOf(await bySource('/no.pdf', ENCRYPTED)), 'pdf_not_sealable', 'the job fails');
  t.equal(files().length, length);
});

t.test('what cannot be sealed is refused before anything is accepted', async (t) => {
  const before = files();
  const refused = await app.client.seal(ENCRYPTED, ATTACH);
  t.equal(refused.status, 400);
  t.match(refused.json<Envelope>().error, {
    type: 'invalid_request_error',
    code: 'pdf_not_sealable',
    message: /sealed_pdf=none/,
  });
  t.strictSame(files(), before);
  t.equal((await app.client.seal(ENCRYPTED, { mode: 'blocking' })).status, 202, 'a receipt alone');
});

t.test('the field must precede the file, and have a known value', async (t) => {
  const form = new FormData();
  form.append('visibility', 'private');
  form.append('file', new Blob([DOCUMENT]), 'a.pdf');
  form.append('sealed_pdf', 'attach');
  const late = await app.client.request('POST', '/v1/jobs/seal', { body: form });
  t.equal(late.status, 400);
  t.match(late.json<Envelope>().error, {
    code: 'invalid_parameter',
    message: /^sealed_pdf must precede file/,
  });
  const unknown = await app.client.seal(DOCUMENT, { sealed_pdf: 'sign' });
  t.match(unknown.json<Envelope>().error, { code: 'invalid_parameter', message: /one of: none, attach/ });
});

t.test('it is a part of the request that a key stands for', async (t) => {
  const key = { 'Idempotency-Key': 'key-of-an-invoice' };
  const first = await app.client.seal(DOCUMENT, ATTACH, key);
  const { length } = files();
  t.equal((await app.client.seal(DOCUMENT, ATTACH, key)).text, first.text);
  t.equal(files().length, length, 'a repeat keeps nothing');
  t.equal(codeOf(await app.client.seal(DOCUMENT, { mode: 'blocking' }, key)), 'idempotency_key_reused');
  const other = { 'Idempotency-Key': 'key-from-before' };
  const plain = await app.client.seal(DOCUMENT, { mode: 'blocking' }, other);
  const none = await app.client.seal(DOCUMENT, { mode: 'blocking', sealed_pdf: 'none' }, other);
  t.equal(none.text, plain.text, 'none is the same as nothing');
});

t.test('those who see the job can read it, until the document expires', async (t) => {
  const { path, suffixPath } = await sealed(app, DOCUMENT, { visibility: 'organization' });
  const status = async (apiKey: string) => (await app.client.as(apiKey).get(path)).status;
  t.equal(await status(await app.issue({ clientId: 'other' })), 200);
  t.equal(await status(await app.issue({ clientId: 'x', organization: 'x' })), 404);
  now += 3_600_000;
  t.equal(codeOf(await app.client.get(path)), 'document_expired');
  t.equal((await app.client.get(suffixPath)).status, 200, 'as long as the receipt');
  now -= 3_600_000;
});

t.test('a job without one has none', async (t) => {
  const answer = await app.client.seal(DOCUMENT, { mode: 'blocking' });
  const { id, capabilities } = answer.json<JobBody>();
  t.notOk('sealed_pdf_url' in answer.json<object>());
  t.notOk(capabilities.includes('pdf.attached'));
  for (const path of ['sealed.pdf', 'sealed-pdf.suffix', 'document.pdf'])
    t.equal(codeOf(await app.client.get(`/v1/jobs/${id}/${path}`)), 'document_unavailable', path);
});

t.test('a damaged document is an error before anything of it is sent', async (t) => {
  const { path } = await sealed(app);
  for (const name of files()) {
    const file = join(app.documentsDir, name);
    writeFileSync(file, Buffer.alloc(statSync(file).size));
  }
  t.equal((await app.client.get(path)).status, 500);
  t.equal((await app.client.get(path, { Range: 'bytes=0-3' })).status, 500);
});

t.test('without its document, such as after a restore, there is the suffix, and no sealed PDF', async (t) => {
  const { path } = await sealed(app);
  t.equal((await app.client.get(path)).status, 200);
  for (const name of files()) rmSync(join(app.documentsDir, name));
  for (const part of ['', 'bytes=0-3'])
    t.equal(codeOf(await app.client.get(path, { Range: part })), 'document_unavailable');
  t.equal((await app.client.get(path.replace('sealed.pdf', 'sealed-pdf.suffix'))).status, 200);
});

t.test('in compliance mode it begins with the copy without metadata', async (t) => {
  const strict = await openTestApp(t, { attach: true, compliance: true });
  const withXmp = Buffer.from(pdfFile({ ...onePage('/Metadata 5 0 R'), 5: metadata() }));
  const { id, path } = await sealed(strict, withXmp);
  const copy = (await strict.client.get(`/v1/jobs/${id}/document.pdf`)).bytes;
  t.equal(copy.indexOf('xpacket'), -1);
  t.same((await strict.client.get(path)).bytes.subarray(0, copy.length), copy);
  const asItIs = await sealed(strict, withXmp, { preserve_metadata: 'true' });
  t.same((await strict.client.get(asItIs.path)).bytes.subarray(0, withXmp.length), withXmp);
  t.equal(codeOf(await strict.client.get(`/v1/jobs/${asItIs.id}/document.pdf`)), 'document_unavailable');
  const digests = createHash('sha512').update(copy).digest('hex');
  const receipt = (await strict.client.get(`/v1/jobs/${id}/receipt.json`)).json<object>();
  t.match(receipt, { manifest: { sealed_document: { sha512: digests } } });
});

t.test('a service that makes none says so, for each form', async (t) => {
  const plain = await openTestApp(t, { sources: { allow: ['127.0.0.0/8'] } });
  const upload = await plain.client.seal(DOCUMENT, ATTACH);
  const reference = await plain.client.request('POST', '/v1/jobs/seal', {
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({
      source_url: 'http://127.0.0.1:1/a.pdf',
      checksum_sha256: sha256Of(DOCUMENT),
      visibility: 'private',
      ...ATTACH,
    }),
  });
  for (const { status, json } of [upload, reference]) {
    t.equal(status, 400);
    t.match(json<Envelope>().error, { code: 'invalid_parameter', message: /^sealed_pdf must be none/ });
  }
  t.equal((await plain.client.seal(DOCUMENT, { sealed_pdf: 'none' })).status, 202);
  await until('nothing is left', () => readdirSync(plain.documentsDir).length === 0);
});
