/** Where a name belongs in a tree of names, which is sorted by its bytes (ISO 32000-2, 7.9.6). */
import { NotSealable } from './notSealable.ts';
import { type PdfFile, type ResolvedOf, requireKind } from './pdfFile.ts';

/** The place of a new name: the array of its leaf, and the item before which it goes. */
export interface NamePlace {
  names: ResolvedOf<'array'>;
  index: number;
  /** The limits on the way from the root, which have to include it. */
  limits: ResolvedOf<'array'>[];
}

const DEPTH_MAX = 32;
const NAMES_MAX = 100_000;

/** The names of the tree, sorted. Throws NotSealable unless it is in order. */
export async function attachedNames(file: PdfFile, root: ResolvedOf<'dictionary'>): Promise<string[]> {
  const names: string[] = [];
  for await (const leaf of leaves(file, root)) {
    names.push(...(await namesOf(file, leaf)));
    if (names.length > NAMES_MAX) throw new NotSealable('it has more attached files than any document needs');
  }
  if (names.some((name, n) => n > 0 && name <= (names[n - 1] ?? '')))
    throw new NotSealable('the names of its attached files are not sorted');
  return names;
}

/** The arrays of names and values, in order. */
export async function* leaves(
  file: PdfFile,
  node: ResolvedOf<'dictionary'>,
  depth = DEPTH_MAX,
): AsyncIterable<ResolvedOf<'array'>> {
  if (depth === 0) throw new NotSealable('the tree of its attached files is too deep');
  const kids = await file.entryOf(node, 'Kids', 'array');
  const names = await file.entryOf(node, 'Names', 'array');
  if (kids && names) throw new NotSealable('the tree of its attached files is damaged');
  if (names) yield names;
  if (kids)
    for await (const kid of file.items(kids)) {
      if (kid === undefined) throw new NotSealable('the tree of its attached files is damaged');
      yield* leaves(file, requireKind(kid, 'dictionary', 'the tree of its attached files'), depth - 1);
    }
}

/** The names of a leaf. */
export async function namesOf(file: PdfFile, { object, node }: ResolvedOf<'array'>): Promise<string[]> {
  if (node.items.length % 2 !== 0) throw new NotSealable('the tree of its attached files is damaged');
  const names: string[] = [];
  for (let n = 0; n < node.items.length; n += 2) {
    const found = await file.follow({ object, node: node.items[n] ?? node });
    names.push(file.text(requireKind(found ?? { object, node }, 'string', 'a name of its attached files')));
  }
  return names;
}

/** The place of a name that the tree does not have. The tree must be in order; undefined if it is empty. */
export async function placeIn(
  file: PdfFile,
  root: ResolvedOf<'dictionary'>,
  name: string,
): Promise<NamePlace | undefined> {
  const limits: ResolvedOf<'array'>[] = [];
  for (let node = root; ; ) {
    const names = await file.entryOf(node, 'Names', 'array');
    if (names !== undefined) {
      const before = await namesOf(file, names);
      const at = before.findIndex((one) => one > name);
      return { names, index: 2 * (at < 0 ? before.length : at), limits };
    }
    const kids = await file.entryOf(node, 'Kids', 'array');
    if (kids === undefined || kids.node.items.length === 0) return undefined;
    let next: ResolvedOf<'dictionary'> | undefined;
    let limit: ResolvedOf<'array'> | undefined;
    for await (const found of file.items(kids)) {
      next = requireKind(found ?? kids, 'dictionary', 'the tree of its attached files');
      limit = await file.entryOf(next, 'Limits', 'array');
      if (limit === undefined || limit.node.items.length !== 2)
        throw new NotSealable('the tree of its attached files is damaged');
      const [, upper] = await limitsOf(file, limit);
      if (name <= upper) break;
    }
    if (next === undefined || limit === undefined) return undefined;
    limits.push(limit);
    node = next;
  }
}

/** The least and the greatest name. */
export async function limitsOf(
  file: PdfFile,
  { object, node }: ResolvedOf<'array'>,
): Promise<[string, string]> {
  const [least = '', greatest = ''] = await namesOf(file, {
    object,
    node: { ...node, items: node.items.flatMap((item) => [item, item]) },
  });
  return [least, greatest];
}
