import { createHash } from 'node:crypto';
import t from 'tap';
import { toHex } from '../../src/base/bytes.ts';
import { encodeManifest, leafData, manifestOf } from '../../src/manifest/manifest.ts';
import { makeContent, makeJob } from '../support/sealing.ts';

const sealedAt = Date.parse('2026-03-04T05:06:07.300Z');

const textOf = (manifest: object) => new TextDecoder().decode(encodeManifest(manifest));

t.test('a manifest is in canonical form, without unset members', async (t) => {
  const text = textOf(manifestOf(makeJob('job_1'), 'sandbox', sealedAt));
  t.equal(
    text,
    `{"accepted_at":"2026-03-04T05:06:07.008Z","document":{"bytes":12345,"sha256":"${'ab'.repeat(32)}","sha512":"${'cd'.repeat(64)}"},` +
      '"environment":"env_sandbox","job_id":"job_1","scan":{"verdict":"not_configured"},"schema":"pdfseal-manifest/1",' +
      '"sealed_at":"2026-03-04T05:06:07.300Z","source":"upload","visibility":"organization"}',
  );
});

t.test('every set member is written code unit for code unit', async (t) => {
  const reference = ' n\u0303 ñ \u{1f4c4} "quoted"\\ ';
  const job = makeJob('job_2', {
    purpose: 'invoices',
    customerReference: reference,
    content: makeContent({
      scan: { verdict: 'clean', engine: 'ClamAV 1.4.1', signatures: '27300' },
      sealedDocument: { sha256: '12'.repeat(32), sha512: '34'.repeat(64), bytes: 12_345 },
    }),
  });
  const manifest = manifestOf(job, 'production', sealedAt);
  t.match(manifest, {
    purpose: 'invoices',
    customer_reference: reference,
    scan: job.content.scan,
    sealed_document: job.content.sealedDocument,
    environment: 'env_production',
  });
  t.strictSame(JSON.parse(textOf(manifest)), manifest);
});

t.test('leaf data is SHA-512 of the canonical form', async (t) => {
  const manifest = manifestOf(makeJob('job_1'), 'sandbox', sealedAt);
  t.equal(toHex(leafData(manifest)), createHash('sha512').update(encodeManifest(manifest)).digest('hex'));
  t.strictSame(leafData(JSON.parse(JSON.stringify(manifest))), leafData(manifest));
});
