/**
 * PDF/A-3 and Factur-X: a document that carries its invoice as XML keeps it, byte for byte, and the receipt obeys the same rules of structure
 * (ISO 19005-3, 6.1 and 6.8; Factur-X 1.0, 6.2). pdf-lib reads the files.
 */
import { deflateSync } from 'node:zlib';
import {
  decodePDFRawStream,
  PDFArray,
  PDFDict,
  PDFDocument,
  PDFHexString,
  PDFName,
  PDFNumber,
  PDFRawStream,
  PDFString,
} from 'pdf-lib';
import t, { type Test } from 'tap';
import { readerOf } from '../../src/pdf/sourceReader.ts';
import { planAttachment } from '../../src/pdf/update/attach.ts';
import { suffixOf } from '../../src/pdf/update/suffix.ts';
import { bufferSource } from '../../src/pdf/window.ts';
import { appendRevision, onePage, packedFile, pdfFile, stream } from '../support/pdf.ts';
import { pdfaMetadata } from '../support/sealable.ts';

const RECEIPT = Buffer.from('{"receipt":"ü"}\n');
const XML = Buffer.from(
  '<?xml version="1.0"?>\r\n<rsm:CrossIndustryInvoice>Müller\0endstream</rsm:CrossIndustryInvoice>',
);
const ID = '/ID [<0123456789ABCDEF0123456789ABCDEF> <0123456789ABCDEF0123456789ABCDEF>]';
const FACTUR_X = `<pdfaid:part>3</pdfaid:part><pdfaid:conformance>B</pdfaid:conformance>
<fx:DocumentType>INVOICE</fx:DocumentType><fx:DocumentFileName>factur-x.xml</fx:DocumentFileName>`;

interface Invoice {
  name?: string;
  /** The catalog's entries about the files; object 9 is the specification of the invoice. */
  catalog?: string;
  compressed?: boolean;
}

/** The objects of a page with an invoice. */
function invoice({
  name = 'factur-x.xml',
  catalog = `/AF [9 0 R] /Names << /EmbeddedFiles << /Names [(${name}) 9 0 R] >> >>`,
  compressed = false,
}: Invoice = {}) {
  const entries = `/Type /EmbeddedFile /Subtype /text#2Fxml /Params << /Size ${XML.length} /ModDate (D:20261101090000+01'00') >>`;
  return {
    ...onePage(`/Metadata 5 0 R /OutputIntents [6 0 R] ${catalog}`),
    5: pdfaMetadata(FACTUR_X),
    6: '<< /Type /OutputIntent /S /GTS_PDFA1 /OutputConditionIdentifier (sRGB) /DestOutputProfile 7 0 R >>',
    7: stream('/N 3', Buffer.alloc(128)),
    8: compressed ? stream(`${entries} /Filter /FlateDecode`, deflateSync(XML)) : stream(entries, XML),
    9: `<< /Type /Filespec /F (${name}) /UF (${name}) /AFRelationship /Alternative /Desc (Invoice) /EF << /F 8 0 R /UF 8 0 R >> >>`,
  };
}

const { 9: specification, ...others } = invoice({ compressed: true });

const INVOICES: Record<string, Buffer> = {
  'a table': pdfFile(invoice(), ID),
  'compressed XML': pdfFile(invoice({ compressed: true }), ID),
  'an object stream': packedFile(others, { 9: specification }, { trailer: ID }),
  'ZUGFeRD, whose name comes after that of the receipt': pdfFile(
    invoice({ name: 'zugferd-invoice.xml' }),
    ID,
  ),
  'lists in objects of their own': pdfFile(
    {
      ...invoice({ catalog: '/AF 10 0 R /Names 11 0 R' }),
      10: '[9 0 R]',
      11: '<< /EmbeddedFiles 12 0 R >>',
      12: '<< /Kids [13 0 R] >>',
      13: '<< /Limits [(factur-x.xml) (factur-x.xml)] /Names [(factur-x.xml) 9 0 R] >>',
    },
    ID,
  ),
  'a revision that added the invoice': appendRevision(pdfFile(onePage(), ID), invoice(), ID),
};

const nameOf = (value: unknown): string =>
  value instanceof PDFString || value instanceof PDFHexString ? value.decodeText() : '';

/** Names and specifications below a node of a tree of names. */
function leaves(node: PDFDict): [name: string, value: PDFDict][] {
  const kids = node.lookupMaybe(PDFName.of('Kids'), PDFArray);
  if (kids) return Array.from({ length: kids.size() }, (_, n) => leaves(kids.lookup(n, PDFDict))).flat();
  const names = node.lookup(PDFName.of('Names'), PDFArray);
  return Array.from({ length: names.size() / 2 }, (_, n) => [
    nameOf(names.lookup(2 * n)),
    names.lookup(2 * n + 1, PDFDict),
  ]);
}

for (const [kind, document] of Object.entries(INVOICES)) {
  t.test(`an invoice keeps its XML, and the receipt obeys PDF/A-3: ${kind}`, async (t) => {
    const once = await seal(document);
    await check(t, document, once, ['pdfseal-receipt.json']);
    await check(t, document, await seal(once), ['pdfseal-receipt-2.json', 'pdfseal-receipt.json']);
  });
}

async function seal(document: Buffer): Promise<Buffer> {
  const plan = await planAttachment(readerOf(bufferSource(document)));
  return Buffer.concat([document, suffixOf(plan, RECEIPT, Date.UTC(2026, 10, 28))]);
}

async function check(t: Test, document: Buffer, sealed: Buffer, receipts: string[]): Promise<void> {
  const pdf = await PDFDocument.load(sealed, { updateMetadata: false, throwOnInvalidObject: true });
  const before = await PDFDocument.load(document, { updateMetadata: false });
  const { catalog } = pdf;
  for (const key of ['Metadata', 'OutputIntents', 'Pages'])
    t.equal(String(catalog.get(PDFName.of(key))), String(before.catalog.get(PDFName.of(key))), key);
  const files = leaves(
    catalog.lookup(PDFName.of('Names'), PDFDict).lookup(PDFName.of('EmbeddedFiles'), PDFDict),
  );
  const names = files.map(([name]) => name);
  t.strictSame(names, names.toSorted(), 'sorted');
  t.strictSame(
    names.filter((name) => name.endsWith('.json')),
    receipts,
  );
  t.equal(names.filter((name) => name.endsWith('.xml')).length, 1);
  const associated = catalog.lookup(PDFName.of('AF'), PDFArray);
  const listed = Array.from({ length: associated.size() }, (_, n) => associated.lookup(n));
  for (const [name, specification] of files) {
    t.ok(listed.includes(specification), `${name} is in /AF`);
    t.equal(specification.lookup(PDFName.of('Type')), PDFName.of('Filespec'));
    for (const key of ['F', 'UF']) t.equal(nameOf(specification.lookup(PDFName.of(key))), name, key);
    const relationship = name.endsWith('.xml') ? 'Alternative' : 'Supplement';
    t.equal(specification.lookup(PDFName.of('AFRelationship')), PDFName.of(relationship));
    const embedded = specification.lookup(PDFName.of('EF'), PDFDict);
    t.equal(embedded.get(PDFName.of('F')), embedded.get(PDFName.of('UF')));
    const file = embedded.lookup(PDFName.of('F'));
    if (!(file instanceof PDFRawStream)) throw new Error(`${name} is not a stream`);
    const content = Buffer.from(decodePDFRawStream(file).decode());
    t.ok(content.equals(name.endsWith('.xml') ? XML : RECEIPT), `${name} is unchanged`);
    const mediaType = name.endsWith('.xml') ? 'text/xml' : 'application/json';
    t.equal(file.dict.lookup(PDFName.of('Type')), PDFName.of('EmbeddedFile'));
    t.equal(file.dict.lookup(PDFName.of('Subtype')), PDFName.of(mediaType));
    const parameters = file.dict.lookup(PDFName.of('Params'), PDFDict);
    t.equal(parameters.lookup(PDFName.of('Size'), PDFNumber).asNumber(), content.length);
    t.match(nameOf(parameters.lookup(PDFName.of('ModDate'))), /^D:\d{14}(Z|\+01'00')$/);
  }
  checkSyntax(t, sealed.subarray(document.length).toString('latin1'));
}

/** ISO 19005-3, 6.1.3 (identifiers of the file), 6.1.4 (the table), 6.1.7.1 (streams), 6.1.9 (objects). */
function checkSyntax(t: Test, suffix: string): void {
  t.match(suffix, ID);
  t.notMatch(suffix, /\/(Encrypt|JavaScript|OpenAction|AA)\b/);
  t.notMatch(suffix, /\/Filter (?!\/ASCIIHexDecode )/);
  const objects = suffix.match(/\bobj\b/g)?.length;
  t.equal(suffix.match(/(?<=^|\n)\d+ \d+ obj\n/g)?.length, objects);
  t.equal(suffix.match(/\nendobj\n/g)?.length, objects);
  const streams = Array.from(
    suffix.matchAll(/\/Length (\d+) [^\n]*>>\nstream\n([\s\S]*?)\nendstream\n/g),
    ([, length, data = '']) => data.length - Number(length),
  );
  t.strictSame(new Set(streams), new Set([0]), 'lengths');
}
