/**
 * Plans the revision that attaches a receipt to a document: an associated file of the catalog (ISO 32000-2, 14.13) and an entry of its tree
 * of attached files (7.7.4).
 *
 * Only the catalog gets a new definition. What else changes is copied into it, or written as new objects, because an object of the document
 * can serve a second purpose, such as the content of a page.
 */
import { fromUtf8 } from '../../base/bytes.ts';
import { refuseConformance } from './conformance.ts';
import { CERTIFIED, type Examined, examine, RIGHTS } from './examine.ts';
import type { PdfReader } from './fileText.ts';
import { type NameTree, readTree, requireFiles, treeWith, withItem } from './nameTree.ts';
import { NotSealable } from './notSealable.ts';
import { edited, type FoundOf, openPdf, type PdfFile, withEntry } from './pdfFile.ts';
import { OBJECT_NUMBER_MAX } from './strictSyntax.ts';
import { type AttachmentPlan, PLAN_BYTES_MAX, SUFFIX_BYTES_MAX, SUFFIX_FORMAT } from './suffix.ts';

export type { PdfReader } from './fileText.ts';

const DESCRIPTION = 'Receipt of the seal. Verify with: pdfseal verify, or the verification page.';
const METADATA_BYTES_MAX = 4 << 20;
const RECEIPT_NUMBER_MAX = 999_999;
/** What is copied to the end of the file must not redefine anything for a reader that repairs, such as from within a string. */
const OTHER_OBJECT = /[\0\t\n\f\r 0-9]obj|endobj|endstream|trailer|startxref/;
/** What a cross-reference table and a cross-reference stream of ours can say. */
const OFFSET_MAX = { table: 10 ** 10, stream: 2 ** 40 } as const;

/** Reads what must be kept of a document to attach a receipt later. Throws NotSealable if that cannot be done with certainty. */
export async function planAttachment(reader: PdfReader): Promise<AttachmentPlan> {
  const file = await openPdf(reader);
  return planIn(file, await examine(file));
}

/** As {@link planAttachment}, with whether something in the document can see its attachments. */
export async function examineAttachment(
  reader: PdfReader,
): Promise<{ plan: AttachmentPlan; seesAttachments: boolean }> {
  const file = await openPdf(reader);
  const examined = await examine(file);
  return { plan: await planIn(file, examined), seesAttachments: examined.seesAttachments };
}

async function planIn(file: PdfFile, { catalog, free, newest }: Examined): Promise<AttachmentPlan> {
  const { reader } = file.text;
  await refusePurposes(file, catalog);
  if (reader.size > OFFSET_MAX[newest.form] - SUFFIX_BYTES_MAX)
    throw new NotSealable('it is larger than its cross-references can say');
  const objects: string[] = [];
  const add = (text: string) => `${free + objects.push(text)} 0 R`;
  const { names, tree } = await attachedFiles(file, catalog);
  const name = nameAfter(tree);
  const value = add(
    `<< /Type /Filespec /F (${name}) /UF (${name}) /AFRelationship /Supplement /Desc (${DESCRIPTION}) /EF << /F ${free} 0 R /UF ${free} 0 R >> >>`,
  );
  const treeText = tree ? treeWith(tree, name, value, add) : `<< /Names [(${name}) ${value}] >>`;
  const namesText = names
    ? edited(names, [withEntry(names, 'EmbeddedFiles', treeText)])
    : `<< /EmbeddedFiles ${treeText} >>`;
  const associated = await file.entryOf(catalog, 'AF', 'array');
  if (associated) await requireFiles(file, associated);
  const associatedText = associated ? withItem(associated, Infinity, value) : `[${value}]`;
  const { number, generation } = catalog.object;
  const kept = ['Info', 'ID'].flatMap((key) => {
    const node = newest.trailer.get(key);
    return node === undefined ? [] : [`/${key} ${newest.text.slice(node.start, node.end)} `];
  });
  const plan: AttachmentPlan = {
    format: SUFFIX_FORMAT,
    bytes: reader.size,
    name,
    lead: await missingLineEnd(file),
    catalog: {
      number,
      generation,
      text: edited(catalog, [
        withEntry(catalog, 'Names', namesText),
        withEntry(catalog, 'AF', associatedText),
      ]),
    },
    first: free,
    objects,
    section: newest.form,
    trailer: `/Root ${number} ${generation} R ${kept.join('')}/Prev ${newest.at}`,
  };
  if ([plan.catalog.text, ...objects, plan.trailer].some((text) => OTHER_OBJECT.test(text)))
    throw new NotSealable('its catalog, or its list of attached files, quotes other objects', number);
  if (free + objects.length + 1 > OBJECT_NUMBER_MAX)
    throw new NotSealable('it has as many objects as a document can have');
  if (fromUtf8(JSON.stringify(plan)).length > PLAN_BYTES_MAX)
    throw new NotSealable(
      'its catalog, or its list of attached files, is too large to be written again',
      number,
    );
  return plan;
}

/** What an attached file would break, or what would break it. */
async function refusePurposes(file: PdfFile, catalog: FoundOf<'dictionary'>): Promise<void> {
  const { number } = catalog.object;
  const rights = await file.entryOf(catalog, 'Perms', 'dictionary');
  if (rights?.node.entries.has('DocMDP')) throw new NotSealable(CERTIFIED, number);
  if (rights?.node.entries.has('UR') || rights?.node.entries.has('UR3'))
    throw new NotSealable(RIGHTS, number);
  const form = await file.entryOf(catalog, 'AcroForm', 'dictionary');
  if (form?.node.entries.has('XFA'))
    throw new NotSealable('it is an XFA form, whose data an update can contradict', form.object.number);
  if (await file.entry(catalog, 'Collection'))
    throw new NotSealable('it is a portfolio, in which a receipt would be one of the documents', number);
  const metadata = await file.entry(catalog, 'Metadata');
  // What is not a stream is not metadata, such as what remains of it in a copy without metadata.
  if (metadata?.object.data === undefined) return;
  const xmp = await file.data(metadata.object);
  if (xmp.length > METADATA_BYTES_MAX)
    throw new NotSealable('its metadata is larger than any needs to be', metadata.object.number);
  refuseConformance(xmp, metadata.object.number);
}

async function attachedFiles(file: PdfFile, catalog: FoundOf<'dictionary'>) {
  const names = await file.entryOf(catalog, 'Names', 'dictionary');
  const root = names && (await file.entryOf(names, 'EmbeddedFiles', 'dictionary'));
  return { names, tree: root && (await readTree(file, root)) };
}

/** A document that was sealed before keeps its earlier receipts. */
function nameAfter(tree: NameTree | undefined): string {
  let highest = 0;
  for (const { bytes } of tree?.names ?? []) {
    const found = /^pdfseal-receipt(?:-([1-9]\d{0,5}))?\.json$/.exec(bytes);
    if (found !== null) highest = Math.max(highest, Number(found[1] ?? 1));
  }
  if (highest === RECEIPT_NUMBER_MAX) throw new NotSealable('it has as many receipts as a document can have');
  return highest === 0 ? 'pdfseal-receipt.json' : `pdfseal-receipt-${highest + 1}.json`;
}

async function missingLineEnd({ text }: PdfFile): Promise<'' | '\n'> {
  const [last] = await text.bytes(text.reader.size - 1, 1, 'its end');
  return last === 0x0a || last === 0x0d ? '' : '\n';
}
