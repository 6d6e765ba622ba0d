import assert from 'node:assert/strict';
import t from 'tap';
import { encodeReceipt } from '../../../src/manifest/receipt.ts';
import { encodeTrust } from '../../../src/manifest/trustFile.ts';
import { planAttachment } from '../../../src/pdf/update/attach.ts';
import { bufferSource } from '../../../src/pdf/window.ts';
import { openSealedPdf } from '../../../src/prove/verify/sealedPdf.ts';
import { type Verdict, verifyReceiptText } from '../../../src/prove/verify/verify.ts';
import { appendRevision, onePage, pdfFile } from '../../support/pdf.ts';
import { digestsOf } from '../../support/receipts.ts';
import { SEALABLE } from '../../support/sealable.ts';
import { makeContent, makeJob, makeKey, oneEpoch, sealJobs } from '../../support/sealing.ts';
import { fc, tries } from '../../support/seed.ts';

const ORIGIN = 'seal.example.com/test/2026';
const SEALED_AT = Date.parse('2026-03-04T05:06:08Z');
const key = makeKey('ed25519', 'one');
const { privateKey: _privateKey, ...logKey } = key;
const trust = encodeTrust({
  timestampAuthorities: [],
  logs: [oneEpoch({ origin: ORIGIN, environment: 'env_test', quorum: 1, keys: [logKey] })],
});

/** The receipt of a document, or of the copy of another one. */
async function receiptOf(document: Buffer, received?: Buffer): Promise<string> {
  const content = received
    ? makeContent({ document: digestsOf(received), sealedDocument: digestsOf(document) })
    : makeContent({ document: digestsOf(document) });
  const jobs = [makeJob('job_1', { content }), makeJob('job_2')] as const;
  const [receipt] = await sealJobs({
    jobs,
    environment: 'test',
    origin: ORIGIN,
    keys: [key],
    sealedAt: SEALED_AT,
  });
  assert.ok(receipt);
  return encodeReceipt(receipt);
}

async function sealed(document: Buffer, receipt: string, sealedAt = SEALED_AT): Promise<Buffer> {
  const suffix = await planAttachment(bufferSource(document), { receipt: Buffer.from(receipt), sealedAt });
  return Buffer.concat([document, suffix]);
}

async function verdictOn(file: Buffer): Promise<Pick<Verdict, 'outcome'> & Partial<Verdict>> {
  const { receipt, documentBytes, finding } = await openSealedPdf(bufferSource(file));
  if (receipt === undefined) return { outcome: finding.outcome === 'failed' ? 'bad' : 'unknown' };
  return verifyReceiptText(receipt, trust, digestsOf(file.subarray(0, documentBytes)), { seal: finding });
}

const document = SEALABLE['a tree with limits'] ?? Buffer.alloc(0);
const receipt = await receiptOf(document);
const good = await sealed(document, receipt);

t.test('each document that can be sealed verifies, with a line for the seal', async (t) => {
  for (const [name, one] of Object.entries(SEALABLE)) {
    const verdict = await verdictOn(await sealed(one, await receiptOf(one)));
    t.match(verdict, { outcome: 'good', checks: [{ name: 'seal', outcome: 'passed' }] }, name);
  }
});

t.test('a copy without metadata can be sealed', async (t) => {
  const verdict = await verdictOn(
    await sealed(document, await receiptOf(document, Buffer.from('with metadata'))),
  );
  t.match(verdict, { outcome: 'good', matches: 'sealed_document' });
});

t.test('a document that was sealed twice is judged by its newest receipt', async (t) => {
  const twice = await sealed(good, await receiptOf(good));
  t.match(await verdictOn(twice), { outcome: 'good' });
  t.equal((await openSealedPdf(bufferSource(twice))).documentBytes, good.length);
});

t.test('without a receipt nothing can be told', async (t) => {
  t.match(await openSealedPdf(bufferSource(document)), {
    finding: { outcome: 'unknown', detail: /no receipt/ },
  });
  t.match(await openSealedPdf(bufferSource(Buffer.from('no PDF'))), { finding: { outcome: 'unknown' } });
  const other = await sealed(document, '{"a":1}');
  t.match(await openSealedPdf(bufferSource(other)), {
    finding: { outcome: 'unknown', detail: /not a receipt/ },
  });
});

t.test('what comes after the seal is seen', async (t) => {
  const shadow = appendRevision(good, { 4: '<< /Length 0 >>\nstream\n\nendstream' });
  t.match(await verdictOn(shadow), {
    outcome: 'bad',
    checks: [{ name: 'seal', detail: /changed after it was sealed: \d+ bytes follow/ }],
  });
  t.match(await verdictOn(Buffer.concat([good, Buffer.from('%')])), { outcome: 'bad' });
});

t.test('no other suffix passes for the seal', async (t) => {
  const suffix = good.subarray(document.length).toString('latin1');
  const swapped = suffix.replace('(pdfseal-receipt.json) /UF', '(pdfseal-receipt.JSON) /UF');
  t.not(swapped, suffix);
  t.match(await verdictOn(Buffer.concat([document, Buffer.from(swapped, 'latin1')])), { outcome: 'bad' });
  t.match(
    await verdictOn(await sealed(document, receipt, SEALED_AT + 1000)),
    { outcome: 'bad' },
    'another date',
  );
  const other = pdfFile(onePage('/Lang (en)'));
  t.match(await verdictOn(await sealed(other, receipt)), { outcome: 'bad' }, 'another document');
});

t.test('a sealed PDF with any change is never good', async (t) => {
  const edit = fc.record({
    at: fc.nat({ max: good.length }),
    drop: fc.nat({ max: 4 }),
    put: fc.oneof(fc.constantFrom('', '0', ' ', '>>', '/', '\n'), fc.string({ maxLength: 4 })),
  });
  await t.resolves(
    fc.assert(
      fc.asyncProperty(edit, async ({ at, drop, put }) => {
        const changed = Buffer.concat([
          good.subarray(0, at),
          Buffer.from(put, 'latin1'),
          good.subarray(at + drop),
        ]);
        if (changed.equals(good)) return;
        assert.notEqual((await verdictOn(changed)).outcome, 'good');
      }),
      { numRuns: tries(2000) },
    ),
  );
});
