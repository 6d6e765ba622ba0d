/** Documents that one reader sees XMP in and another does not: either all of it goes, or the document is refused by name. */
import { deflateRawSync, deflateSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { Budget } from '../../src/pdf/budget.ts';
import { NotStrippable } from '../../src/pdf/notStrippable.ts';
import { marksIn } from '../../src/pdf/packets.ts';
import { type ByteSource, bufferSource } from '../../src/pdf/window.ts';
import { applyEdits, findXmp } from '../../src/pdf/xmp.ts';
import {
  appendRevision,
  metadata,
  type Objects,
  objectStream,
  onePage,
  PACKET,
  pdfFile,
  stream,
} from '../support/pdf.ts';

/** How many places are emptied, or why none is. */
async function strip(document: Buffer): Promise<number | string> {
  try {
    const edits = await findXmp(bufferSource(document));
    const copy = Buffer.from(document);
    applyEdits(copy, 0, edits);
    const left = await findXmp(bufferSource(copy));
    return left.length === 0 ? edits.length : 'something is left';
  } catch (error) {
    if (!(error instanceof NotStrippable)) throw error;
    return error.message;
  }
}

const hex = (data: Buffer) => Buffer.from(`${data.toString('hex')}>`);
const octal = (data: Buffer) => [...data].map((byte) => `\\${byte.toString(8).padStart(3, '0')}`).join('');
const flate = deflateSync(PACKET);
const ATTACHED =
  '/Names << /EmbeddedFiles << /Names [(a) << /Type /Filespec /F (a) /EF << /F 9 0 R >> >>] >> >>';
const named = (objects: Objects) => pdfFile({ ...onePage('/Metadata 5 0 R'), ...objects });
const attached = (file: Buffer, entries = '', data = file) =>
  pdfFile({
    ...onePage(`/Metadata 5 0 R ${ATTACHED}`),
    5: metadata(),
    9: stream(`/Type /EmbeddedFile ${entries}`, data),
  });

async function expectAll(t: Test, table: [name: string, document: Buffer, result: number | RegExp][]) {
  for (const [name, document, result] of table) {
    const found = await strip(document);
    if (typeof result === 'number') t.equal(found, result, name);
    else t.match(found, result, name);
  }
}

t.test('streams with uncertain lengths are stripped or refused', async (t) => {
  const before = 'endstream\n';
  const behind = (length: string) =>
    Buffer.from(
      pdfFile({ ...onePage(), 4: before, 5: stream('/Filter /ASCIIHexDecode', hex(PACKET), length) }),
    );
  const typed = (length: string) => named({ 5: stream('/Type /Metadata', PACKET, length) });
  await expectAll(t, [
    ['that lead back', behind('-200'), /object 5 cannot be looked into: its \/Length is not a length/],
    ['of metadata that lead back', typed('-200'), /its \/Length is not a length/],
    ['with a fraction', typed(`${PACKET.length}.0`), 1],
    ['with a fraction that counts', typed('7.9'), 1],
    ['that are strings', typed('(7)'), /its \/Length is not a length/],
    ['beyond the end of the file', typed('99999999'), /begins and ends cannot be told/],
    [
      'that another revision has otherwise',
      appendRevision(named({ 5: stream('/Type /Metadata', PACKET, '6 0 R'), 6: '<< >>' }), {
        6: `${PACKET.length}`,
      }),
      1,
    ],
    [
      'that hide an object',
      pdfFile({
        ...onePage(),
        5: stream('', Buffer.concat([Buffer.from('8 0 obj '), metadata(), Buffer.from(' endobj')])),
      }),
      /lie within each other/,
    ],
  ]);
});

t.test('streams with uncertain filters are stripped or refused', async (t) => {
  const indirect = (objects: Objects, filter = '6 0 R') =>
    named({ 5: stream(`/Filter ${filter}`, hex(PACKET)), ...objects });
  const withWrongChecksum = (data: Buffer) => {
    const deflated = deflateSync(data);
    return Buffer.concat([deflated.subarray(0, -1), Buffer.of(((deflated.at(-1) ?? 0) + 1) & 255)]);
  };
  const harmless = Buffer.from('BT (no metadata) Tj ET');
  const long = Buffer.alloc(1 << 21, harmless);
  // Its header names a window of 256 bytes.
  const narrow = Buffer.concat([Buffer.of(0x08, 0x1d), deflateSync(`${PACKET}${PACKET}`).subarray(2)]);
  const tiff = Buffer.from(PACKET.map((byte, i) => byte - (i === 0 ? 0 : (PACKET[i - 1] ?? 0))));
  const row = `/DecodeParms << /Predictor 2 /Columns ${PACKET.length} >>`;
  await expectAll(t, [
    ['in another object', indirect({ 6: '/ASCIIHexDecode' }), 1],
    ['in another object, as a list', indirect({ 6: '[/ASCIIHexDecode]' }), 1],
    ['each in another object', indirect({ 6: '/AHx' }, '[6 0 R]'), 1],
    ['in no object', indirect({}), /what it says in object 6 cannot be told/],
    ['in two objects', appendRevision(indirect({ 6: '/Fl' }), { 6: '/AHx' }), /in object 6 cannot be told/],
    ['in an object stream', indirect({ 7: objectStream({ 6: '/AHx' }) }), /in object 6 cannot be told/],
    [
      'in an object stream, too',
      indirect({ 6: '/AHx', 7: objectStream({ 6: '/Fl' }) }),
      /object 6 says of a stream cannot be told/,
    ],
    [
      'encryption',
      indirect({}, '[/Crypt /ASCIIHexDecode]'),
      /object 5 cannot be looked into: it goes through \/Crypt/,
    ],
    ['of no name', indirect({}, '[(AHx)]'), /a filter without a name/],
    ['of images', indirect({}, '/CCITTFaxDecode'), /is not an image/],
    ['of images, and not last', indirect({}, '[/DCTDecode /AHx] /Width 1'), /but not last/],
    ['twice', indirect({}, '/Fl /Filter /AHx'), /it has \/Filter twice/],
    ['under an abbreviation', named({ 5: stream('/F /AHx', hex(PACKET)) }), 1],
    ['under an abbreviation, in another object', named({ 5: stream('/F 6 0 R', hex(PACKET)), 6: '/AHx' }), 1],
    ['a file elsewhere', named({ 5: stream('/F (a)', PACKET) }), 1],
    ['a wrong checksum of metadata', named({ 5: metadata('/Filter /Fl', withWrongChecksum(PACKET)) }), 1],
    [
      'a wrong checksum',
      pdfFile({ ...onePage(), 5: stream('/Filter /Fl', withWrongChecksum(harmless)) }),
      /object 5 cannot be looked into: its FlateDecode data is damaged/,
    ],
    [
      'a wrong checksum of data that comes in pieces',
      pdfFile({ ...onePage(), 5: stream('/Filter /Fl', withWrongChecksum(long)) }),
      /its FlateDecode data is damaged/,
    ],
    ['no checksum', named({ 5: stream('/Filter /FlateDecode', flate.subarray(0, -4)) }), 1],
    ['a smaller window than is used', named({ 5: stream('/Filter /FlateDecode', narrow) }), 1],
    ['no header', named({ 5: stream('/Filter /Fl', deflateRawSync(PACKET)) }), /its FlateDecode data is dam/],
    ['TIFF', named({ 5: stream(`/Filter /Fl ${row}`, deflateSync(tiff)) }), 1],
    [
      'predictors of no kind',
      named({ 5: stream('/Filter /Fl /DecodeParms << /Predictor 3 >>', flate) }),
      /\/Pred/,
    ],
    [
      'parameters of one of several',
      named({ 5: stream('/Filter [/AHx /Fl] /DecodeParms << /Predictor 12 >>', hex(flate)) }),
      /parameters of one/,
    ],
    [
      'hexadecimal data and more',
      named({ 5: stream('/Filter /AHx', Buffer.from('41>41')) }),
      /ASCIIHexDecode/,
    ],
    ['base 85 and more', named({ 5: stream('/Filter /A85', Buffer.from('87cUR~>87cUR')) }), /ASCII85Decode/],
    ['none', named({ 5: stream('/Filter null', PACKET) }), 1],
  ]);
});

t.test('every form of XMP is found', async (t) => {
  const rdf = 'http://www.w3.org/1999/02/22-rdf-syntax-ns#';
  const forms: Record<string, string> = {
    'RDF alone': `<rdf:RDF xmlns:rdf="${rdf}"><rdf:Description/></rdf:RDF>`,
    'another prefix': '<q:xmpmeta xmlns:q="adobe:ns:meta/"><b/></q:xmpmeta>',
    'another prefix of RDF': `<r:RDF  xmlns:r = '${rdf}' >text</r:RDF>`,
    'a name that is none': `<\x0e\xa9df:RDF xmlns:rdf="${rdf}"><b/></rdf:RDF>`,
    'a declaration further up': `<a b="1" xmlns:r="${rdf}"><r:RDF/></a>`,
    'a damaged start': `<rdf:RDF xmlns:r<f="${rdf}"><b/></rdf:RDF>\n`,
    'a damaged start of a packet': '<?xpacket gin=""?><b/></x:xmpm <?xpacket end="w"?>',
    'a tag that is long': `<x:xmpmeta ${' '.repeat(5000)} xmlns:x="adobe:ns:meta/"></x:xmpmeta>`,
    'far behind': `${' '.repeat(70_000)}<x:xmpmeta xmlns:x="adobe:ns:meta/"> <a/>`,
  };
  for (const [name, text] of Object.entries(forms)) {
    for (const encoding of ['utf8', 'utf16le', 'utf16be', 'utf32be', 'utf32le'] as const) {
      const data = encoded(text, encoding);
      const plain = await strip(named({ 5: stream('', data) }));
      const deflated = await strip(named({ 5: stream('/Filter /FlateDecode', deflateSync(data)) }));
      t.same([plain, deflated], [1, 1], `${name}, ${encoding}`);
    }
  }
  await expectAll(t, [
    ['a hexadecimal string', pdfFile({ ...onePage(), 5: `<${PACKET.toString('hex')}>` }), /XMP in a string/],
    [
      'with spaces',
      pdfFile({ ...onePage(), 5: `[<${PACKET.toString('hex').replace(/(.{7})/g, '$1\n')}>]` }),
      /XMP in a string/,
    ],
    [
      'with what is no digit',
      pdfFile({ ...onePage(), 5: `<${PACKET.toString('hex').replaceAll('30', 'W0')}>` }),
      /XMP in a string/,
    ],
    [
      'with what is passed over',
      pdfFile({ ...onePage(), 5: `<${PACKET.toString('hex').replace(/(.{7})/g, '$1W')}>` }),
      /XMP in a string/,
    ],
    ['an octal string', pdfFile({ ...onePage(), 5: `<< /A (${octal(PACKET)}) >>` }), /XMP in a string/],
    [
      'escaped line ends',
      pdfFile({ ...onePage(), 5: `(${PACKET.toString().replaceAll('m', '\\\r\nm')})` }),
      /XMP in a string/,
    ],
    [
      'UTF-16',
      pdfFile({ ...onePage(), 5: `<${encoded(PACKET.toString(), 'utf16be').toString('hex')}>` }),
      /string/,
    ],
    ['a damaged start', pdfFile({ ...onePage(), 5: '(\\4rdf:RDF><b/></rdf:RDF>)' }), /XMP in a string/],
    ['in the trailer', pdfFile(onePage(), `/A <${PACKET.toString('hex')}>`), /XMP in a string/],
    [
      'in an object stream',
      pdfFile({ ...onePage(), 5: objectStream({ 6: `<${PACKET.toString('hex')}>` }) }),
      /XMP in a string/,
    ],
  ]);
});

function encoded(text: string, encoding: string): Buffer {
  if (encoding === 'utf8') return Buffer.from(text);
  if (encoding === 'utf16le') return Buffer.from(text, 'utf16le');
  if (encoding === 'utf16be') return Buffer.from(text, 'utf16le').swap16();
  const wide = Buffer.concat([...text].map((char) => Buffer.of(0, 0, 0, char.charCodeAt(0))));
  return encoding === 'utf32be' ? wide : wide.swap32();
}

t.test('XMP in attached documents is found', async (t) => {
  const bare = pdfFile(onePage());
  const inner = named({ 5: metadata() });
  const deflatedInner = named({ 5: metadata('/Filter /FlateDecode', flate) });
  const holds = /object 9 holds XMP, but is not only metadata: an attachment/;
  const deflate = (file: Buffer) => attached(file, '/Filter /FlateDecode', deflateSync(file));
  await expectAll(t, [
    ['without XMP', attached(bare), 1],
    ['without XMP, deflated', deflate(bare), 1],
    ['whose objects have the numbers of ours', attached(pdfFile({ ...onePage('/X 5 0 R'), 5: '<< >>' })), 1],
    ['with XMP', attached(inner), holds],
    ['with deflated XMP', attached(deflatedInner), holds],
    ['deflated, with deflated XMP', deflate(deflatedInner), holds],
    ['in an attached one, with XMP', deflate(deflate(deflatedInner)), holds],
    ['signed', attached(pdfFile({ ...onePage(), 5: '<< /ByteRange [0 1 2 3] >>' })), 1],
    ['encrypted', attached(pdfFile(onePage(), '/Encrypt 9 0 R')), /object 9 .*of that: it is encrypted/],
    [
      'without end',
      Buffer.from(
        attached(bare)
          .toString('latin1')
          .replace(/\/Length \d{3,} >>\nstream\n%PDF/, '>>\nstream\n%PDF'),
        'latin1',
      ),
      /object 9 .*without a certain end/,
    ],
  ]);
});

t.test('objects that readers assemble differently are stripped or refused', async (t) => {
  const body = `/Type /Metadata /Filter /FlateDecode /Length ${flate.length}`;
  const written = (head: string) =>
    named({ 5: Buffer.concat([Buffer.from(`${head}\nstream\n`), flate, Buffer.from('\nendstream')]) });
  await expectAll(t, [
    ['a dictionary', written(`<< ${body} >>`), 1],
    ['a word of the file in it', written(`<< /A endobj ${body} >>`), /whose object cannot be told/],
    ['behind a comment', written(`<< /A endobj ${body} >> % a comment`), /whose object cannot be told/],
    ['brackets', written(`<< /A [ >> ${body} >>`), /brackets do not match|cannot be told/],
    ['two types', written(`<< /Type /XObject ${body} >>`), /it has \/Type twice/],
    ['a value too many', written(`<< /A 1 2 ${body} >>`), /values without a key/],
    [
      '0obj',
      Buffer.from(written(`<< ${body} >>`).toString('latin1').replace('5 0 obj', '5 0obj '), 'latin1'),
      1,
    ],
  ]);
});

t.test('any kind of work counts against the limit', async (t) => {
  const zeros = Buffer.alloc(1 << 22);
  const nested = deflateSync(deflateSync(deflateSync(zeros)));
  const parms = '/DecodeParms [null null << /Predictor 15 /Columns 9 >>]';
  const documents: Record<string, Buffer> = {
    nested: pdfFile({ ...onePage(), 5: stream(`/Filter [/Fl /Fl /Fl] ${parms}`, nested) }),
    lzw: pdfFile({ ...onePage(), 5: stream('/Filter [/Fl /RL]', deflateSync(Buffer.alloc(1 << 20, 129))) }),
    many: pdfFile(
      Object.fromEntries(
        Array.from({ length: 500 }, (_, i) => [
          i + 1,
          stream('/Filter /Fl', deflateSync(zeros.subarray(0, 9))),
        ]),
      ),
    ),
  };
  for (const [name, document] of Object.entries(documents)) {
    const source = bufferSource(document);
    await t.rejects(findXmp(source, new Budget(1 << 21)), { message: /expand to more/ }, name);
    await t.resolves(findXmp(source), name);
  }
});

t.test('at most a small multiple of a document is read', async (t) => {
  const many = (text: string) => Buffer.from(`%PDF-1.7 ${text.repeat(5_000)} %%EOF`);
  const documents: Record<string, Buffer> = {
    'lengths that lead nowhere': many('1 0 obj<</Length 9 0 R>>stream\n'),
    'lengths that lead to an end far away': many('1 0 obj<</Length 9 0 R>>stream\nendstream '),
    'streams without length': many('1 0 obj<</Filter/Fl>>stream\nendstream endobj '),
    'strings without end': many('1 0 obj ( '),
    'dictionaries without end': many('1 0 obj << '),
  };
  for (const [name, document] of Object.entries(documents)) {
    let read = 0;
    const source: ByteSource = {
      bytes: document.length,
      read(position, length) {
        const data = document.subarray(position, position + length);
        read += data.length;
        return data;
      },
    };
    await findXmp(source).catch((error) => t.equal(error.name, 'NotStrippable', name));
    t.ok(read < 200 * document.length + (1 << 24), `${name}: ${read / document.length} times`);
  }
});

t.test('the search for XMP takes time proportional to the text', (t) => {
  const pieces = [
    '<?xpacket begin',
    '<?xpacket begin?> ',
    '<x:xmpmeta a="',
    '<rdf:RDF ',
    ' >',
    '<a x="adobe:ns:meta/"',
    '</rdf:RDF> ',
  ];
  for (const piece of pieces) {
    for (const end of ['', ' ', '<', '>', '?']) {
      t.ok(Array.isArray(marksIn(Buffer.from(piece + end.repeat(1 << 20)))));
      t.ok(Array.isArray(marksIn(Buffer.from((piece + end).repeat(1 << 17)))));
    }
  }
  t.end();
});
