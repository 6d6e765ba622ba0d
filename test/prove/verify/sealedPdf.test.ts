import assert from 'node:assert/strict';
import t from 'tap';
import { readerOf } from '../../../src/pdf/sourceReader.ts';
import { bufferSource } from '../../../src/pdf/window.ts';
import { openSealedPdf } from '../../../src/prove/verify/sealedPdf.ts';
import { verifySealedPdf } from '../../../src/prove/verify/verify.ts';
import { appendRevision, onePage, pdfFile, stream } from '../../support/pdf.ts';
import { digestsOf } from '../../support/receipts.ts';
import { NOT_SEALABLE, SEALABLE } from '../../support/sealable.ts';
import {
  makeSealedPdfs,
  receiptOf,
  SEALED_AT,
  sealed,
  SEALED_TRUST as trust,
} from '../../support/sealedPdfs.ts';
import { fc, mutations } from '../../support/seed.ts';

const readerOver = (file: Buffer) => readerOf(bufferSource(file));
const open = (file: Buffer) => openSealedPdf(readerOver(file));
const verdictOn = async (file: Buffer) => (await verifySealedPdf(readerOver(file), trust)).verdict;

const document = SEALABLE['a tree with limits'] ?? Buffer.alloc(0);
const receipt = await receiptOf(document);
const good = await sealed(document, receipt);

t.test('each document that can be sealed verifies, with a line for the seal', async (t) => {
  for (const [name, one] of Object.entries(SEALABLE)) {
    const verdict = await verdictOn(await sealed(one, await receiptOf(one)));
    t.match(verdict, { outcome: 'good', checks: [{ name: 'seal', outcome: 'passed' }] }, name);
  }
});

t.test('a document that can see its attachments is good, and the line of the seal says so', async (t) => {
  const note = /nothing else\. The document has scripts or links into attached documents, which can show/;
  const script = '<< /S /JavaScript /JS (app.alert\\(1\\)) >>';
  const documents = {
    'an action': pdfFile(onePage(`/OpenAction ${script}`)),
    'scripts by name': pdfFile({
      ...onePage('/Names << /JavaScript 5 0 R >>'),
      5: `<< /Names [(a) ${script}] >>`,
    }),
    'a link': pdfFile({ ...onePage(), 5: '<< /S /GoToE /D [0 /Fit] /T << /R /C /N (a.pdf) >> >>' }),
    'a form': pdfFile({
      ...onePage('/AcroForm << /Fields [5 0 R] >>'),
      5: `<< /T (a) /AA << /K ${script} >> >>`,
    }),
  };
  for (const [name, one] of Object.entries(documents)) {
    const verdict = await verdictOn(await sealed(one, await receiptOf(one)));
    t.match(verdict, { outcome: 'good', checks: [{ name: 'seal', outcome: 'passed', detail: note }] }, name);
  }
  const former = appendRevision(documents['a link'], { 5: '<< /S /GoTo >>' });
  for (const one of [document, former]) {
    const { finding } = await open(await sealed(one, await receiptOf(one)));
    t.match(finding.detail, /nothing else$/);
  }
});

t.test('a copy without metadata can be sealed', async (t) => {
  const copy = await receiptOf(document, { received: Buffer.from('with metadata') });
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

t.test('the verdict comes with the receipt, and the digests of the document', async (t) => {
  for (const { name, pdf, outcome, original } of await makeSealedPdfs()) {
    const { verdict, receipt, document } = await verifySealedPdf(readerOver(pdf), trust);
    t.equal(verdict.outcome, outcome, name);
    t.equal(verdict.checks[0]?.name, 'seal', name);
    t.equal(receipt === undefined, document === undefined, name);
    if (original !== undefined) t.strictSame(document, digestsOf(original), name);
  }
});

t.test('a large document is hashed in pieces', async (t) => {
  const large = pdfFile({ ...onePage(), 5: stream('', Buffer.alloc(3 << 20, '0 g ')) });
  const file = await sealed(large, await receiptOf(large));
  const reader = readerOver(file);
  let longest = 0;
  const read = (offset: number, length: number) => {
    longest = Math.max(longest, length);
    return reader.read(offset, length);
  };
  const { verdict, document } = await verifySealedPdf({ ...reader, read }, trust);
  t.equal(verdict.outcome, 'good');
  t.strictSame(document, digestsOf(large));
  t.ok(longest <= 2 << 20);
});

t.test('what a verdict requires counts for a sealed PDF too', async (t) => {
  const { verdict } = await verifySealedPdf(readerOver(good), trust, { require: ['time'] });
  t.match(verdict, { outcome: 'unknown' });
});
