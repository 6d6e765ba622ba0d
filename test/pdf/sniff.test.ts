import assert from 'node:assert/strict';
import t from 'tap';
import { PdfSniffer } from '../../src/pdf/sniff.ts';
import { fc, tries } from '../support/seed.ts';

const fill = (length: number) => 'x'.repeat(length);

/** The code it was refused with, or `pdf`. */
function sniff(chunks: Uint8Array[]): string {
  const sniffer = new PdfSniffer('file');
  try {
    for (const chunk of chunks) sniffer.update(chunk);
    sniffer.end();
    return 'pdf';
  } catch (error) {
    return (error as { code: string }).code;
  }
}

for (const [name, text, verdict] of [
  ['the smallest', '%PDF-%%EOF', 'pdf'],
  ['an empty file', '', 'not_a_pdf'],
  ['a header only', '%PDF-1.7', 'not_a_pdf'],
  ['a trailer only', '%%EOF', 'not_a_pdf'],
  ['text', 'Hello', 'not_a_pdf'],
  ['a header in lower case', '%pdf-1.7 %%EOF', 'not_a_pdf'],
  ['a header that ends with byte 1024', `${fill(1019)}%PDF-${fill(9000)}%%EOF`, 'pdf'],
  ['a header that ends with byte 1025', `${fill(1020)}%PDF-${fill(9000)}%%EOF`, 'not_a_pdf'],
  ['a trailer that starts 1024 bytes from the end', `%PDF-${fill(9000)}%%EOF${fill(1019)}`, 'pdf'],
  ['a trailer that starts 1025 bytes from the end', `%PDF-${fill(9000)}%%EOF${fill(1020)}`, 'not_a_pdf'],
  ['a trailer followed by a line end', `%PDF-${fill(9000)}%%EOF\r\n`, 'pdf'],
] as const) {
  t.test(`${name}: ${verdict}, however it is cut`, async (t) => {
    const data = Buffer.from(text);
    t.equal(sniff([data]), verdict);
    t.equal(sniff([...data].map((byte) => Buffer.of(byte))), verdict, 'byte by byte');
    const property = fc.property(fc.array(fc.nat(data.length), { maxLength: 6 }), (cuts) => {
      const bounds = [0, ...cuts.sort((a, b) => a - b), data.length];
      assert.equal(sniff(bounds.slice(1).map((end, i) => data.subarray(bounds[i], end))), verdict);
    });
    t.doesNotThrow(() => fc.assert(property, { numRuns: tries(50) }));
  });
}

t.test('refuses as soon as the first 1024 bytes are known', async (t) => {
  const sniffer = new PdfSniffer('file');
  sniffer.update(Buffer.alloc(1023));
  t.throws(() => sniffer.update(Buffer.alloc(1)), { code: 'not_a_pdf', parameter: 'file' });
});
