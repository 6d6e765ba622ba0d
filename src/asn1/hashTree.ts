import { bytesEqual, compareBytes, concatBytes } from '../base/bytes.ts';
import { type DigestName, digestOf } from '../base/crypto.ts';
import { DIGEST_BYTES } from './signatureAlgorithm.ts';

// The hash tree of evidence records (RFC 4998, section 4.2): unlike in the log, leaves and nodes have no distinguishing prefix. Trees made
// here are binary; those of other implementations may have nodes with any number of children.

/** The hash of a node: the hash of its children, concatenated in ascending binary order. */
function parentOf(digest: DigestName, children: readonly Uint8Array[]): Uint8Array {
  return digestOf(digest, concatBytes(children.toSorted(compareBytes)));
}

/** The root of a binary tree over at least one leaf. */
export function treeRoot(digest: DigestName, leaves: readonly Uint8Array[]): Uint8Array {
  const root = treeLevels(digest, leaves).at(-1)?.[0];
  if (root === undefined) throw new RangeError('a hash tree without leaves');
  return root;
}

/** All nodes of a binary tree, from the leaves up to the root. The last node of an odd level moves up unchanged. */
export function treeLevels(digest: DigestName, leaves: readonly Uint8Array[]): TreeLevels {
  const levels = [leaves];
  for (let level = leaves; level.length > 1; levels.push(level)) level = levelAbove(digest, level);
  return levels;
}

export type TreeLevels = readonly (readonly Uint8Array[])[];

/** The siblings from the leaf with that index up to the root; empty for a tree with one leaf. */
export function pathInLevels(levels: TreeLevels, index: number): Uint8Array[] {
  if (levels[0]?.[index] === undefined) throw new RangeError(`a hash tree without a leaf ${index}`);
  return levels.flatMap((level, height) => level[(index >> height) ^ 1] ?? []);
}

function levelAbove(digest: DigestName, level: readonly Uint8Array[]): Uint8Array[] {
  return level.flatMap((left, at) => {
    const right = level[at + 1];
    return at % 2 === 1 ? [] : [right ? parentOf(digest, [left, right]) : left];
  });
}

/**
 * The reduced hash tree of a leaf with these siblings, from the leaf up: its first list contains the leaf too. Undefined without siblings:
 * the leaf is then the root, and an archive time-stamp does not need a tree.
 */
export function reducedTree(leaf: Uint8Array, siblings: readonly Uint8Array[]): Uint8Array[][] | undefined {
  const [first, ...rest] = siblings;
  if (first === undefined) return undefined;
  return [[leaf, first].sort(compareBytes), ...rest.map((sibling) => [sibling])];
}

/**
 * The root that an untrusted reduced hash tree gives for the leaf (RFC 4998, section 4.3, steps 2 and 3). Undefined if its first list lacks
 * the leaf, if a list is empty, or if a hash is not of this hash function. A leaf alone in the first list is its own node, as in other
 * programs and in RFC 6283, section 3.2.1.
 */
export function rootOfReducedTree(
  digest: DigestName,
  reduced: readonly (readonly Uint8Array[])[],
  leaf: Uint8Array,
): Uint8Array | undefined {
  const isHash = ({ length }: Uint8Array) => length === DIGEST_BYTES[digest];
  if (!reduced.every((list) => list.length > 0 && list.every(isHash))) return undefined;
  const [first = [], ...rest] = reduced;
  if (!first.some((hash) => bytesEqual(hash, leaf))) return undefined;
  const start = first.length === 1 ? leaf : parentOf(digest, first);
  return rest.reduce((node, list) => parentOf(digest, [node, ...list]), start);
}
