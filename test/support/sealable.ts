/** Documents to which a receipt can be attached, one for each thing that the plan has to find its way through. */
import { metadata, onePage, packedFile, pdfFile, stream } from './pdf.ts';

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
    '/ID [<01> <02>]',
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
    5: '<< /FT /Sig /T (s) /V 6 0 R /Lock << /Action /All /P 2 >> >>',
    6: '<< /Type /Sig /Filter /Adobe.PPKLite /SubFilter /adbe.pkcs7.detached /ByteRange [0 1 2 3] /Contents <00> >>',
  }),
};

/** Documents to which none can, and what is said of them. */
export const NOT_SEALABLE = {
  'not at its beginning': [
    Buffer.concat([Buffer.from('x'), pdfFile(onePage())]),
    /^%PDF- is not its beginning$/,
  ],
  'no end': [pdfFile(onePage()).subarray(0, -8), /last lines/],
  'a wrong offset at the end': [
    Buffer.from(
      pdfFile(onePage())
        .toString('latin1')
        .replace(/startxref\n\d+/, 'startxref\n7'),
      'latin1',
    ),
    /cross-reference/,
  ],
  'a wrong offset of the catalog': [
    Buffer.from(
      pdfFile(onePage())
        .toString('latin1')
        .replace(/00000000(\d\d) 00000 n/, '0000000099 00000 n'),
      'latin1',
    ),
    /^object 1 is (?:damaged|not where)/,
  ],
  encrypted: [pdfFile({ ...onePage(), 5: '<< /Filter /Standard >>' }, '/Encrypt 5 0 R'), /^it is encrypted$/],
  'a key twice': [
    pdfFile({ ...onePage(), 1: '<< /Type /Catalog /Pages 2 0 R /Pages 3 0 R >>' }),
    /^object 1 has \/Pages twice$/,
  ],
  'no pages': [pdfFile({ ...onePage(), 2: '<< >>' }), /tree of pages/],
  certified: [
    pdfFile({ ...onePage('/Perms << /DocMDP 5 0 R >>'), 5: '<< /Type /Sig >>' }),
    /^it is certified/,
  ],
  'certified in a field': [
    pdfFile({
      ...onePage('/AcroForm << /Fields [5 0 R] >>'),
      5: '<< /FT /Sig /V << /Type /Sig /Reference [<< /TransformMethod /DocMDP >>] >> >>',
    }),
    /^it is certified/,
  ],
  'usage rights': [pdfFile(onePage('/Perms << /UR3 << /Type /Sig >> >>')), /usage rights/],
  locked: [
    pdfFile({
      ...onePage('/AcroForm << /Fields [<< /Kids [5 0 R] >>] >>'),
      5: '<< /FT /Sig /V << >> /Lock << /P 1 >> >>',
    }),
    /object 5 locks the document/,
  ],
  'an endless form': [
    pdfFile({ ...onePage('/AcroForm << /Fields [5 0 R] >>'), 5: '<< /Kids [5 0 R] >>' }),
    /more (?:fields|objects)|more objects/,
  ],
  XFA: [pdfFile(onePage('/AcroForm << /XFA [] /Fields [] >>')), /XFA/],
  'PDF/A-1': [
    pdfFile({ ...onePage('/Metadata 5 0 R'), 5: pdfaMetadata('<pdfaid:part>1</pdfaid:part>') }),
    /PDF\/A-1/,
  ],
  'PDF/A-2': [pdfFile({ ...onePage('/Metadata 5 0 R'), 5: pdfaMetadata("<r x:part='2'/>") }), /PDF\/A-2/],
  'PDF/A-4': [
    pdfFile({ ...onePage('/Metadata 5 0 R'), 5: pdfaMetadata('<r pdfaid:part="4"/>') }),
    /PDF\/A-4/,
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
    /tree of its attached files is damaged/,
  ],
  'a circle of revisions': [
    Buffer.from(
      pdfFile(onePage())
        .toString('latin1')
        .replace(/(xref\n[\s\S]*trailer\n<<)([\s\S]*startxref\n)(\d+)/, '$1 /Prev $3 $2$3'),
      'latin1',
    ),
    /circle/,
  ],
} satisfies Record<string, [document: Buffer, why: RegExp]>;
