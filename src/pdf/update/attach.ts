/**
 * Plans the revision that attaches a receipt to a document, `pdfseal-suffix/1`: an associated file of the catalog (ISO 32000-2, 14.13) and
 * an entry of its tree of attached files (7.7.4). The same document and receipt give the same bytes, for as long as there are verifiers:
 * another form gets another name.
 */
import type { ByteSource } from '../window.ts';
import { attachedNames, limitsOf, placeIn } from './nameTree.ts';
import { NotSealable } from './notSealable.ts';
import { openPdf, type PdfFile, type ResolvedOf } from './pdfFile.ts';
import { Revision } from './revision.ts';
import { sealableCatalog } from './sealable.ts';

export interface Attachment {
  /** The exact bytes of the receipt. */
  receipt: Uint8Array;
  /** When the document was sealed, in milliseconds since the epoch. */
  sealedAt: number;
}

const NAME = 'pdfseal-receipt';
const DESCRIPTION = 'Receipt of the seal. Verify with: pdfseal verify, or the verification page.';
const TREE = 'the tree of its attached files';

/** The bytes to append to the document. Reads few of its bytes. Throws NotSealable. */
export async function planAttachment(
  document: ByteSource,
  { receipt, sealedAt }: Attachment,
): Promise<Buffer> {
  const file = await openPdf(document);
  const catalog = await sealableCatalog(file);
  const { names, tree } = await treeOf(file, catalog);
  const taken = new Set(tree ? await attachedNames(file, tree) : []);
  const name = unusedName(taken);
  const revision = new Revision(file);
  const embedded = revision.add(
    `<< /Type /EmbeddedFile /Subtype /application#2Fjson /Params << /Size ${receipt.length} /ModDate (${dateOf(sealedAt)}) >> /Length ${receipt.length} >>\nstream\n`,
    receipt,
    '\nendstream',
  );
  const specification = revision.add(
    `<< /Type /Filespec /F (${name}) /UF (${name}) /AFRelationship /Supplement /Desc (${DESCRIPTION}) /EF << /F ${embedded} /UF ${embedded} >> >>`,
  );
  await associate(file, revision, catalog, specification);
  const entry = `(${name}) ${specification}`;
  if (names === undefined)
    revision.append(catalog.object, catalog.node, `/Names << /EmbeddedFiles << /Names [${entry}] >> >>`);
  else if (tree === undefined)
    revision.append(names.object, names.node, `/EmbeddedFiles << /Names [${entry}] >>`);
  else await enter(file, revision, { tree, name, entry });
  return revision.bytes();
}

async function treeOf(
  file: PdfFile,
  catalog: ResolvedOf<'dictionary'>,
): Promise<{ names?: ResolvedOf<'dictionary'> | undefined; tree?: ResolvedOf<'dictionary'> | undefined }> {
  const names = await file.entryOf(catalog, 'Names', 'dictionary');
  if (names === undefined && catalog.node.entries.has('Names')) throw new NotSealable('its /Names is null');
  const tree = names && (await file.entryOf(names, 'EmbeddedFiles', 'dictionary'));
  if (tree === undefined && names?.node.entries.has('EmbeddedFiles'))
    throw new NotSealable('its /EmbeddedFiles is null');
  return { names, tree };
}

/** A document that was sealed before keeps its earlier receipts. */
function unusedName(taken: ReadonlySet<string>): string {
  for (let n = 1; ; n += 1) {
    const name = `${NAME}${n === 1 ? '' : `-${n}`}.json`;
    if (!taken.has(name)) return name;
  }
}

/** The place of a name in the row of receipts: the first is 1; undefined for the name of another file. */
export function receiptNumber(name: string): number | undefined {
  const found = /^pdfseal-receipt(?:-([1-9]\d{0,5}))?\.json$/.exec(name);
  return found === null ? undefined : Number(found[1] ?? 1);
}

async function associate(
  file: PdfFile,
  revision: Revision,
  catalog: ResolvedOf<'dictionary'>,
  specification: string,
): Promise<void> {
  const files = await file.entryOf(catalog, 'AF', 'array');
  if (files !== undefined) revision.append(files.object, files.node, specification);
  else if (catalog.node.entries.has('AF')) throw new NotSealable('its /AF is null');
  else revision.append(catalog.object, catalog.node, `/AF [${specification}]`);
}

/** Puts the entry at its place in the tree, and widens the limits that lead there. */
async function enter(
  file: PdfFile,
  revision: Revision,
  { tree, name, entry }: { tree: ResolvedOf<'dictionary'>; name: string; entry: string },
): Promise<void> {
  const place = await placeIn(file, tree, name);
  if (place === undefined) {
    if (tree.node.entries.has('Kids') || tree.node.entries.has('Limits'))
      throw new NotSealable(`${TREE} is damaged`);
    return revision.append(tree.object, tree.node, `/Names [${entry}]`);
  }
  const { names, index, limits } = place;
  const before = names.node.items[index];
  if (before === undefined) revision.append(names.object, names.node, entry);
  else revision.put(names.object, before.start, `${entry} `);
  for (const limit of limits) {
    const [least, greatest] = await limitsOf(file, limit);
    const [first, last] = limit.node.items;
    const changed = name < least ? first : name > greatest ? last : undefined;
    if (changed !== undefined) revision.put(limit.object, changed.start, `(${name})`, changed.end);
  }
}

/** `D:20261128101500Z` (7.9.4). */
function dateOf(ms: number): string {
  return `D:${new Date(ms).toISOString().replaceAll(/[-:T]|\.\d+/g, '')}`;
}
