/** What forbids a further revision of a document, or would be broken by it. */
import { isNamed, numbersOf } from './crossReferences.ts';
import { NotSealable } from './notSealable.ts';
import { type PdfFile, type ResolvedOf, requireKind } from './pdfFile.ts';

/** More fields than any form has. */
const FIELDS_MAX = 50_000;

/** Returns the catalog of a document to which a file can be attached. Throws NotSealable, which says why not. */
export async function sealableCatalog(file: PdfFile): Promise<ResolvedOf<'dictionary'>> {
  const { trailer } = file;
  if (trailer.has('Encrypt')) throw new NotSealable('it is encrypted');
  const root = trailer.get('Root');
  const object = root?.kind === 'reference' ? await file.object(root) : undefined;
  if (object === undefined) throw new NotSealable('it has no catalog');
  const catalog = requireKind({ object, node: object.value }, 'dictionary', 'its catalog');
  if (!isNamed(catalog.node.entries.get('Type'), 'Catalog')) throw new NotSealable('it has no catalog');
  const pages = await file.entryOf(catalog, 'Pages', 'dictionary');
  if (pages === undefined || !isNamed(pages.node.entries.get('Type'), 'Pages'))
    throw new NotSealable('it has no tree of pages');
  await refuseRights(file, catalog);
  await refuseForms(file, catalog);
  await refuseConformance(file, catalog);
  return catalog;
}

/** A certifying signature, and rights that a vendor's signature gives (12.8.2 and 12.8.6). */
async function refuseRights(file: PdfFile, catalog: ResolvedOf<'dictionary'>): Promise<void> {
  const rights = await file.entryOf(catalog, 'Perms', 'dictionary');
  if (rights?.node.entries.has('DocMDP'))
    throw new NotSealable('it is certified, and a certified document may forbid attachments');
  if (rights?.node.entries.has('UR3') || rights?.node.entries.has('UR'))
    throw new NotSealable('it has usage rights, which any change ends');
}

async function refuseForms(file: PdfFile, catalog: ResolvedOf<'dictionary'>): Promise<void> {
  const form = await file.entryOf(catalog, 'AcroForm', 'dictionary');
  if (form === undefined) return;
  if (form.node.entries.has('XFA'))
    throw new NotSealable('it is an XFA form, whose data an update can contradict');
  const fields = await file.entryOf(form, 'Fields', 'array');
  const waiting = fields ? [fields] : [];
  let seen = 0;
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    for await (const found of file.items(next)) {
      seen += 1;
      if (seen > FIELDS_MAX) throw new NotSealable('its form has more fields than any form needs');
      if (found === undefined) continue;
      const field = requireKind(found, 'dictionary', 'a field of its form');
      await refuseLock(file, field);
      const kids = await file.entryOf(field, 'Kids', 'array');
      if (kids !== undefined) waiting.push(kids);
    }
  }
}

/** A signed field can forbid every later change (12.7.5.5), and its signature can certify the document. */
async function refuseLock(file: PdfFile, field: ResolvedOf<'dictionary'>): Promise<void> {
  const signature = await file.entry(field, 'V');
  if (signature?.node.kind !== 'dictionary') return;
  const lock = await file.entryOf(field, 'Lock', 'dictionary');
  if (lock !== undefined && numbersOf((await file.entry(lock, 'P'))?.node)?.[0] === 1)
    throw new NotSealable(`the signature field of object ${field.object.number} locks the document`);
  const references = await file.entryOf(
    { object: signature.object, node: signature.node },
    'Reference',
    'array',
  );
  if (references === undefined) return;
  for await (const found of file.items(references)) {
    if (found?.node.kind === 'dictionary' && isNamed(found.node.entries.get('TransformMethod'), 'DocMDP'))
      throw new NotSealable('it is certified, and a certified document may forbid attachments');
  }
}

const PDFA = 'http://www.aiim.org/pdfa/ns/id/';

/** PDF/A-1 and -2 allow no attached file that is not PDF/A, and PDF/A-4 none without its level f (ISO 19005-1 to -4). */
async function refuseConformance(file: PdfFile, catalog: ResolvedOf<'dictionary'>): Promise<void> {
  const metadata = await file.entryOf(catalog, 'Metadata', 'dictionary');
  if (metadata === undefined) return;
  const xmp = decodeXmp(await file.data(metadata));
  if (!xmp.includes(PDFA)) return;
  const part = valueIn(xmp, PART);
  const level = valueIn(xmp, CONFORMANCE)?.toUpperCase();
  // Without a part it only describes the vocabulary.
  if (part === undefined || part === '3' || (part === '4' && level === 'F')) return;
  throw new NotSealable(
    `it says that it is PDF/A-${part}, which allows no attached receipt; PDF/A-3 and PDF/A-4f do`,
  );
}

function decodeXmp(data: Buffer): string {
  const [first, second] = data;
  if (first === 0xfe && second === 0xff)
    return data
      .subarray(0, data.length & ~1)
      .swap16()
      .toString('utf16le');
  return data.toString(first === 0xff && second === 0xfe ? 'utf16le' : 'utf8');
}

/** Each property as an attribute or as an element, under any prefix. */
const PART = [/:part\s*=\s*["']\s*(\d{1,2})\s*["']/, /:part\s*>\s*(\d{1,2})\s*</];
const CONFORMANCE = [/:conformance\s*=\s*["']\s*([A-Za-z])\s*["']/, /:conformance\s*>\s*([A-Za-z])\s*</];

function valueIn(xmp: string, forms: readonly RegExp[]): string | undefined {
  return forms.map((form) => form.exec(xmp)?.[1]).find((value) => value !== undefined);
}
