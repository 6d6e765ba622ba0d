import assert from 'node:assert/strict';
import { deflateSync, inflateSync } from 'node:zlib';
import t from 'tap';
import { Budget } from '../../src/pdf/budget.ts';
import { NotStrippable } from '../../src/pdf/notStrippable.ts';
import { bufferSource } from '../../src/pdf/window.ts';
import { applyEdits, findXmp } from '../../src/pdf/xmp.ts';
import {
  appendRevision,
  EXIF_SEGMENT,
  image,
  jpeg,
  metadata,
  type Objects,
  objectStream,
  onePage,
  PACKET,
  pdfFile,
  stream,
  XMP_SEGMENT,
} from '../support/pdf.ts';
import { fc, tries } from '../support/seed.ts';
import { ascii85, asciiHex, lzw, pngPredicted, runLength } from './encoders.ts';

/** The document without XMP, or why there is none. */
async function strip(document: Buffer): Promise<{ copy: Buffer; edits: number } | string> {
  try {
    const edits = await findXmp(bufferSource(document));
    const copy = Buffer.from(document);
    applyEdits(copy, 0, edits);
    const changed = copy.filter((byte, i) => byte !== document[i]).length;
    const editable = edits.reduce((bytes, { start, end }) => bytes + end - start, 0);
    assert.ok(changed <= editable);
    assert.deepEqual(await findXmp(bufferSource(copy)), [], 'nothing is left to strip');
    return { copy, edits: edits.length };
  } catch (error) {
    if (!(error instanceof NotStrippable)) throw error;
    return error.message;
  }
}

/** Every way to encode a packet that can be undone. */
const ENCODINGS: [name: string, filters: string, data: Buffer][] = [
  ['as it is', '', PACKET],
  ['Flate', '/Filter /FlateDecode', deflateSync(PACKET)],
  ['Flate, abbreviated, in an array', '/Filter [/Fl]', deflateSync(PACKET)],
  ['Flate, its name escaped', '/Filter /Fl#61teDecode', deflateSync(PACKET)],
  [
    'Flate with PNG predictors',
    '/Filter /FlateDecode /DecodeParms << /Predictor 15 /Columns 16 >>',
    deflateSync(pngPredicted(PACKET)),
  ],
  ['Flate without its end', '/Filter /FlateDecode', deflateSync(PACKET).subarray(0, -8)],
  ['hexadecimal', '/Filter /ASCIIHexDecode', asciiHex(PACKET)],
  ['base 85', '/Filter /ASCII85Decode', ascii85(PACKET)],
  ['run lengths', '/Filter /RunLengthDecode', runLength(PACKET)],
  ['LZW', '/Filter /LZWDecode', lzw(PACKET)],
  [
    'base 85 over Flate',
    '/Filter [/ASCII85Decode /FlateDecode] /DecodeParms [null null]',
    ascii85(deflateSync(PACKET)),
  ],
  ['hexadecimal over LZW over Flate', '/Filter [/AHx /LZW /Fl]', asciiHex(lzw(deflateSync(PACKET)))],
];

for (const [name, filters, data] of ENCODINGS) {
  t.test(`metadata ${name} is stripped`, async (t) => {
    const document = pdfFile({ ...onePage('/Metadata 5 0 R'), 5: metadata(filters, data) });
    const stripped = await strip(document);
    t.type(stripped, 'object');
    if (typeof stripped === 'string') return;
    t.equal(stripped.edits, 1);
    t.match(stripped.copy.toString('latin1'), /\n5 0 obj <<>> *endobj\nxref/, 'the object is empty');
  });

  t.test(`a packet ${name} is stripped, even in a stream that does not declare it`, async (t) => {
    const packet = metadata(filters, data, '');
    const named = await strip(pdfFile({ ...onePage('/Metadata 5 0 R'), 5: packet }));
    t.match(named, { edits: 1 }, 'it is metadata where it is named so');
    const orphan = await strip(pdfFile({ ...onePage(), 5: packet }));
    t.match(orphan, { edits: 1 }, 'and where nobody names it');
    const attachment =
      '/Names << /EmbeddedFiles << /Names [(a) << /Type /Filespec /F (a.xmp) /EF << /F 5 0 R >> >>] >> >>';
    t.match(
      await strip(pdfFile({ ...onePage(attachment), 5: packet })),
      /object 5 holds XMP, but is not only metadata/,
    );
  });
}

t.test('metadata is found wherever it is, and however it is written', async (t) => {
  const plain = metadata();
  const old = pdfFile({ ...onePage('/Metadata 5 0 R'), 5: plain });
  const documents: [string, Buffer, number][] = [
    ['no metadata', pdfFile(onePage()), 0],
    [
      'of the page and the catalog',
      pdfFile({ ...onePage('/Metadata 5 0 R', '/Metadata 6 0 R'), 5: plain, 6: plain }),
      2,
    ],
    ['nobody names it', pdfFile({ ...onePage(), 5: plain }), 1],
    ['an update replaces it', appendRevision(old, { 5: plain }), 2],
    ['an update drops it', appendRevision(old, onePage()), 1],
    [
      'named in an object stream',
      pdfFile({ ...onePage(), 5: plain, 6: objectStream({ 7: '<< /Metadata 5 0 R >>' }) }),
      1,
    ],
    [
      'its length in another object',
      pdfFile({
        ...onePage('/Metadata 5 0 R'),
        5: stream('/Type /Metadata', PACKET, '6 0 R'),
        6: `${PACKET.length}`,
      }),
      1,
    ],
    [
      'its length in no object',
      pdfFile({ ...onePage('/Metadata 5 0 R'), 5: stream('/Type /Metadata', PACKET, '6 0 R') }),
      1,
    ],
    [
      'its length is wrong',
      pdfFile({ ...onePage('/Metadata 5 0 R'), 5: stream('/Type /Metadata', PACKET, 7) }),
      1,
    ],
    [
      'its length is missing',
      pdfFile({ ...onePage('/Metadata 5 0 R'), 5: stream('/Type /Metadata', PACKET, '') }),
      1,
    ],
    [
      'names with escapes, comments between words',
      pdfFile({
        ...onePage('/Met#61data % a comment\n 5 0 R'),
        5: metadata('', PACKET, '/Type%\n/Met#61data'),
      }),
      1,
    ],
    ['carriage returns', Buffer.from(old.toString('latin1').replaceAll('\n', '\r'), 'latin1'), 1],
    [
      'XMP in UTF-16',
      pdfFile({
        ...onePage('/Metadata 5 0 R'),
        5: metadata('', Buffer.from(PACKET.toString(), 'utf16le'), ''),
      }),
      1,
    ],
    ['empty', pdfFile({ ...onePage('/Metadata 5 0 R'), 5: metadata('', Buffer.alloc(0)) }), 1],
    [
      'a film trailer and an obj in it',
      pdfFile({
        ...onePage('/Metadata 5 0 R'),
        5: metadata('', Buffer.from('<x:xmpmeta xmlns:x="adobe:ns:meta/"> trailer obj </x:xmpmeta>')),
      }),
      1,
    ],
  ];
  for (const [name, document, edits] of documents) t.match(await strip(document), { edits }, name);
});

t.test('the XMP of images is stripped', async (t) => {
  const shown = (filter: string, data: Buffer) =>
    pdfFile({ ...onePage('', '/XObject << /Im0 5 0 R >>'), 5: image(filter, data) });
  const photo = jpeg(EXIF_SEGMENT, XMP_SEGMENT, { marker: 0xfe, data: Buffer.from('a comment') });
  const document = shown('/DCTDecode', photo);
  const stripped = await strip(document);
  t.match(stripped, { edits: 1 });
  if (typeof stripped === 'string') return;
  t.equal(stripped.copy.indexOf('xpacket'), -1);
  t.ok(stripped.copy.includes(EXIF_SEGMENT.data), 'Exif is no XMP');
  const at = document.indexOf(XMP_SEGMENT.data);
  t.same(stripped.copy.subarray(0, at), document.subarray(0, at));
  const behind = at + XMP_SEGMENT.data.length;
  t.same(stripped.copy.subarray(behind), document.subarray(behind));

  const extension = {
    marker: 0xe1,
    data: Buffer.from(`http://ns.adobe.com/xmp/extension/\0${'x'.repeat(40)}`),
  };
  t.match(
    await strip(shown('[/DCT]', jpeg(XMP_SEGMENT, extension, extension))),
    { edits: 3 },
    'extended XMP',
  );
  t.match(
    await strip(shown('/DCTDecode', Buffer.concat([jpeg(), photo]))),
    { edits: 1 },
    'a second image behind the first',
  );
  t.match(
    await strip(shown('/DCTDecode', Buffer.concat([jpeg(), PACKET]))),
    /object 5 holds XMP/,
    'behind its end',
  );
  t.match(
    await strip(shown('[/FlateDecode /DCTDecode]', deflateSync(photo))),
    /object 5 holds XMP/,
    'inside Flate',
  );

  const box = (type: string, data: Buffer) => {
    const head = Buffer.alloc(8);
    head.writeUInt32BE(8 + data.length);
    head.write(type, 4);
    return Buffer.concat([head, data]);
  };
  const uuid = Buffer.from('be7acfcb97a942e89c71999491e3afac', 'hex');
  const jp2 = [
    box('jP  ', Buffer.from('\r\n\x87\n', 'latin1')),
    box('uuid', Buffer.concat([uuid, PACKET])),
    box('jp2c', Buffer.alloc(9)),
  ];
  t.match(await strip(shown('/JPXDecode', Buffer.concat(jp2))), { edits: 1 }, 'JPEG 2000');
});

t.test('a document that cannot be stripped safely is refused with the reason', async (t) => {
  const withMetadata = onePage('/Metadata 5 0 R');
  const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`;
  const bomb = deflateSync(deflateSync(Buffer.alloc(1 << 27)));
  const refused: [string, Buffer, RegExp][] = [
    ['encrypted', pdfFile({ ...withMetadata, 5: metadata() }, '/Encrypt 9 0 R'), /^it is encrypted$/],
    [
      'encrypted, by its cross-reference stream',
      pdfFile({ ...onePage(), 5: stream('/Type /XRef /Encrypt 9 0 R', Buffer.alloc(5)) }),
      /^it is encrypted$/,
    ],
    [
      'encrypted in an earlier revision',
      appendRevision(pdfFile(onePage(), '/Encrypt 9 0 R'), onePage()),
      /^it is encrypted$/,
    ],
    ['signed', pdfFile({ ...onePage(), 5: '<< /Type /Sig /ByteRange [0 1 2 3] >>' }), /^it is signed/],
    [
      'signed, in an object stream',
      pdfFile({ ...onePage(), 5: objectStream({ 6: '<< /V << /ByteRange [0 1] >> >>' }) }),
      /^it is signed/,
    ],
    [
      'metadata that is the page too',
      pdfFile({ ...onePage('', '/Contents [5 0 R]'), 5: metadata() }),
      /object 5 holds XMP, but is not only metadata/,
    ],
    [
      'metadata that is something else',
      pdfFile({ ...withMetadata, 5: stream('/Filter /FlateDecode', deflateSync(Buffer.from('a page'))) }),
      /object 5 is named as metadata, but is something else/,
    ],
    ['a packet in a string', pdfFile({ ...onePage(), 5: `(${PACKET})` }), /XMP in a string/],
    [
      'a packet in an object stream',
      pdfFile({ ...onePage(), 5: objectStream({ 6: `(${PACKET})`, 7: '[5 0 R]' }) }),
      /XMP in a string/,
    ],
    [
      'no number',
      Buffer.from(
        pdfFile({ ...onePage(), 5: metadata() })
          .toString('latin1')
          .replace('5 0 obj', '5%\n0 obj'),
        'latin1',
      ),
      /cannot be told/,
    ],
    [
      'no end',
      pdfFile({ ...onePage(), 5: Buffer.concat([metadata(), Buffer.from('\nand more')]) }),
      /cannot be told/,
    ],
    [
      'an object in its data',
      pdfFile({
        ...withMetadata,
        5: metadata('', Buffer.concat([PACKET, Buffer.from('\n8 0 obj\n<< >>\nendobj')])),
      }),
      /lie within each other/,
    ],
    [
      'its data in that of another',
      pdfFile({
        ...onePage(),
        6: stream(
          '',
          Buffer.concat([
            Buffer.from('5 0 obj '),
            metadata('', deflateSync(PACKET)),
            Buffer.from(' endobj '),
          ]),
        ),
      }),
      /lie within each other/,
    ],
    [
      'an object stream that is damaged',
      pdfFile({
        ...onePage(),
        5: stream('/Type /ObjStm /N 1 /First 9 /Filter /FlateDecode', Buffer.from('??')),
      }),
      /object 5 cannot be looked into: its FlateDecode data is damaged/,
    ],
    [
      'filters without end',
      pdfFile({ ...onePage(), 5: stream(`/Filter [${'/Fl '.repeat(9)}]`, Buffer.alloc(1)) }),
      /more filters/,
    ],
    [
      'a bomb in an object stream',
      pdfFile({ ...onePage(), 5: stream('/Type /ObjStm /First 1 /N 1 /Filter [/Fl /Fl]', bomb) }),
      /expand to more/,
    ],
    ['depth without end', pdfFile({ ...onePage(), 5: nested(100_000) }), /nested deeper/],
    [
      'objects within objects',
      Buffer.from(`%PDF-1.7 ${'1 0 obj ( '.repeat(30_000)}%%EOF`),
      /lie within each other/,
    ],
    [
      'streams without an end',
      Buffer.from(`%PDF-1.7 ${'1 0 obj <<>> stream\n'.repeat(30_000)}%%EOF`),
      /lie within each other/,
    ],
  ];
  for (const [name, document, why] of refused) t.match(await strip(document), why, name);
});

t.test('text about XMP is not taken for XMP', async (t) => {
  const line = (text: string) => `(${text}) Tj T*`;
  const listing = PACKET.toString().replace('><', '>\n<').split('\n').map(line).join('\n');
  const prose = Buffer.from(`BT /F1 9 Tf ${listing} ET`);
  t.match(await strip(pdfFile({ ...onePage(), 4: stream('', prose) })), { edits: 0 });
  t.match(await strip(pdfFile({ ...onePage(), 4: stream('/Filter /FlateDecode', deflateSync(prose)) })), {
    edits: 0,
  });
  const whole = stream('', Buffer.from(`BT /F1 9 Tf ${line(PACKET.toString())} ET`));
  t.match(
    await strip(pdfFile({ ...onePage(), 4: whole })),
    /object 4 holds XMP/,
    'but a whole packet is, even on a page',
  );
});

t.test('the time taken is bounded by the expanded size of the streams', async (t) => {
  const zeros = deflateSync(Buffer.alloc(1 << 24));
  const document = pdfFile({ ...onePage(), 5: stream('/Filter /FlateDecode', zeros) });
  t.strictSame(await findXmp(bufferSource(document)), []);
  const limited = findXmp(bufferSource(document), new Budget(1 << 23));
  await t.rejects(limited, { name: 'NotStrippable', message: /expand to more/ });
});

/** A document with metadata in places and forms chosen at random, and how many there are. */
const documents = fc
  .array(fc.record({ encoding: fc.nat(ENCODINGS.length - 1), isNamed: fc.boolean(), revision: fc.nat(2) }), {
    maxLength: 8,
  })
  .map((items) => {
    let document = pdfFile(onePage());
    for (const revision of [0, 1, 2]) {
      const objects: Objects = {};
      for (const [i, { encoding, isNamed, revision: own }] of items.entries()) {
        if (own !== revision) continue;
        const [, filters = '', data = PACKET] = ENCODINGS[encoding] ?? [];
        objects[10 + i] = metadata(filters, data);
        if (isNamed) objects[30 + i] = `<< /Metadata ${10 + i} 0 R >>`;
      }
      if (Object.keys(objects).length > 0) document = appendRevision(document, objects);
    }
    return { document, count: items.length };
  });

t.test('property: all metadata is removed, and nothing else changes', async (t) => {
  const property = fc.asyncProperty(documents, async ({ document, count }) => {
    const stripped = await strip(document);
    assert.ok(typeof stripped === 'object', String(stripped));
    assert.equal(stripped.edits, count);
    assert.ok(!holdsPacket(stripped.copy));
    assert.equal(skeleton(stripped.copy), skeleton(document));
  });
  await t.resolves(fc.assert(property, { numRuns: tries(100) }));
});

/** A document with its metadata objects left out. */
function skeleton(document: Buffer): string {
  return document
    .toString('latin1')
    .replace(/obj\s(<< \/Type \/Metadata[\s\S]*?endstream\s|<<>> *)endobj/g, '');
}

/** Whether a naive reader finds a packet: in the file, or in what it takes for a Flate stream. */
function holdsPacket(document: Buffer): boolean {
  const text = document.toString('latin1');
  if (text.includes('<?xpacket begin')) return true;
  return Array.from(text.matchAll(/stream\r?\n([\s\S]*?)\r?\n?endstream/g), ([, data = '']) =>
    inflated(data),
  ).some((inner) => inner.includes('<?xpacket begin'));
}

function inflated(data: string): Buffer {
  try {
    return inflateSync(Buffer.from(data, 'latin1'), { finishFlush: 2, maxOutputLength: 1 << 20 });
  } catch {
    return Buffer.alloc(0);
  }
}

t.test('fuzz: a damaged document is refused or stripped completely, and loses nothing else', async (t) => {
  const mutation = fc.record({
    at: fc.double({ min: 0, max: 1, noNaN: true }),
    kind: fc.constantFrom('set', 'insert', 'remove', 'repeat'),
    bytes: fc.oneof(
      fc.uint8Array({ minLength: 1, maxLength: 8 }).map((bytes) => Buffer.from(bytes)),
      fc
        .constantFrom(
          'endstream',
          'endobj',
          '5 0 obj',
          'stream\n',
          '<<',
          '>>',
          '[',
          '(',
          '%',
          '/Metadata',
          ' 10 0 R ',
          'trailer',
        )
        .map((text) => Buffer.from(text)),
    ),
  });
  const property = fc.asyncProperty(
    documents,
    fc.array(mutation, { minLength: 1, maxLength: 6 }),
    async ({ document }, mutations) => {
      const damaged = mutations.reduce((data, { at, kind, bytes }) => {
        const position = Math.floor(at * data.length);
        const [before, after] = [data.subarray(0, position), data.subarray(position)];
        if (kind === 'set') return Buffer.concat([before, bytes, after.subarray(bytes.length)]);
        if (kind === 'remove') return Buffer.concat([before, after.subarray(bytes.length)]);
        if (kind === 'repeat') return Buffer.concat([before, after.subarray(0, 300), after]);
        return Buffer.concat([before, bytes, after]);
      }, document);
      const stripped = await strip(damaged);
      if (typeof stripped === 'object')
        assert.ok(!stripped.copy.includes('<?xpacket begin="'), 'a packet is left');
    },
  );
  await t.resolves(fc.assert(property, { numRuns: tries(300) }));
});
