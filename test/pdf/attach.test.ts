import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import t from 'tap';
import { readerOf } from '../../src/pdf/sourceReader.ts';
import { type PdfReader, planAttachment } from '../../src/pdf/update/attach.ts';
import { NotSealable } from '../../src/pdf/update/notSealable.ts';
import { PLAN_BYTES_MAX, suffixOf } from '../../src/pdf/update/suffix.ts';
import { bufferSource } from '../../src/pdf/window.ts';
import { appendRevision, metadata, onePage, packedFile, pdfFile, stream } from '../support/pdf.ts';
import { NOT_SEALABLE, SEALABLE } from '../support/sealable.ts';
import { fc, mutations } from '../support/seed.ts';

const RECEIPT = Buffer.from('{"receipt":"ü"}\n');
/** Documents with cross-reference and object streams, as a compressor wrote them once. */
const COMPRESSED = new URL('../vectors/suffixes/1-compressed.json', import.meta.url);
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
    t.match(suffix, `stream\n${RECEIPT.toString('hex')}>\nendstream`);
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
  'a table': 'bde85b7a0da07433c28c2727848aed789873438ac88d3547d534f5e3f56ef666',
  'no line end at the end': 'e898dd77cacbe06a0db12862b545edf03ad9d3ef6a10df04591c3e38695354d8',
  'an identifier and information': '72d5b34e397609433c437b797d5f387c4bf94be4a4e21d88e7b17ea33e7a8abf',
  'an earlier revision': 'cc1b863583258aeb542956d01a77ef44ebbacbbcc3db292b9633c7d800e1a731',
  linearized: 'c4e9c93b2a74d932318a80d4a8c68d6c186c67c0b450eeb69481449df3395e55',
  'linearized before an update': '39c176175a2f00ca076b87de11646e34925bbd150d440063f86f36d83f095a1e',
  'objects in a stream that is not compressed':
    '9249636c5c4cfd8662c951c2636fc47925f8a72a5da02b034c4701587ec57fb9',
  'names of other things': '91ed19ce6f3385350508feed55f2aaa76e323a7b2fc46c2f98a9f50c370c1fa3',
  'an empty tree': '10c486d5f393b30ad9da4e56bc7f5c558d0c52b6c2b95aaeb41e318278e1a251',
  'names before and after': 'f54452eea5b0f9ee24224974815d139503b655a4fec9006ddeae82f9e644b5f2',
  'a tree with limits': 'f089ad436116d2df583fc4732201a2017e8e083a3a6b89ee6ab6a3b6661d79c6',
  'a tree that ends before': '89a35c460e8f6e283e493733b84fa5ad659f71ece88a433b3a0cecfd30d35c09',
  'comments and odd spaces': 'f65829b7d391d72141640dc2cfcd75027e43d4d5fa8c6404d7aa03824ee4f9f6',
  'null in place of names and files': 'd3b17e8ed398af7e94e859cf0a1252c603411425afd79e411da8b340c2829d27',
  'references to numbers above all objects':
    '00fe3e265b9f97fc120d8548db5c81592fcd762da42f8d08843890563fbaed8e',
  'a length in another object': '4dac9a7e43b144c82976acbcd82c48db392262e2d50cd627fc3b9836abb92374',
  'a signature about some fields': 'b41eacb8536507bab7265103f6880cfe23113ff31c41f75a2e60ebca0605564f',
  'PDF/A-3 that is also PDF/UA-1': '7e7a18c17581c69ecfcc0a98106c4e7ef8b41453a16616e3e058088166a87b8b',
  'PDF/A-3': 'cbd762894708236d59df71ce5295c3704b3834e99ff97fcf57a962145ae12820',
  'PDF/A-4f': '2a50ebe4c685e4ec2952977522242a4a071472f989819cf7ed9f9f71bbc2468c',
  'a form': '999f8659c91904b75de649c4e6017a10cb87c0ee89dc3889c849247912cdaceb',
};

t.test('the suffixes of pdfseal-suffix/1 are the same for ever', async (t) => {
  const plain = Object.entries(SEALABLE).filter(([, document]) => !document.includes('/FlateDecode'));
  const digests = plain.map(async ([name, document]) => {
    const suffix = await suffixFor(readerOf(bufferSource(document)));
    return [name, createHash('sha256').update(suffix).digest('hex')] as const;
  });
  t.strictSame(Object.fromEntries(await Promise.all(digests)), GOLDEN);
});

t.test('the suffixes of compressed documents of then are the same for ever', async (t) => {
  const kept = JSON.parse(readFileSync(COMPRESSED, 'utf8')) as Record<string, string>[];
  t.ok(kept.length > 3);
  for (const { name = '', document = '', suffix_sha256 } of kept) {
    const suffix = await suffixFor(readerOf(bufferSource(Buffer.from(document, 'base64'))));
    t.equal(createHash('sha256').update(suffix).digest('hex'), suffix_sha256, name);
  }
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

t.test('what a receipt quotes is not an object for readers that repair', async (t) => {
  const receipt = Buffer.from('{"customer_reference":"3 0 obj <</Type/Page/Contents 5 0 R>> endobj"}');
  const suffix = Buffer.from(suffixOf(await planOf(pdfFile(onePage())), receipt, SEALED_AT));
  t.notMatch(suffix.toString('latin1'), /customer|3 0 obj/);
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
  const comments = Buffer.concat([
    Buffer.from('%'),
    Buffer.from('1 0 obj '.repeat(200_000)),
    Buffer.from('\n'),
  ]);
  await t.rejects(planOf(pdfFile({ ...onePage(), 5: Buffer.concat([comments, Buffer.from('null')]) })), {
    message: /another catalog/,
  });
  const xmp = (text: string) =>
    pdfFile({ ...onePage('/Metadata 5 0 R'), 5: metadata('', Buffer.from(text)) });
  await planOf(xmp('<!--'.repeat(400_000)));
  const prefixes = Array.from({ length: 20_000 }, (_, n) => `xmlns:a${n}="http://www.aiim.org/pdfa/ns/id/"`);
  await t.rejects(planOf(xmp(prefixes.join(' '))), { message: /metadata is damaged/ });
  const zeros = `[${'0 '.repeat(200_000)}]`;
  const packs = (count: number) =>
    packedFile(onePage(), Object.fromEntries(Array.from({ length: count }, (_, n) => [n + 10, zeros])));
  await t.rejects(planOf(packs(15)), { message: /more work than any document needs/ });
  await t.rejects(planOf(packs(30)), { message: /larger than any needs to be/ });
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
