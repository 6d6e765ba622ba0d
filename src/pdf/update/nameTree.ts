/** The tree of attached files, whose names are sorted by their bytes (ISO 32000-2, 7.9.6). */
import { NotSealable } from './notSealable.ts';
import { edited, type FoundOf, type PdfFile, requireKind, stringIn, textOf, withEntry } from './pdfFile.ts';
import { isNamed } from './strictSyntax.ts';

/** A name, as its bytes and as it is written. */
interface Name {
  bytes: string;
  text: string;
}

export interface NameTree {
  node: FoundOf<'dictionary'>;
  /** In a node of others: the array of references to them, and each. */
  kids?: { array: FoundOf<'array'>; trees: NameTree[] };
  /** In a leaf: the array of names and values. */
  leaf?: FoundOf<'array'>;
  /** All names below, sorted. */
  names: Name[];
}

const WHAT = 'the tree of its attached files';
const DEPTH_MAX = 32;
const NAMES_MAX = 20_000;

/** Reads a tree, of which each name must be where a reader that searches it looks. Throws NotSealable. */
export async function readTree(
  file: PdfFile,
  node: FoundOf<'dictionary'>,
  depth = DEPTH_MAX,
  visited = new Set<number>(),
): Promise<NameTree> {
  const refuse = (why: string) => new NotSealable(`${WHAT} ${why}`, node.object.number);
  if (depth === 0) throw refuse('is too deep');
  const kids = await file.entryOf(node, 'Kids', 'array');
  const leaf = await file.entryOf(node, 'Names', 'array');
  const names: Name[] = [];
  const isRoot = depth === DEPTH_MAX;
  if (kids ? leaf || kids.node.items.length === 0 : !leaf && !isRoot) throw refuse('is damaged');
  if (leaf) names.push(...(await namesOf(file, leaf)));
  const trees: NameTree[] = [];
  for (const kid of kids?.node.items ?? []) {
    if (kids === undefined || kid.kind !== 'reference' || visited.has(kid.number)) throw refuse('is damaged');
    visited.add(kid.number);
    const found = await file.follow({ object: kids.object, node: kid });
    if (found === undefined) throw refuse('is damaged');
    const tree = await readTree(file, requireKind(found, 'dictionary', WHAT), depth - 1, visited);
    trees.push(tree);
    for (const name of tree.names) names.push(name);
    if (names.length > NAMES_MAX) throw refuse('has more names than any document needs');
  }
  if (names.some(({ bytes }, n) => n > 0 && bytes <= (names[n - 1]?.bytes ?? '')))
    throw refuse('is not sorted');
  const limits = await file.entryOf(node, 'Limits', 'array');
  if (limits || !isRoot) {
    const [least, greatest] = limits?.node.items.length === 2 ? await strings(file, limits) : [];
    if (least?.bytes !== names[0]?.bytes || greatest?.bytes !== names.at(-1)?.bytes || !least)
      throw refuse('has limits that are not those of its names');
  }
  return { node, names, ...(kids ? { kids: { array: kids, trees } } : {}), ...(leaf ? { leaf } : {}) };
}

/** The names of a leaf, whose values must be files. */
async function namesOf(file: PdfFile, leaf: FoundOf<'array'>): Promise<Name[]> {
  const { object, node } = leaf;
  if (node.items.length % 2 !== 0 || node.items.length > 2 * NAMES_MAX)
    throw new NotSealable(`${WHAT} is damaged`, object.number);
  await requireFiles(file, { object, node: { ...node, items: node.items.filter((_, n) => n % 2 === 1) } });
  return strings(file, { object, node: { ...node, items: node.items.filter((_, n) => n % 2 === 0) } });
}

async function strings(file: PdfFile, { object, node }: FoundOf<'array'>): Promise<Name[]> {
  const names: Name[] = [];
  for (const item of node.items) {
    const found = await file.follow({ object, node: item });
    const string = requireKind(found ?? { object, node }, 'string', 'a name of its attached files');
    names.push({ bytes: stringIn(string), text: textOf(string) });
  }
  return names;
}

/** Each item must be the specification of a file (7.11.3). Throws NotSealable. */
export async function requireFiles(file: PdfFile, { object, node }: FoundOf<'array'>): Promise<void> {
  for (const item of node.items) {
    const found = await file.follow({ object, node: item });
    const what = 'one of its attached files';
    const { entries } = requireKind(found ?? { object, node }, 'dictionary', what).node;
    if (entries.has('Type') ? !isNamed(entries.get('Type'), 'Filespec', 'F') : !entries.has('EF'))
      throw new NotSealable(`${what} is not the specification of a file`, found?.object.number);
  }
}

/**
 * The text of the tree with one more name, which it must not have yet. The nodes on the way to it are written as new objects, through `add`,
 * which returns a reference.
 */
export function treeWith(tree: NameTree, name: string, value: string, add: (text: string) => string): string {
  const { node, kids, leaf, names } = tree;
  const own = `(${name})`;
  const edits = [];
  if (node.node.entries.has('Limits')) {
    const [least, greatest] = [names[0], names.at(-1)];
    const first = least === undefined || name < least.bytes ? own : least.text;
    const last = greatest === undefined || name > greatest.bytes ? own : greatest.text;
    edits.push(withEntry(node, 'Limits', `[${first} ${last}]`));
  }
  const nth = kids?.trees.findIndex((kid) => name < (kid.names.at(-1)?.bytes ?? '')) ?? -1;
  const items = kids?.array.node.items ?? [];
  const [item, kid] = [items.at(nth), kids?.trees.at(nth)];
  if (kids && kid && item) {
    const { start, end } = item;
    const text = add(treeWith(kid, name, value, add));
    edits.push(withEntry(node, 'Kids', edited(kids.array, [{ start, end, text }])));
  } else
    edits.push(
      withEntry(
        node,
        'Names',
        leaf ? withItem(leaf, 2 * before(names, name), `${own} ${value}`) : `[${own} ${value}]`,
      ),
    );
  return edited(node, edits);
}

function before(names: readonly Name[], name: string): number {
  const at = names.findIndex(({ bytes }) => bytes > name);
  return at < 0 ? names.length : at;
}

/** The text of an array with something put before its nth item, or at its end. */
export function withItem(array: FoundOf<'array'>, nth: number, text: string): string {
  const { items, end } = array.node;
  const start = items[nth]?.start ?? end - 1;
  return edited(array, [{ start, end: start, text: items[nth] ? `${text} ` : ` ${text}` }]);
}
