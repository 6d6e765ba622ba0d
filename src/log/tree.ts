import { assert } from '../base/assert.ts';
import { concatBytes } from '../base/bytes.ts';
import { sha256 } from '../base/crypto.ts';
import { HASH_BYTES, levelWidth, type ReadTile, TILE_HEIGHT, TILE_WIDTH, type Tile } from './tiles.ts';

/**
 * The right edge of the tree: for each level, the hashes of the tile that is not yet full. This is all that appending needs. `partial[l]`
 * has floor(size / 256^l) mod 256 hashes of 32 bytes; levels above the last are empty and left out. Immutable: {@link appendLeaves} returns
 * a new edge.
 */
export interface Edge {
  size: number;
  partial: readonly Uint8Array[];
  /**
   * Roots of the complete subtrees, largest first: one for each bit that is set in `size`. They follow from `partial`, and are kept so that
   * a leaf costs two hashes on average, however large the tree is.
   */
  peaks: readonly Uint8Array[];
}

/** Root of the empty tree: SHA-256 of the empty string (RFC 6962, section 2.1). */
export const emptyRoot: Uint8Array = sha256(new Uint8Array(0));

const leafPrefix = Uint8Array.of(0x00);

// One reused input block. Hashing is synchronous, and takes most of the time in this file.
const nodeInput = new Uint8Array(1 + 2 * HASH_BYTES).fill(0x01);

/** SHA-256(0x00 || data) (RFC 6962, section 2.1). */
export function leafHash(data: Uint8Array): Uint8Array {
  return sha256(concatBytes([leafPrefix, data]));
}

/** SHA-256(0x01 || left || right) (RFC 6962, section 2.1). */
export function nodeHash(left: Uint8Array, right: Uint8Array): Uint8Array {
  nodeInput.set(left, 1);
  nodeInput.set(right, 1 + HASH_BYTES);
  return sha256(nodeInput);
}

/**
 * Root over one or more concatenated hashes. Each is the root of a complete subtree of the same size; only the last
 * can be smaller. Each row is paired, and an odd last hash moves up: this is the recursion of RFC 6962, section
 * 2.1.
 */
export function merkleRoot(hashes: Uint8Array): Uint8Array {
  const row = Uint8Array.from(hashes);
  let width = row.length / HASH_BYTES;
  assert(Number.isInteger(width) && width > 0, `${row.length} bytes are not a sequence of hashes`);
  while (width > 1) {
    const pairs = width >> 1;
    for (let i = 0; i < pairs; i++) {
      nodeInput.set(row.subarray(i * 2 * HASH_BYTES, (i + 1) * 2 * HASH_BYTES), 1);
      row.set(sha256(nodeInput), i * HASH_BYTES);
    }
    if (width % 2 === 1) row.copyWithin(pairs * HASH_BYTES, (width - 1) * HASH_BYTES, width * HASH_BYTES);
    width = pairs + (width % 2);
  }
  return row.slice(0, HASH_BYTES);
}

export function emptyEdge(): Edge {
  return { size: 0, partial: [], peaks: [] };
}

/**
 * Reads the edge of a tree of `size` leaves. A stored tile can be longer than this size needs (its first hashes never change); a missing or
 * short tile means damage. The hashes are not checked: the caller must compare {@link rootOf} with a signed checkpoint.
 */
export async function loadEdge(size: number, readTile: ReadTile): Promise<Edge> {
  assert(Number.isSafeInteger(size) && size >= 0, `${size} is not the size of a tree`);
  const partial: Uint8Array[] = [];
  for (let level = 0; levelWidth(level, size) > 0; level++) {
    const width = levelWidth(level, size);
    const bytes = (width % TILE_WIDTH) * HASH_BYTES;
    const index = Math.floor(width / TILE_WIDTH);
    const tile = bytes === 0 ? new Uint8Array(0) : await readTile(level, index);
    assert(
      tile !== undefined && tile.length >= bytes,
      `tile ${level}/${index} is shorter than tree size ${size} needs`,
    );
    // Copied because the store may reuse its memory at the next read.
    partial.push(new Uint8Array(tile.subarray(0, bytes)));
  }
  return { size, partial, peaks: partial.toReversed().flatMap(peaksOf) };
}

/** The roots of the complete subtrees over a level's hashes, largest first. */
function peaksOf(hashes: Uint8Array): Uint8Array[] {
  const peaks: Uint8Array[] = [];
  for (let width = TILE_WIDTH / 2, at = 0; at < hashes.length; width /= 2) {
    const end = at + width * HASH_BYTES;
    if (end > hashes.length) continue;
    peaks.push(merkleRoot(hashes.subarray(at, end)));
    at = end;
  }
  return peaks;
}

const TILE_BYTES = TILE_WIDTH * HASH_BYTES;

/** Appends leaf hashes. Returns the new edge, and every changed tile, full or partial, in its new state. */
export function appendLeaves(edge: Edge, leafHashes: readonly Uint8Array[]): { edge: Edge; tiles: Tile[] } {
  const size = edge.size + leafHashes.length;
  assert(Number.isSafeInteger(size), 'the tree is full');
  assert(
    leafHashes.every((hash) => hash.length === HASH_BYTES),
    'a leaf hash has 32 bytes',
  );
  const { peaks, added } = join(edge, leafHashes);
  const partial = [...edge.partial];
  const tiles = added.flatMap((hashes, level) => {
    const row = concatBytes([edge.partial[level] ?? new Uint8Array(0), ...hashes]);
    // Copied so that the edge does not keep the memory of a whole batch alive.
    partial[level] = new Uint8Array(row.subarray(row.length - (row.length % TILE_BYTES)));
    const firstIndex = Math.floor(levelWidth(level, edge.size) / TILE_WIDTH);
    return Array.from({ length: Math.ceil(row.length / TILE_BYTES) }, (_, i) => ({
      level,
      index: firstIndex + i,
      hashes: row.subarray(i * TILE_BYTES, (i + 1) * TILE_BYTES),
    }));
  });
  return { edge: { size, partial, peaks }, tiles };
}

/** Joins each leaf with the complete subtrees before it. `added`: the new hashes of each level of tiles. */
function join(edge: Edge, leafHashes: readonly Uint8Array[]): { peaks: Uint8Array[]; added: Uint8Array[][] } {
  const peaks = [...edge.peaks];
  const added: Uint8Array[][] = [];
  for (const [i, leaf] of leafHashes.entries()) {
    let hash = leaf;
    let height = 0;
    for (let before = edge.size + i; ; before = Math.floor(before / 2)) {
      if (height % TILE_HEIGHT === 0) {
        added[height / TILE_HEIGHT] ??= [];
        added[height / TILE_HEIGHT]?.push(hash);
      }
      // The bit is set if a complete subtree of this height precedes the leaf.
      const left = before % 2 === 1 ? peaks.pop() : undefined;
      if (left === undefined) break;
      hash = nodeHash(left, hash);
      height += 1;
    }
    peaks.push(hash);
  }
  return { peaks, added };
}

/** The Merkle tree hash of the whole tree (RFC 6962, section 2.1): 32 bytes. */
export function rootOf({ peaks }: Edge): Uint8Array {
  // Starts with the smallest peak: the hash joined so far is the last, smaller subtree next to the following peak.
  return peaks.length === 0 ? emptyRoot : peaks.reduceRight((below, peak) => nodeHash(peak, below));
}
