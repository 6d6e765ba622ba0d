import assert from 'node:assert/strict';
import t from 'tap';
import { planAttachment } from '../../src/pdf/update/attach.ts';
import { NotSealable } from '../../src/pdf/update/notSealable.ts';
import { type ByteSource, bufferSource } from '../../src/pdf/window.ts';
import { onePage, pdfFile } from '../support/pdf.ts';
import { NOT_SEALABLE, SEALABLE } from '../support/sealable.ts';
import { fc, tries } from '../support/seed.ts';

const RECEIPT = Buffer.from('{"receipt":"ü"}\n');
const attachment = { receipt: RECEIPT, sealedAt: Date.UTC(2026, 10, 28, 10, 15, 0, 999) };

async function sealed(document: Buffer, source: ByteSource = bufferSource(document)): Promise<Buffer> {
  return Buffer.concat([document, await planAttachment(source, attachment)]);
}

for (const [name, document] of Object.entries(SEALABLE)) {
  t.test(`a receipt is attached: ${name}`, async (t) => {
    const once = await sealed(document);
    const suffix = once.subarray(document.length).toString('latin1');
    t.match(suffix, '/F (pdfseal-receipt.json) /UF (pdfseal-receipt.json) /AFRelationship /Supplement');
    t.match(
      suffix,
      `/Subtype /application#2Fjson /Params << /Size ${RECEIPT.length} /ModDate (D:20261128101500Z) >>`,
    );
    t.match(suffix, `stream\n${RECEIPT.toString('latin1')}\nendstream`);
    t.match(
      (await sealed(once)).subarray(once.length).toString('latin1'),
      '(pdfseal-receipt-2.json)',
      'again',
    );
  });
}

for (const [name, [document, why]] of Object.entries(NOT_SEALABLE)) {
  t.test(`refused by name: ${name}`, async (t) => {
    await t.rejects(planAttachment(bufferSource(document), attachment), {
      name: 'NotSealable',
      message: why,
    });
  });
}

t.test('little of a large document is read', async (t) => {
  const bytes = 8 * 2 ** 30;
  const text = pdfFile(onePage()).toString('latin1');
  const movedBy = (shift: number) =>
    text
      .replaceAll(/(\d{10}) 00000 n/g, (_, at) => `${String(Number(at) + shift).padStart(10, '0')} 00000 n`)
      .replace(/startxref\n(\d+)/, (_, at) => `startxref\n${Number(at) + shift}`);
  const start = bytes - movedBy(bytes).length;
  const end = Buffer.from(movedBy(start), 'latin1');
  let read = 0;
  const source: ByteSource = {
    bytes,
    read(position, length) {
      const data = Buffer.alloc(Math.min(length, bytes - position));
      read += data.length;
      if (position === 0) data.write('%PDF-1.7\n', 'latin1');
      if (position + data.length > start)
        end.copy(data, Math.max(0, start - position), Math.max(0, position - start));
      return data;
    },
  };
  t.match((await planAttachment(source, attachment)).toString('latin1'), /\/Prev 85899\d{5} /);
  t.ok(read < 64 * 1024, `${read} bytes`);
});

t.test('whatever is changed in a document, it is sealed or refused by name', async (t) => {
  const documents = Object.values(SEALABLE);
  const edit = fc.record({
    document: fc.constantFrom(...documents),
    at: fc.double({ min: 0, max: 1, noNaN: true }),
    drop: fc.nat({ max: 3 }),
    put: fc.oneof(
      fc.constantFrom('0', '9', '<<', '>>', '[', ']', '(', ')', '/', '%', ' R', 'obj', '\n', '<', 'xref'),
      fc.string({ maxLength: 3 }),
    ),
  });
  await t.resolves(
    fc.assert(
      fc.asyncProperty(edit, async ({ document, at, drop, put }) => {
        const place = Math.floor(at * document.length);
        const changed = Buffer.concat([
          document.subarray(0, place),
          Buffer.from(put, 'latin1'),
          document.subarray(place + drop),
        ]);
        try {
          const suffix = await planAttachment(bufferSource(changed), attachment);
          assert.ok(suffix.length > 0);
        } catch (error) {
          if (!(error instanceof NotSealable)) throw error;
        }
      }),
      { numRuns: tries(2000) },
    ),
  );
});
