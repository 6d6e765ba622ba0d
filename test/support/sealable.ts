/** Documents to which a receipt can be attached, one for each thing that the plan has to find its way through. */
import { appendRevision, metadata, objectStream, onePage, packedFile, pdfFile, stream } from './pdf.ts';

const OTHER = {
  8: stream('/Type /EmbeddedFile', Buffer.from('<invoice/>')),
  9: '<< /Type /Filespec /F (invoice.xml) /EF << /F 8 0 R >> >>',
};

/** XMP that names a part of PDF/A. */
export function pdfaMetadata(part: string): Buffer {
  return metadata(
    '',
    Buffer.from(
      `<x:xmpmeta xmlns:x="adobe:ns:meta/" xmlns:pdfaid="http://www.aiim.org/pdfa/ns/id/">${part}</x:xmpmeta>`,
    ),
  );
}

/** A file with a table for older readers, and objects that only newer ones see (ISO 32000-2, 7.5.8.4). */
function hybridFile(): Buffer {
  const base = pdfFile(onePage('/Names 8 0 R'));
  const previous = /startxref\n(\d+)/.exec(base.toString('latin1'))?.[1];
  const pack = objectStream({ 8: '<< /Dests 9 0 R >>', 9: '<< /Names [] >>' });
  const packed = Buffer.concat([Buffer.from('7 0 obj\n'), pack, Buffer.from('\nendobj\n')]);
  const rows = Buffer.from([2, 0, 0, 7, 0, 2, 0, 0, 7, 1]);
  const hidden = stream('/Type /XRef /W [1 3 1] /Index [8 2] /Size 21 /Root 1 0 R', rows);
  const [first, second] = [base.length, base.length + packed.length];
  const section = Buffer.concat([Buffer.from('6 0 obj\n'), hidden, Buffer.from('\nendobj\n')]);
  const free = '0000000000 65535 f \n';
  const table = `xref\n0 1\n${free}6 4\n${entry(second)}${entry(first)}${free}${free}`;
  const trailer = `trailer\n<< /Size 21 /Root 1 0 R /Prev ${previous} /XRefStm ${second} >>`;
  const end = `${table}${trailer}\nstartxref\n${second + section.length}\n%%EOF\n`;
  return Buffer.concat([base, packed, section, Buffer.from(end)]);
}

function entry(offset: number): string {
  return `${String(offset).padStart(10, '0')} 00000 n \n`;
}

/**
 * A file of three pages that begins with a section for readers that receive it from the front (annex F). The sections at its front and at
 * its end can name different contents of the first page, and the hints another third page.
 */
export function linearizedFile({ contradicts = false, thirdPage = 9 } = {}): Buffer {
  const blank = '<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] >>';
  const hints = Buffer.alloc(40);
  hints.writeUInt32BE(thirdPage - 1);
  const objects: Record<number, Buffer | string> = {
    ...onePage(),
    2: '<< /Type /Pages /Kids [3 0 R 8 0 R 9 0 R] /Count 3 >>',
    5: stream('', Buffer.from('BT /F1 24 Tf 20 100 Td (Other) Tj ET')),
    6: stream('/S 36', hints),
    8: blank,
    9: blank,
  };
  const ten = (value = 0) => String(value).padStart(10, '0');
  const build = (known: { bytes?: number; hints?: number; last?: number }) => {
    const { bytes, hints: at, last } = known;
    const head = `%PDF-1.7\n7 0 obj\n<< /Linearized 1 /L ${ten(bytes)} /H [${ten(at)} 88] /O 3 /E ${ten(last)} /N 3 /T ${ten(last)} >>\nendobj\n`;
    const section = (offsets: Record<number, number>) =>
      `xref\n0 10\n0000000000 65535 f \n${[1, 2, 3, 4, 5, 6, 7, 8, 9].map((n) => entry(offsets[n] ?? 9)).join('')}trailer\n<< /Size 10 /Root 1 0 R >>\n`;
    const before = `${head}${section({})}startxref\n0\n%%EOF\n`.length;
    let body = '';
    const add = (number: number, content: Buffer | string | undefined) => {
      const offset = before + body.length;
      body += `${number} 0 obj\n${content?.toString('latin1')}\nendobj\n`;
      return offset;
    };
    const offsets: Record<number, number> = {};
    for (const [number, content] of Object.entries(objects))
      offsets[Number(number)] = add(Number(number), content);
    const page = contradicts ? add(3, String(objects[3]).replace('4 0 R', '5 0 R')) : 0;
    const end = before + body.length;
    const [second, named] = contradicts ? [section({ ...offsets, 3: page }), end] : ['', head.length];
    const text = `${head}${section(offsets)}startxref\n0\n%%EOF\n${body}${second}startxref\n${named}\n%%EOF\n`;
    return { text, bytes: text.length, hints: offsets[6] ?? 0, last: end };
  };
  return Buffer.from(build(build({})).text, 'latin1');
}

const { 1: catalog = '', 2: pages = '', ...rest } = onePage();

export const SEALABLE: Readonly<Record<string, Buffer>> = {
  'a table': pdfFile(onePage()),
  'no line end at the end': pdfFile(onePage()).subarray(0, -1),
  'an identifier and information': pdfFile(
    { ...onePage(), 5: '<< /Title (T) >>' },
    '/ID [<01> <02>] /Info 5 0 R',
  ),
  'a catalog in an object stream': packedFile(
    rest,
    { 1: String(catalog), 2: String(pages) },
    { trailer: '/ID [<01> <02>]' },
  ),
  'an earlier revision': appendRevision(pdfFile(onePage()), { 4: stream('', Buffer.from('0 g')) }),
  'a table after a stream': appendRevision(packedFile(onePage(), { 5: '<< >>' }), {
    4: stream('', Buffer.from('0 g')),
  }),
  'a hybrid file': hybridFile(),
  linearized: linearizedFile(),
  'linearized before an update': appendRevision(linearizedFile(), { 4: stream('', Buffer.from('0 g')) }),
  'objects in a stream that is not compressed': packedFile(
    rest,
    { 1: String(catalog), 2: String(pages) },
    { compressed: false },
  ),
  'names in an object stream': packedFile(
    { ...onePage('/Names 6 0 R'), ...OTHER },
    { 6: '<< /EmbeddedFiles 7 0 R >>', 7: '<< /Names [(invoice.xml) 9 0 R] >>' },
  ),
  'names of other things': pdfFile({ ...onePage('/Names << /Dests 5 0 R >>'), 5: '<< /Names [] >>' }),
  'an empty tree': pdfFile({ ...onePage('/Names << /EmbeddedFiles 5 0 R >>'), 5: '<< >>' }),
  'names before and after': pdfFile({
    ...onePage('/Names << /EmbeddedFiles << /Names [(a) 9 0 R <7A> 9 0 R] >> >> /AF [9 0 R]'),
    ...OTHER,
  }),
  'a tree with limits': pdfFile({
    ...onePage('/Names 5 0 R /AF 10 0 R'),
    ...OTHER,
    5: '<< /EmbeddedFiles << /Kids [6 0 R 7 0 R] >> >>',
    6: '<< /Limits [(a) (c)] /Names [(a) 9 0 R (c) 9 0 R] >>',
    7: '<< /Limits [(q) (z)] /Kids [11 0 R] >>',
    10: '[9 0 R]',
    11: '<< /Limits [(q) (z)] /Names [(q) 9 0 R (z) 9 0 R] >>',
  }),
  'a tree that ends before': pdfFile({
    ...onePage('/Names << /EmbeddedFiles << /Kids [6 0 R] >> >>'),
    ...OTHER,
    6: '<< /Limits [(a) (c)] /Names [(a) 9 0 R (c) 9 0 R] >>',
  }),
  'comments and odd spaces': pdfFile({ ...onePage(), 1: '<</Type/Catalog%>>\n/Pages 2 0 R%]\r>>' }),
  'null in place of names and files': pdfFile(onePage('/Names null /AF 6 0 R')),
  'references to numbers above all objects': pdfFile({ ...onePage(), 5: '[30 0 R 21 0 R]' }),
  'a length in another object': pdfFile({ ...onePage(), 4: stream('', Buffer.from('0 g'), '5 0 R'), 5: '3' }),
  'a signature about some fields': pdfFile({
    ...onePage('/AcroForm << /Fields [5 0 R] >>'),
    5: '<< /FT /Sig /T (s) /V << /Type /Sig /Reference [<< /TransformMethod /FieldMDP /Data 1 0 R >>] >> >>',
  }),
  'PDF/A-3 that is also PDF/UA-1': pdfFile({
    ...onePage('/Metadata 5 0 R'),
    5: pdfaMetadata('<pdfuaid:part>1</pdfuaid:part><pdfaid:part>3</pdfaid:part>'),
  }),
  'PDF/A-3': pdfFile({
    ...onePage('/Metadata 5 0 R'),
    5: pdfaMetadata('<pdfaid:part>3</pdfaid:part><pdfaid:conformance>B</pdfaid:conformance>'),
  }),
  'PDF/A-4f': pdfFile({
    ...onePage('/Metadata 5 0 R'),
    5: pdfaMetadata('<r pdfaid:part="4" pdfaid:conformance="F"/>'),
  }),
  'a form': pdfFile({
    ...onePage('/AcroForm << /Fields [5 0 R] >>'),
    5: '<< /FT /Sig /T (s) /V 6 0 R /Lock << /Action /All >> >>',
    6: '<< /Type /Sig /Filter /Adobe.PPKLite /SubFilter /adbe.pkcs7.detached /ByteRange [0 1 2 3] /Contents <00> >>',
  }),
};

/** A file in which text was changed, in the only place where it is. */
export function changed(file: Buffer, from: string | RegExp, to: string): Buffer {
  const text = file.toString('latin1');
  const after = text.replace(from, to);
  if (after === text) throw new Error(`${from} is not in the file`);
  return Buffer.from(after, 'latin1');
}

const plain = pdfFile(onePage());
/** Another document in the same file. */
const second = {
  9: '<< /Type /Cat#61log /Pages 11 0 R >>',
  11: '<< /Type /Pages /Kids [12 0 R] /Count 1 >>',
  12: String(onePage()[3]).replace('4 0 R', '13 0 R').replace('/Parent 2', '/Parent 11'),
  13: stream('', Buffer.from('BT /F1 24 Tf 20 100 Td (Other) Tj ET')),
};
/** Poppler repairs it, because an object is not there. */
const repaired = { ...onePage('/URI 99 0 R /OCProperties 99 0 R'), ...second };
const otherCatalog = '<< /Type /Catalog /Pages 11 0 R >>';

/** A file with something in it before the place of `before`, and its cross-references moved. */
function withInserted(file: Buffer, before: string, text: string): Buffer {
  const whole = file.toString('latin1');
  const at = whole.lastIndexOf(before);
  const moved = (offset: string) => (Number(offset) < at ? Number(offset) : Number(offset) + text.length);
  return Buffer.from(
    (whole.slice(0, at) + text + whole.slice(at))
      .replaceAll(/^(\d{10})(?= 00000 n )/gm, (offset) => String(moved(offset)).padStart(10, '0'))
      .replaceAll(/startxref\n([1-9]\d*)/g, (_, offset) => `startxref\n${moved(offset)}`)
      .replace(/\/L \d{10}/, `/L ${String(whole.length + text.length).padStart(10, '0')}`),
    'latin1',
  );
}

/** A catalog that only readers of hidden sections see. */
function hiddenCatalog(): Buffer {
  const { 1: catalog, ...others } = onePage();
  const base = pdfFile({ ...others, 7: objectStream({ 1: String(catalog) }, { compressed: false }) });
  const rows = Buffer.from([2, 0, 7, 0]);
  const section = `6 0 obj\n${stream('/Type /XRef /W [1 2 1] /Index [1 1] /Size 21 /Root 1 0 R', rows).toString('latin1')}\nendobj\n`;
  const at = base.lastIndexOf('xref\n0 1');
  return changed(
    withInserted(base, 'xref\n0 1', section),
    '/Root 1 0 R  >>',
    `/Root 1 0 R /XRefStm ${at} >>`,
  );
}

/** An object stream that has the catalog twice: readers differ in which they take. */
function twiceInStream(): Buffer {
  const { 9: _other, ...others } = second;
  const packed = { 1: String(catalog), 9: otherCatalog };
  const file = packedFile({ ...rest, 2: String(pages), ...others }, packed, { compressed: false });
  return changed(file, 'stream\n1 0 9', 'stream\n1 0 1');
}

/** A stream that draws over the page, and whose dictionary is read as something else. */
const drawing = (entries: string) => stream(entries, Buffer.from('1 g 0 0 200 200 re f'));
/** A page that also shows another object. */
const alsoShowing = (reference: string, catalog = '') => ({
  ...onePage(catalog),
  3: String(onePage()[3]).replace('/Contents 4 0 R', `/Contents [4 0 R ${reference}]`),
});
/** A second document, which a reader that repairs finds, and one that reads the cross-references does not. */
const hidden = `1 0 obj\n<< /Type /Catalog /Pages 12 0 R >>\nendobj\n12 0 obj\n<< /Type /Pages /Kids [3 0 R] /Count 1 >>\nendobj\n`;
const withHidden = (() => {
  const at = plain.indexOf('xref\n0 1');
  const moved = `startxref\n${at + hidden.length}\n%%EOF`;
  const whole = Buffer.concat([plain.subarray(0, at), Buffer.from(hidden), plain.subarray(at)]);
  return changed(whole, /startxref\n\d+\n%%EOF/, moved);
})();
const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`;
const signature = '/Type /Sig /Filter /Adobe.PPKLite /ByteRange [0 1 2 3] /Contents <00>';

/** Documents to which none can, and what is said of them. */
export const NOT_SEALABLE = {
  'not at its beginning': [Buffer.concat([Buffer.from('x'), plain]), /^%PDF- is not its beginning$/],
  empty: [Buffer.alloc(0), /it is missing/],
  'no end': [plain.subarray(0, -8), /last lines/],
  'something after its end': [Buffer.concat([plain, Buffer.from('x')]), /last lines/],
  'another kind of space before its end': [changed(plain, 'startxref\n', 'startxref\v'), /last lines/],
  'a wrong offset at the end': [changed(plain, /startxref\n\d+/, 'startxref\n7'), /cross-reference/],
  'a comment before its cross-references': [changed(plain, '\nxref\n', '\n%ref\n'), /cross-reference/],
  'a comment in a heading': [
    changed(plain, 'xref\n0 1\n', 'xref\n0%1\n'),
    /cross-reference table .* damaged/,
  ],
  'a sign in a heading': [changed(plain, 'xref\n0 1\n', 'xref\n+0 1\n'), /cross-reference table .* damaged/],
  'a comment before its trailer': [changed(plain, 'trailer\n<<', 'trailer\n%\n<<'), /has no trailer/],
  'a damaged entry that no object needs': [
    changed(plain, '0000000000 65535 f', '0000000000 6553x f'),
    /damaged/,
  ],
  'a wrong offset of the catalog': [
    changed(plain, /0000000015 00000 n/, '0000000099 00000 n'),
    /^object 1 begins within/,
  ],
  'a wrong offset of a page': [
    changed(plain, /\n3 1\n\d{10}/, '\n3 1\n0000000099'),
    /^object 3 begins within/,
  ],
  'an offset of zero': [changed(plain, /\n4 1\n\d{10}/, '\n4 1\n0000000000'), /damaged entry for object 4/],
  'another generation than its entry says': [changed(plain, '4 0 obj', '4 1 obj'), /^object 4 is not where/],
  'a size that is not a whole number': [changed(plain, '/Size 21', '/Size 21.0'), /has no \/Size/],
  'a length that is not a whole number': [
    pdfFile({ ...onePage(), 4: stream('', Buffer.from('0 g'), '3.0') }),
    /^the stream of object 4 has no \/Length$/,
  ],
  'an entry beyond its size': [changed(plain, '/Size 21', '/Size 4 '), /an entry beyond its \/Size/],
  'two entries for one object': [changed(plain, '2 1\n', '1 1\n'), /has two entries for one object/],
  'a table that begins at 1 with the entry of 0': [
    changed(plain, 'xref\n0 1\n', 'xref\n1 1\n'),
    /begins at 1|two entries/,
  ],
  'numbers that not all readers accept': [
    changed(plain, 'xref\n0 1\n', 'xref\n4194305 0\n0 1\n'),
    /not all readers/,
  ],
  'a hidden section that is null': [
    changed(plain, '/Root 1 0 R', '/Root 1 0 R /XRefStm null'),
    /\/XRefStm that is not/,
  ],
  'an object without its end': [
    changed(plain, />>\nendobj\n3 0/, '>>\nend0bj\n3 0'),
    /^object 2 is damaged$/,
  ],
  'a stream of another length': [
    changed(plain, /\/Length \d\d/, '/Length 09'),
    /^the stream of object 4 does not end/,
  ],
  'a damaged object that nothing refers to': [
    pdfFile({ ...onePage(), 5: '<< /A [ >>' }),
    /^object 5 is damaged$/,
  ],
  'a section that says something else at the front': [
    linearizedFile({ contradicts: true }),
    /first cross-references/,
  ],
  'another first page at the front': [
    changed(linearizedFile(), '/O 3', '/O 8'),
    /beginning names other pages/,
  ],
  'fewer pages at the front': [changed(linearizedFile(), '/N 3', '/N 2'), /beginning names other pages/],
  'hints to other pages': [linearizedFile({ thirdPage: 8 }), /hints name other pages/],
  encrypted: [pdfFile({ ...onePage(), 5: '<< /Filter /Standard >>' }, '/Encrypt 5 0 R'), /^it is encrypted$/],
  'encrypted in an earlier revision': [
    appendRevision(pdfFile(onePage(), '/Encrypt null'), { 4: '<< >>' }),
    /^it is encrypted$/,
  ],
  'a key twice': [
    pdfFile({ ...onePage(), 1: '<< /Type /Catalog /Pages 2 0 R /Pages 3 0 R >>' }),
    /^object 1 has \/Pages twice$/,
  ],
  'no pages': [pdfFile({ ...onePage(), 2: '<< >>' }), /tree of pages/],
  'another catalog that only repairing readers see': [withHidden, /another catalog/],
  'another catalog within a stream': [
    pdfFile({ ...onePage(), 5: stream('', Buffer.from('\n1 0 obj\n<< /Type /Catalog >>\nendobj\n')) }),
    /another catalog/,
  ],
  'another catalog after a comment': [
    withInserted(pdfFile(repaired), 'xref\n0 1', `1 %\n0 obj\n${otherCatalog}\nendobj\n`),
    /another catalog/,
  ],
  'another catalog after many spaces': [
    withInserted(pdfFile(repaired), 'xref\n0 1', `1${' '.repeat(30)}0 obj\n${otherCatalog}\nendobj\n`),
    /another catalog/,
  ],
  'a later trailer with a comment': [
    withInserted(pdfFile(repaired), 'xref\n0 1', 'trailer\n<< /Root%\n9 0 R >>\n'),
    /another catalog/,
  ],
  'a later trailer with an escaped name': [
    withInserted(pdfFile(repaired), 'xref\n0 1', 'trailer\n<< /R#6fot 9 0 R >>\n'),
    /another catalog/,
  ],
  'a later trailer with many spaces': [
    withInserted(pdfFile(repaired), 'xref\n0 1', `trailer\n<< /Root${' '.repeat(30)}9 0 R >>\n`),
    /another catalog/,
  ],
  'a catalog after a digit': [
    withInserted(pdfFile(repaired), '1 0 obj\n<< /Type /Catalog', `1 0 obj\n${otherCatalog}\nendobj\n4`),
    /^object 1 begins within a word$/,
  ],
  'a catalog that does not begin a line': [
    withInserted(pdfFile(repaired), '1 0 obj\n<< /Type /Catalog', `1 0 obj\n${otherCatalog}\nendobj\n% `),
    /does not begin a line/,
  ],
  'a catalog that some readers do not see': [hiddenCatalog(), /catalog is hidden/],
  'a catalog twice in a stream': [twiceInStream(), /has an object twice/],
  'a catalog that quotes a page': [
    pdfFile({
      ...repaired,
      1: `<< /Type /Catalog /Pages 2 0 R /Lang (\n3 0 obj\n${second[12]}\nendobj\n) >>`,
    }),
    /quotes other objects/,
  ],
  'an identifier that quotes a page': [
    pdfFile(repaired, `/ID [(\n3 0 obj\n${second[12]}\n) <02>]`),
    /quotes other objects/,
  ],
  'a trailer that is encrypted for some readers': [
    pdfFile(onePage(), '/Encrypt#00 5 0 R'),
    /a name that not all readers read alike/,
  ],
  'numbers that some readers count from 0': [
    changed(plain, /\n1 1\n\d{10} 00000 n/, '\n1 1\n0000000000 00001 f'),
    /begins at 1/,
  ],
  'a sign at the front': [
    withInserted(linearizedFile(), '7 0 obj', '+'),
    /does not begin with an object|within a word/,
  ],
  'an end of an object within the first': [
    withInserted(linearizedFile(), '/H [', '/X (endobj) '),
    /beginning is damaged/,
  ],
  'a page at the front that is not a whole number': [
    withInserted(linearizedFile(), '/H [', '/P 1.0 '),
    /beginning is damaged/,
  ],
  'another catalog in an earlier revision': [
    changed(appendRevision(pdfFile({ ...onePage(), 9: '<< >>' }), { 4: '<< >>' }), '/Root 1', '/Root 9'),
    /different catalogs/,
  ],
  'a later trailer that names another catalog': [
    pdfFile({ ...onePage(), 5: stream('', Buffer.from('trailer << /Root 9 0 R >>')) }),
    /another catalog/,
  ],
  'a catalog that is also drawn': [
    pdfFile({ ...alsoShowing('1 0 R'), 1: drawing('/Type /Catalog /Pages 2 0 R') }),
    /its catalog is also a part of another object/,
  ],
  'a catalog that has states of graphics for a page': [
    pdfFile({ ...onePage(), 3: '<< /Type /Page /Parent 2 0 R /Resources << /ExtGState 1 0 R >> >>' }),
    /its catalog is also a part of another object/,
  ],
  'a catalog that is a stream': [
    pdfFile({ ...onePage(), 1: drawing('/Type /Catalog /Pages 2 0 R') }),
    /its catalog is not a dictionary/,
  ],
  'names that are also drawn': [
    pdfFile({ ...alsoShowing('5 0 R', '/Names 5 0 R'), 5: drawing('') }),
    /its \/Names is not a dictionary/,
  ],
  'a tree of names that is also drawn': [
    pdfFile({ ...alsoShowing('5 0 R', '/Names << /EmbeddedFiles 5 0 R >>'), 5: drawing('') }),
    /its \/EmbeddedFiles is not a dictionary/,
  ],
  'associated files that are the size of the page': [
    pdfFile({ ...onePage('/AF 5 0 R', '/CropBox 5 0 R'), 5: '[0 0 200 200]' }),
    /attached files is not a dictionary/,
  ],
  'an associated file that is drawn': [
    pdfFile({ ...alsoShowing('5 0 R', '/AF [5 0 R]'), 5: drawing('/Type /Filespec') }),
    /attached files is not a dictionary/,
  ],
  'an attached file that is something else': [
    pdfFile(onePage('/Names << /EmbeddedFiles << /Names [(a) 3 0 R] >> >>')),
    /not the specification of a file/,
  ],
  certified: [
    pdfFile({ ...onePage('/Perms << /DocMDP 5 0 R >>'), 5: '<< /Type /Sig >>' }),
    /^it is certified/,
  ],
  'certified in a field': [
    pdfFile({
      ...onePage('/AcroForm << /Fields [5 0 R] >>'),
      5: `<< /FT /Sig /V << ${signature} /Reference [<< /TransformMethod 6 0 R >>] >> >>`,
      6: '/DocMDP',
    }),
    /^it is certified/,
  ],
  'certified in a field that no form names': [
    pdfFile({
      ...onePage('', '/Annots [5 0 R]'),
      5: `<< /Subtype /Widget /FT /Sig /V << ${signature} /Reference [<< /TransformMethod /DocMDP >>] >> >>`,
    }),
    /^it is certified/,
  ],
  'usage rights': [pdfFile(onePage('/Perms << /UR3 << /Type /Sig >> >>')), /usage rights/],
  locked: [
    pdfFile({
      ...onePage('/AcroForm << /Fields [<< /FT /Sig /V << >> /Kids [5 0 R] >>] >>'),
      5: '<< /Lock 6 0 R >>',
      6: '<< /Action /All /P 2 >>',
    }),
    /signature field locks the document/,
  ],
  XFA: [pdfFile(onePage('/AcroForm << /XFA [] /Fields [] >>')), /XFA/],
  'a portfolio': [pdfFile(onePage('/Collection << /D (pdfseal-receipt.json) >>')), /portfolio/],
  'PDF/A-1': [
    pdfFile({ ...onePage('/Metadata 5 0 R'), 5: pdfaMetadata('<pdfaid:part>1</pdfaid:part>') }),
    /PDF\/A-1/,
  ],
  'PDF/A-1 and part 3 of something else': [
    pdfFile({
      ...onePage('/Metadata 5 0 R'),
      5: pdfaMetadata('<r x:part="3"/><pdfaid:part>1</pdfaid:part>'),
    }),
    /PDF\/A-1/,
  ],
  'PDF/A-2': [
    pdfFile({ ...onePage('/Metadata 5 0 R'), 5: pdfaMetadata("<r pdfaid:part='2'/>") }),
    /PDF\/A-2/,
  ],
  'PDF/A-4': [
    pdfFile({ ...onePage('/Metadata 5 0 R'), 5: pdfaMetadata('<r pdfaid:part="4"/>') }),
    /PDF\/A-4/,
  ],
  'PDF/A in a way that is not known': [
    pdfFile({ ...onePage('/Metadata 5 0 R'), 5: pdfaMetadata('<pdfaid:part><b/>3</pdfaid:part>') }),
    /PDF\/A/,
  ],
  'names out of order': [
    pdfFile({ ...onePage('/Names << /EmbeddedFiles << /Names [(b) 9 0 R (a) 9 0 R] >> >>'), ...OTHER }),
    /not sorted/,
  ],
  'a tree without limits': [
    pdfFile({
      ...onePage('/Names << /EmbeddedFiles << /Kids [6 0 R] >> >>'),
      ...OTHER,
      6: '<< /Names [(a) 9 0 R] >>',
    }),
    /tree of its attached files has limits/,
  ],
  'a circle in a tree': [
    pdfFile({
      ...onePage('/Names << /EmbeddedFiles << /Kids [6 0 R] >> >>'),
      6: '<< /Limits [(a) (a)] /Kids [6 0 R] >>',
    }),
    /tree of its attached files is damaged/,
  ],
  'as many receipts as possible': [
    pdfFile({
      ...onePage('/Names << /EmbeddedFiles << /Names [(pdfseal-receipt-999999.json) 9 0 R] >> >>'),
      ...OTHER,
    }),
    /as many receipts/,
  ],
  'a circle of revisions': [
    changed(plain, /(xref\n[\s\S]*trailer\n<<)([\s\S]*startxref\n)(\d+)/, '$1 /Prev $3 $2$3'),
    /circle/,
  ],
  'a circle of references': [pdfFile({ ...onePage('/Names 5 0 R'), 5: '6 0 R', 6: '5 0 R' }), /circle/],
  'nested deeply': [pdfFile({ ...onePage(), 5: nested(200) }), /^object 5 has more parts/],
  'a catalog that is too large': [
    pdfFile(onePage(`/X (${'x'.repeat(70_000)})`)),
    /too large to be written again/,
  ],
} satisfies Record<string, [document: Buffer, why: RegExp]>;
