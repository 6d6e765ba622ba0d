import { deflateSync } from 'node:zlib';

/** A real PDF of one page with that text. */
export async function makePdf(text: string): Promise<Uint8Array> {
  // Half a second to load, which most of those who come here can do without.
  const { PDFDocument, StandardFonts } = await import('pdf-lib');
  const pdf = await PDFDocument.create();
  const font = await pdf.embedFont(StandardFonts.Helvetica);
  pdf.addPage().drawText(text, { x: 50, y: 750, size: 18, font });
  return pdf.save();
}

/** ISO 32000-1, 7.6: a PDF without pages, under a password nobody knows. */
export function encryptedPdf(): Buffer {
  const [owner, user] = ['5a'.repeat(32), 'a5'.repeat(32)];
  return Buffer.from(`%PDF-1.5
1 0 obj
<< /Type /Catalog /Pages 2 0 R >>
endobj
2 0 obj
<< /Type /Pages /Kids [] /Count 0 >>
endobj
3 0 obj
<< /Filter /Standard /V 2 /R 3 /Length 128 /O <${owner}> /U <${user}> /P -44 >>
endobj
trailer
<< /Size 4 /Root 1 0 R /Encrypt 3 0 R /ID [<0102> <0102>] >>
startxref
0
%%EOF
`);
}

export const PACKET = Buffer.from(`<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:source>a secret</dc:source></rdf:Description>
</rdf:RDF></x:xmpmeta>
${' '.repeat(100)}
<?xpacket end="w"?>`);

/** Objects by their number; what a number has is put between `obj` and `endobj`. */
export type Objects = Record<number, Buffer | string>;

/** A stream with these entries in its dictionary, `/Length` among them unless `length` says something else. */
export function stream(entries: string, data: Buffer, length: number | string = data.length): Buffer {
  return Buffer.concat([
    Buffer.from(`<< ${entries} /Length ${length} >>\nstream\n`),
    data,
    Buffer.from('\nendstream'),
  ]);
}

/** A metadata stream of the packet, encoded as `filters` says. */
export function metadata(
  filters = '',
  data: Buffer = PACKET,
  entries = '/Type /Metadata /Subtype /XML',
): Buffer {
  return stream(`${entries} ${filters}`, data);
}

/** An object stream of objects that are no streams. */
export function objectStream(objects: Record<number, string>, { compressed = true } = {}): Buffer {
  let [header, body] = ['', ''];
  for (const [number, text] of Object.entries(objects)) {
    header += `${number} ${body.length} `;
    body += `${text} `;
  }
  const entries = `/Type /ObjStm /N ${Object.keys(objects).length} /First ${header.length}`;
  return packed(entries, Buffer.from(header + body), compressed);
}

function packed(entries: string, data: Buffer, compressed: boolean): Buffer {
  return compressed ? stream(`${entries} /Filter /FlateDecode`, deflateSync(data)) : stream(entries, data);
}

/** A page that shows some text, and what it takes: objects 1 to 4, with entries added to the catalog and the page. */
export function onePage(catalog = '', page = ''): Objects {
  return {
    1: `<< /Type /Catalog /Pages 2 0 R ${catalog} >>`,
    2: '<< /Type /Pages /Kids [3 0 R] /Count 1 >>',
    3: `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /Contents 4 0 R /Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> ${page} >>`,
    4: stream('', Buffer.from('BT /F1 24 Tf 20 100 Td (Hello) Tj ET 10 10 50 20 re f')),
  };
}

/** A file of these objects with a cross-reference table. */
export function pdfFile(objects: Objects, trailer = ''): Buffer {
  return appendRevision(Buffer.from('%PDF-1.7\n%\xe2\xe3\xcf\xd3\n', 'latin1'), objects, trailer);
}

/** The same file with an incremental update (ISO 32000-2, 7.5.6). */
export function appendRevision(file: Buffer, objects: Objects, trailer = ''): Buffer {
  const pieces = [file];
  let position = file.length;
  const add = (piece: Buffer | string) => {
    const bytes = Buffer.from(piece);
    pieces.push(bytes);
    position += bytes.length;
  };
  const offsets: [number, number][] = [];
  for (const [number, content] of Object.entries(objects)) {
    offsets.push([Number(number), position]);
    add(`${number} 0 obj\n`);
    add(content);
    add('\nendobj\n');
  }
  const previous = /startxref\s+(\d+)\s+%%EOF\s*$/.exec(file.toString('latin1'))?.[1];
  const xref = position;
  add('xref\n0 1\n0000000000 65535 f \n');
  for (const [number, offset] of offsets) add(`${number} 1\n${String(offset).padStart(10, '0')} 00000 n \n`);
  const size = Math.max(...offsets.map(([number]) => number), 20) + 1;
  const prev = previous === undefined ? '' : ` /Prev ${previous}`;
  add(`trailer\n<< /Size ${size} /Root 1 0 R${prev} ${trailer} >>\nstartxref\n${xref}\n%%EOF\n`);
  return Buffer.concat(pieces);
}

/** A file with a cross-reference stream, and the packed objects in an object stream. */
export function packedFile(
  plain: Objects,
  others: Record<number, string>,
  { trailer = '', compressed = true } = {},
): Buffer {
  const size = Math.max(...Object.keys({ ...plain, ...others }).map(Number)) + 1;
  const pieces = [Buffer.from('%PDF-1.7\n%\xe2\xe3\xcf\xd3\n', 'latin1')];
  const rows = new Map<number, [type: number, place: number, rest: number]>([[0, [0, 0, 65535]]]);
  const end = () => pieces.reduce((sum, { length }) => sum + length, 0);
  for (const [number, content] of Object.entries({
    ...plain,
    [size]: objectStream(others, { compressed }),
  })) {
    rows.set(Number(number), [1, end(), 0]);
    pieces.push(Buffer.from(`${number} 0 obj\n`), Buffer.from(content), Buffer.from('\nendobj\n'));
  }
  for (const [index, number] of Object.keys(others).entries()) rows.set(Number(number), [2, size, index]);
  const xref = end();
  rows.set(size + 1, [1, xref, 0]);
  const table = Array.from({ length: size + 2 }, (_, number) => {
    const [type, place, rest] = rows.get(number) ?? [0, 0, 0];
    const row = Buffer.alloc(7);
    row.writeUInt8(type);
    row.writeUInt32BE(place, 1);
    row.writeUInt16BE(rest, 5);
    return row;
  });
  const entries = `/Type /XRef /W [1 4 2] /Size ${size + 2} /Root 1 0 R ${trailer}`;
  const section = packed(entries, Buffer.concat(table), compressed);
  return Buffer.concat([
    ...pieces,
    Buffer.from(`${size + 1} 0 obj\n`),
    section,
    Buffer.from(`\nendobj\nstartxref\n${xref}\n%%EOF\n`),
  ]);
}

/** Small, and seconds of work to look through; without XMP. */
export const LABORIOUS = (() => {
  const bomb = deflateSync(deflateSync(Buffer.alloc(1 << 25)));
  const streams = Array.from({ length: 4 }, (_, i) => [i + 1, stream('/Filter [/Fl /Fl]', bomb)] as const);
  return pdfFile(Object.fromEntries(streams));
})();

/** A JPEG of 8 by 8 grey pixels, with these segments behind its start. */
export function jpeg(...segments: { marker: number; data: Buffer }[]): Buffer {
  const encoded = segments.map(({ marker, data }) =>
    Buffer.concat([Buffer.of(0xff, marker, (data.length + 2) >> 8, (data.length + 2) & 255), data]),
  );
  return Buffer.concat([Buffer.of(0xff, 0xd8), ...encoded, GREY_PIXELS]);
}

/** Quantization, frame, Huffman tables of one code each, scan, end. */
const GREY_PIXELS = Buffer.concat([
  Buffer.from('ffdb004300', 'hex'),
  Buffer.alloc(64, 1),
  Buffer.from('ffc0000b080008000801011100', 'hex'),
  Buffer.from(`ffc40014${'00'}01${'00'.repeat(15)}00`, 'hex'),
  Buffer.from(`ffc40014${'10'}01${'00'.repeat(15)}00`, 'hex'),
  Buffer.from('ffda0008010100003f003fffd9', 'hex'),
]);

export const XMP_SEGMENT = {
  marker: 0xe1,
  data: Buffer.concat([Buffer.from('http://ns.adobe.com/xap/1.0/\0'), PACKET]),
};
export const EXIF_SEGMENT = { marker: 0xe1, data: Buffer.from('Exif\0\0MM\0*\0\0\0\b\0\0\0\0\0\0') };

/** An image that the page shows. */
export function image(filter: string, data: Buffer, entries = ''): Buffer {
  return stream(
    `/Type /XObject /Subtype /Image /Width 8 /Height 8 /ColorSpace /DeviceGray /BitsPerComponent 8 /Filter ${filter} ${entries}`,
    data,
  );
}
