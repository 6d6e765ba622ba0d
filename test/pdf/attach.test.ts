import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import t from 'tap';
import { readerOf } from '../../src/pdf/sourceReader.ts';
import { type PdfReader, planAttachment } from '../../src/pdf/update/attach.ts';
import { NotSealable } from '../../src/pdf/update/notSealable.ts';
import { PLAN_BYTES_MAX, suffixOf } from '../../src/pdf/update/suffix.ts';
import { bufferSource } from '../../src/pdf/window.ts';
import { appendRevision, onePage, pdfFile, stream } from '../support/pdf.ts';
import { NOT_SEALABLE, SEALABLE } from '../support/sealable.ts';
import { fc, mutations } from '../support/seed.ts';

const RECEIPT = Buffer.from('{"receipt":"ü"}\n');
const SEALED_AT = Date.UTC(2026, 10, 28, 10, 15, 0, 999);

const planOf = (document: Buffer) => planAttachment(readerOf(bufferSource(document)));

async function suffixFor(reader: PdfReader): Promise<Buffer> {
  return Buffer.from(suffixOf(await planAttachment(reader), RECEIPT, SEALED_AT));
}

async function sealed(document: Buffer): Promise<Buffer> {
  return Buffer.concat([document, await suffixFor(readerOf(bufferSource(document)))]);
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
    const again = (await sealed(once)).subarray(once.length).toString('latin1');
    t.match(again, '(pdfseal-receipt-2.json)', 'again');
  });
}

for (const [name, [document, why]] of Object.entries(NOT_SEALABLE)) {
  t.test(`refused by name: ${name}`, async (t) => {
    await t.rejects(planOf(document), { name: 'NotSealable', message: why });
  });
}

t.test('the object that is the reason is named', async (t) => {
  const refused = await planOf(NOT_SEALABLE['a wrong offset of a page'][0]).catch((error) => error);
  t.match(refused, { code: 'pdf_not_sealable', objectNumber: 3 });
});

/**
 * Digests of suffixes of `pdfseal-suffix/1`: a change here means that sealed PDFs do not verify any more. Only of documents that no
 * compressor had a part in, because its output can change.
 */
const GOLDEN: Record<string, string> = {
  'a table': '6abaac14a976304b4a7caec048b132362afc3dad49d7e6d7643c3ed397d54075',
  'no line end at the end': 'febb887cb8b3529dc9acfb0bd521b08a1bd9ff68691630e727cf9126c3258262',
  'an identifier and information': '98996cb68880f09f20d524df1509756f7998d595ca33533dd0c8fd83fcaa054c',
  'an earlier revision': '10f55ca84452e177f28f27c6ecc50d2390ffeeaa12100523af13b4c3d2b2838f',
  linearized: 'f614bc24a9d14e26fca67266aa492d2c890de653522577ae30773306d5bbedc0',
  'linearized before an update': '41d0d36e44e043526575cf8785ff3c3b1f85163f5760f70c5c3dcba935ac6b47',
  'objects in a stream that is not compressed':
    'fd8e0d509a1d7aa5341fd14d55862807c4f319ed2db42c8698604471ccbadfa3',
  'names of other things': '1b97f870324803355169a03a3d112605582d0200a1ca3a48bb9c751ed9ec3e9f',
  'an empty tree': '16a9cdfa94cab66bf2e67a6cdf78c89c7e34391bfef5ff19bb40d7a4fc358720',
  'names before and after': '62826b59c438436972fa742fd9bc063a01a322f17eaefcee20a62a35ccb7eb70',
  'a tree with limits': 'ce077b991cf2048fc3f9551fab6a237b1236cab709716a89c3c017741262ed79',
  'a tree that ends before': 'a71e7d5d053113ad52ed98235020e4b39d53ef6d1dda8e158165174d627c59e9',
  'comments and odd spaces': '34c2b884d1b1d3a1aa962e1f3a06403f8d68706490b60459d8c9d7706d8ca6a5',
  'null in place of names and files': '32fa9e664f8bde89059b9cad8340eeb0e4e73c1e1ddf1df18d36b37ee7e8b8ce',
  'references to numbers above all objects':
    'dfce7b166e29e3968e857780fe9e0616d66c3b805a15439647907b6beabb3bc1',
  'a length in another object': 'ee1119862c293d93cea0a6efe8cf272c12addbfe8c8baac6cc9d88687c015cd3',
  'a signature about some fields': 'cc791417c6aafcbdd7b0519e852ccf0effcb338daebc82495d8aa91be0ecbf92',
  'PDF/A-3 that is also PDF/UA-1': 'd617b8285c31493acd694b90d0f539f8de775484917b8540ecdf08c776c20591',
  'PDF/A-3': 'b3d359b9ec29494b25755f624ab7b0268687172542703a3d09e645103c2d213e',
  'PDF/A-4f': '8d43389e897cf84860c7d18770d2ec3ea0d62107a0c37daf8c5538bca6cfaa4d',
  'a form': '98fe8f88a78ed2ea9a8c3d7141912a383c7f533132edba5c20fee1546a99b117',
};

t.test('the suffixes of pdfseal-suffix/1 are the same for ever', async (t) => {
  const plain = Object.entries(SEALABLE).filter(([, document]) => !document.includes('/FlateDecode'));
  const digests = plain.map(async ([name, document]) => {
    const suffix = await suffixFor(readerOf(bufferSource(document)));
    return [name, createHash('sha256').update(suffix).digest('hex')] as const;
  });
  t.strictSame(Object.fromEntries(await Promise.all(digests)), GOLDEN);
});

t.test('only the catalog gets a new definition', async (t) => {
  for (const [name, document] of Object.entries(SEALABLE)) {
    const suffix = (await sealed(document)).subarray(document.length).toString('latin1');
    const numbers = Array.from(suffix.matchAll(/^(\d+) \d+ obj$/gm), ([, number]) => Number(number));
    const known = Array.from(document.toString('latin1').matchAll(/(\d+) 0 (?:obj|R)/g), ([, number]) =>
      Number(number),
    );
    t.strictSame(
      numbers.filter((number) => known.includes(number)),
      [1],
      name,
    );
  }
});

t.test('new objects have numbers that nothing in the document refers to', async (t) => {
  const future = { ...onePage(), 3: String(onePage()[3]).replace('4 0 R', '[4 0 R 21 0 R 500 0 R]') };
  t.equal((await planOf(pdfFile(future))).first, 501);
});

t.test('a plan is plain JSON of a bounded size, from which the suffix follows', async (t) => {
  for (const [name, document] of Object.entries(SEALABLE)) {
    const plan = await planOf(document);
    const text = JSON.stringify(plan);
    t.ok(Buffer.byteLength(text) <= PLAN_BYTES_MAX);
    t.strictSame(suffixOf(JSON.parse(text), RECEIPT, SEALED_AT), suffixOf(plan, RECEIPT, SEALED_AT), name);
  }
});

t.test('a browser plans the same', async (t) => {
  for (const [name, document] of Object.entries(SEALABLE)) {
    const { size, read } = readerOf(bufferSource(document));
    const slow = {
      size,
      read: async (offset: number, length: number) => new Uint8Array(await read(offset, length)),
    };
    t.strictSame(await planAttachment(slow), await planOf(document), name);
  }
});

t.test('little of a large document is read', async (t) => {
  const bytes = 8 * 2 ** 30;
  const small = pdfFile({ ...onePage(), 4: stream('', Buffer.alloc(0), '9999999999') }).toString('latin1');
  const cut = small.indexOf('stream\n') + 'stream\n'.length;
  const [head, tail] = [small.slice(0, cut), small.slice(cut)];
  const gap = bytes - small.length;
  const moved = tail.replace(/startxref\n(\d+)/, (_, at) => `startxref\n${Number(at) + gap}`);
  const ends = gap + (small.length - head.length) - moved.length;
  const start = Buffer.from(head.replace('9999999999', String(ends).padStart(10, '0')), 'latin1');
  const end = Buffer.from(
    moved.replace(/startxref\n\d+/, `startxref\n${start.length + ends + moved.indexOf('xref\n0 1')}`),
    'latin1',
  );
  let read = 0;
  const reader: PdfReader = {
    size: start.length + ends + end.length,
    read(offset, length) {
      const data = Buffer.alloc(Math.min(length, this.size - offset));
      read += data.length;
      if (offset < start.length) start.copy(data, 0, offset);
      const from = this.size - end.length;
      if (offset + data.length > from) end.copy(data, Math.max(0, from - offset), Math.max(0, offset - from));
      return data;
    },
  };
  t.match((await suffixFor(reader)).toString('latin1'), /\/Prev 858993\d{4} /);
  t.ok(read < 64 * 1024, `${read} bytes`);
});

t.test('what a small document can ask for is bounded', async (t) => {
  const lengths = Array.from(
    { length: 500 },
    (_, n) => [n + 10, stream('', Buffer.from('0 g'), '5 0 R')] as const,
  );
  const wide = `${'% '.repeat(100_000)}\n3`;
  await planOf(pdfFile({ ...onePage(), 5: wide, ...Object.fromEntries(lengths) }));
  const names = pdfFile(onePage(`/Names << /EmbeddedFiles << /Names [${'(a) 9 0 R '.repeat(60_000)}] >> >>`));
  await t.rejects(planOf(names), { name: 'NotSealable' });
  const sections = Array.from({ length: 1001 }).reduce<Buffer>(
    (file) => appendRevision(file, { 4: 'null' }),
    pdfFile(onePage()),
  );
  await t.rejects(planOf(sections), { message: /more cross-references/ });
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
        const edited = Buffer.concat([
          document.subarray(0, place),
          Buffer.from(put, 'latin1'),
          document.subarray(place + drop),
        ]);
        try {
          assert.ok((await suffixFor(readerOf(bufferSource(edited)))).length > 0);
        } catch (error) {
          if (!(error instanceof NotSealable)) throw error;
        }
      }),
      { numRuns: mutations(2000) },
    ),
  );
});
