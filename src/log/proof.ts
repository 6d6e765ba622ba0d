import { assert } from '../base/assert.ts';
import { bytesEqual, concatBytes, fromBase64 } from '../base/bytes.ts';
import { HASH_BYTES, levelWidth, type ReadTile, TILE_WIDTH, tileWidth } from './tiles.ts';
import { type Edge, emptyRoot, merkleRoot, nodeHash } from './tree.ts';

/** Longest possible proof for a tree of 2^63 leaves. A longer one is hostile. */
export const PROOF_HASHES_MAX = 63;

/** Parses a proof: lines of Base64, one hash each; undefined if it is malformed. */
export function parseProof(lines: readonly string[]): Uint8Array[] | undefined {
  const hashes = lines.map(fromBase64).filter((hash) => hash !== undefined);
  const isProof =
    lines.length <= PROOF_HASHES_MAX &&
    hashes.length === lines.length &&
    hashes.every((hash) => hash.length === HASH_BYTES);
  return isProof ? hashes : undefined;
}

/** Leaves `start` (inclusive) to `end` (exclusive), bounded by a split of RFC 6962, section 2.1. */
interface Range {
  start: number;
  end: number;
}

/** Proof that leaf `index` is in the tree of the first `size` leaves (RFC 9162, section 2.1.3.1), from tiles. */
export function inclusionProof(index: number, size: number, readTile: ReadTile): Promise<Uint8Array[]> {
  assert(isCount(size) && isCount(index) && index < size, `no leaf ${index} in a tree of ${size}`);
  const ranges: Range[] = [];
  let { start, end }: Range = { start: 0, end: size };
  while (end - start > 1) {
    const middle = start + splitPoint(end - start);
    ranges.push(index < middle ? { start: middle, end } : { start, end: middle });
    if (index < middle) end = middle;
    else start = middle;
  }
  return hashRanges(ranges.reverse(), size, readTile);
}

/** Proof that the tree of `oldSize` leaves is a prefix of that of `newSize` (RFC 9162, section 2.1.4.1), from tiles. */
export function consistencyProof(
  oldSize: number,
  newSize: number,
  readTile: ReadTile,
): Promise<Uint8Array[]> {
  return hashRanges(consistencyRanges(oldSize, newSize), newSize, readTile);
}

/**
 * The same proof for the tree that results from appending these leaf hashes to `edge`. It needs no tiles: every left sibling is a peak of
 * the edge.
 */
export function growthProof(edge: Edge, leafHashes: readonly Uint8Array[]): Uint8Array[] {
  const peaks = [...edge.peaks];
  return consistencyRanges(edge.size, edge.size + leafHashes.length).map(({ start, end }) => {
    if (start >= edge.size)
      return merkleRoot(concatBytes(leafHashes.slice(start - edge.size, end - edge.size)));
    const peak = peaks.pop();
    assert(peak, 'the edge of the tree has too few peaks');
    return peak;
  });
}

/**
 * The ranges whose hashes form a consistency proof, in its order: the smallest subtree of the old tree, then its siblings up to the root.
 */
function consistencyRanges(oldSize: number, newSize: number): Range[] {
  assert(
    isCount(oldSize) && isCount(newSize) && oldSize <= newSize,
    `${oldSize} leaves are not a prefix of ${newSize}`,
  );
  if (oldSize === 0 || oldSize === newSize) return [];
  const ranges: Range[] = [];
  let { start, end }: Range = { start: 0, end: newSize };
  while (end !== oldSize) {
    const middle = start + splitPoint(end - start);
    ranges.push(oldSize <= middle ? { start: middle, end } : { start, end: middle });
    if (oldSize <= middle) end = middle;
    else start = middle;
  }
  // If the old tree is a complete subtree here, the verifier starts from its root and does not need its hash.
  if (start > 0) ranges.push({ start, end });
  return ranges.reverse();
}

/** Whether the proof connects the leaf hash with the root (RFC 9162, section 2.1.3.2). Any input is safe. */
export function verifyInclusion(
  index: number,
  size: number,
  leafHash: Uint8Array,
  proof: readonly Uint8Array[],
  root: Uint8Array,
): boolean {
  if (!isCount(size) || !isCount(index) || index >= size || !areHashes([leafHash, ...proof, root]))
    return false;
  let fn = index;
  let sn = size - 1;
  let hash: Uint8Array = leafHash;
  for (const sibling of proof) {
    if (sn === 0) return false;
    if (fn % 2 === 1 || fn === sn) {
      hash = nodeHash(sibling, hash);
      while (fn % 2 === 0 && fn !== 0) [fn, sn] = [half(fn), half(sn)];
    } else {
      hash = nodeHash(hash, sibling);
    }
    [fn, sn] = [half(fn), half(sn)];
  }
  return sn === 0 && bytesEqual(hash, root);
}

/** Whether the proof shows that the old tree is a prefix of the new one (RFC 9162, section 2.1.4.2). Any input is safe. */
export function verifyConsistency(
  oldSize: number,
  newSize: number,
  proof: readonly Uint8Array[],
  oldRoot: Uint8Array,
  newRoot: Uint8Array,
): boolean {
  if (!isCount(oldSize) || !isCount(newSize) || oldSize > newSize) return false;
  if (!areHashes([...proof, oldRoot, newRoot])) return false;
  if (oldSize === newSize) return proof.length === 0 && bytesEqual(oldRoot, newRoot);
  if (oldSize === 0) return proof.length === 0 && bytesEqual(oldRoot, emptyRoot);

  // If the old tree is complete, the proof leaves out its root.
  const [first, ...rest] = largestPowerOfTwo(oldSize) === oldSize ? [oldRoot, ...proof] : proof;
  if (first === undefined) return false;
  let fn = oldSize - 1;
  let sn = newSize - 1;
  while (fn % 2 === 1) [fn, sn] = [half(fn), half(sn)];
  let [oldHash, newHash]: [Uint8Array, Uint8Array] = [first, first];
  for (const sibling of rest) {
    if (sn === 0) return false;
    if (fn % 2 === 1 || fn === sn) {
      oldHash = nodeHash(sibling, oldHash);
      newHash = nodeHash(sibling, newHash);
      while (fn % 2 === 0 && fn !== 0) [fn, sn] = [half(fn), half(sn)];
    } else {
      newHash = nodeHash(newHash, sibling);
    }
    [fn, sn] = [half(fn), half(sn)];
  }
  return sn === 0 && bytesEqual(oldHash, oldRoot) && bytesEqual(newHash, newRoot);
}

async function hashRanges(ranges: readonly Range[], size: number, readTile: ReadTile): Promise<Uint8Array[]> {
  const proof: Uint8Array[] = [];
  for (const range of ranges) proof.push(await hashRange(range, size, readTile));
  return proof;
}

/** A range that is not a complete subtree is a row of ever smaller subtrees. They are hashed from the right. */
async function hashRange({ start, end }: Range, size: number, readTile: ReadTile): Promise<Uint8Array> {
  const width = largestPowerOfTwo(end - start);
  const left = await hashSubtree(start, width, size, readTile);
  if (start + width === end) return left;
  return nodeHash(left, await hashRange({ start: start + width, end }, size, readTile));
}

/** Root of the complete subtree of `width` = 2^k leaves from `start`: the hash of 2^(k mod 8) neighbours in one tile. */
async function hashSubtree(
  start: number,
  width: number,
  size: number,
  readTile: ReadTile,
): Promise<Uint8Array> {
  const level = Math.floor(Math.log2(width) / 8);
  const position = levelWidth(level, start);
  const index = Math.floor(position / TILE_WIDTH);
  const tile = await readTile(level, index);
  const filled = tileWidth(level, index, size) * HASH_BYTES;
  assert(
    tile !== undefined && tile.length >= filled,
    `tile ${level}/${index} is shorter than tree size ${size} needs`,
  );
  const from = (position % TILE_WIDTH) * HASH_BYTES;
  return merkleRoot(tile.subarray(from, from + levelWidth(level, width) * HASH_BYTES));
}

/** Largest power of two smaller than n, for n > 1 (RFC 6962, section 2.1: k < n <= 2k). */
function splitPoint(n: number): number {
  return largestPowerOfTwo(n - 1);
}

function largestPowerOfTwo(atMost: number): number {
  let power = 1;
  while (power * 2 <= atMost) power *= 2;
  return power;
}

// Sizes can exceed 32 bits, so bit operators cannot be used.
function half(n: number): number {
  return Math.floor(n / 2);
}

function isCount(n: number): boolean {
  return Number.isSafeInteger(n) && n >= 0;
}

function areHashes(hashes: readonly Uint8Array[]): boolean {
  return hashes.length <= PROOF_HASHES_MAX + 2 && hashes.every((hash) => hash.length === HASH_BYTES);
}
