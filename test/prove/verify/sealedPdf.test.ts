import assert from 'node:assert/strict';
import t from 'tap';
import { encodeReceipt } from '../../../src/manifest/receipt.ts';
import { encodeTrust } from '../../../src/manifest/trustFile.ts';
import { readerOf } from '../../../src/pdf/sourceReader.ts';
import { planAttachment } from '../../../src/pdf/update/attach.ts';
import { suffixOf } from '../../../src/pdf/update/suffix.ts';
import { bufferSource } from '../../../src/pdf/window.ts';
import { openSealedPdf } from '../../../src/prove/verify/sealedPdf.ts';
import { type Verdict, verifyReceiptText } from '../../../src/prove/verify/verify.ts';
import { appendRevision, onePage, pdfFile, stream } from '../../support/pdf.ts';
import { digestsOf } from '../../support/receipts.ts';
import { NOT_SEALABLE, SEALABLE } from '../../support/sealable.ts';
import { makeContent, makeJob, makeKey, oneEpoch, sealJobs } from '../../support/sealing.ts';
import { fc, mutations } from '../../support/seed.ts';

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
  const plan = await planAttachment(readerOf(bufferSource(document)));
  const suffix = suffixOf(plan, Buffer.from(receipt), sealedAt);
  return Buffer.concat([document, suffix]);
}

const open = (file: Buffer) => openSealedPdf(readerOf(bufferSource(file)));

async function verdictOn(file: Buffer): Promise<Pick<Verdict, 'outcome'> & Partial<Verdict>> {
  const { receipt, documentBytes, finding } = await open(file);
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
  const copy = await receiptOf(document, Buffer.from('with metadata'));
  t.match(await verdictOn(await sealed(document, copy)), { outcome: 'good', matches: 'sealed_document' });
});

t.test('a document that was sealed twice is judged by its newest receipt', async (t) => {
  const twice = await sealed(good, await receiptOf(good));
  t.match(await verdictOn(twice), { outcome: 'good' });
  t.equal((await open(twice)).documentBytes, good.length);
});

t.test('without a receipt nothing can be told', async (t) => {
  t.match(await open(document), { finding: { outcome: 'unknown', detail: /no receipt/ } });
  t.match(await open(Buffer.from('no PDF')), { finding: { outcome: 'unknown' } });
  t.match(await open(await sealed(document, '{"a":1}')), {
    finding: { outcome: 'unknown', detail: /not a receipt/ },
  });
});

t.test('incremental saving: what comes after the seal is seen', async (t) => {
  const page = appendRevision(good, { 4: stream('', Buffer.from('0 g')) });
  t.match(await verdictOn(page), {
    outcome: 'bad',
    checks: [{ name: 'seal', detail: /changed after it was sealed: \d+ bytes follow/ }],
  });
  const annotation = appendRevision(good, { 3: '<< /Type /Page /Parent 2 0 R /Annots [] >>' });
  t.match(await verdictOn(annotation), { outcome: 'bad' });
  t.match(await verdictOn(Buffer.concat([good, Buffer.from('%')])), { outcome: 'bad' });
  t.match(await verdictOn(Buffer.concat([good, Buffer.alloc(3 << 20, ' ')])), { outcome: 'bad' });
});

t.test('a shadow document: no other content passes for what was sealed', async (t) => {
  const other = pdfFile(onePage('/Lang (en)'));
  t.match(await verdictOn(await sealed(other, receipt)), { outcome: 'bad' }, 'another document');
  const hidden = appendRevision(document, { 4: stream('', Buffer.from('0 g')) });
  t.match(
    await verdictOn(await sealed(hidden, receipt)),
    { outcome: 'bad' },
    'one more revision before the seal',
  );
  const suffix = good.subarray(document.length);
  t.match(await verdictOn(Buffer.concat([hidden, suffix])), { outcome: 'bad' }, 'a revision put before it');
});

t.test('wrapping: a seal counts only where its document ends', async (t) => {
  const wrapped = pdfFile({ ...onePage(), 5: stream('/Type /EmbeddedFile', good) });
  t.not((await verdictOn(wrapped)).outcome, 'good');
  t.not((await verdictOn(Buffer.concat([Buffer.from('%PDF-1.7\n'), good]))).outcome, 'good');
  t.not((await verdictOn(Buffer.concat([good, good]))).outcome, 'good');
  await t.rejects(sealed(wrapped, receipt), { message: /another catalog/ });
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
});

t.test('a receipt behind a document that cannot be sealed proves nothing', async (t) => {
  const suffix = (one: Buffer, whole: Buffer) => whole.subarray(one.length);
  for (const [name, [one]] of Object.entries(NOT_SEALABLE)) {
    const own = await receiptOf(one);
    const forged = Buffer.concat([one, suffix(document, await sealed(document, own))]);
    t.match(await open(forged), { finding: { outcome: 'unknown', detail: /cannot be planned again/ } }, name);
  }
});

t.test('a sealed PDF with any change is never good', async (t) => {
  const edit = fc.record({
    file: fc.constantFrom(
      ...(await Promise.all(Object.values(SEALABLE).map(async (one) => sealed(one, await receiptOf(one))))),
    ),
    at: fc.double({ min: 0, max: 1, noNaN: true }),
    drop: fc.nat({ max: 4 }),
    put: fc.oneof(fc.constantFrom('', '0', ' ', '>>', '/', '\n'), fc.string({ maxLength: 4 })),
  });
  await t.resolves(
    fc.assert(
      fc.asyncProperty(edit, async ({ file, at, drop, put }) => {
        const place = Math.floor(at * file.length);
        const edited = Buffer.concat([
          file.subarray(0, place),
          Buffer.from(put, 'latin1'),
          file.subarray(place + drop),
        ]);
        if (edited.equals(file)) return;
        assert.notEqual((await verdictOn(edited)).outcome, 'good');
      }),
      { numRuns: mutations(5_000) },
    ),
  );
});
