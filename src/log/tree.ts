import { assert } from '../base/assert.ts';
import { concatBytes } from '../base/bytes.ts';
import { sha256 } from '../base/crypto.ts';
import { HASH_BYTES, levelWidth, type ReadTile, TILE_WIDTH, type Tile } from './tiles.ts';

/**
 * The right edge of the tree: for each level, the hashes of the tile that is not yet full. To append, nothing else
 * is needed. `partial[l]` has floor(size / 256^l) mod 256 hashes of 32 bytes; levels above the last have none and
 * are left out. Immutable: {@link appendLeaves} returns a new edge.
 */
export interface Edge {
  size: number;
  partial: readonly Uint8Array[];
}

/** Root of the tree without leaves: SHA-256 of nothing (RFC 6962, section 2.1). */
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
  return row.subarray(0, HASH_BYTES);
}

export function emptyEdge(): Edge {
  return { size: 0, partial: [] };
}

/**
 * Reads the edge of a tree of `size` leaves. A stored tile can be longer than this size needs (its first hashes
 * never change); a missing or short tile is damage. This does not check the hashes: the caller must compare {@link
 * rootOf} with a signed checkpoint.
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
    // Copy: the store can reuse its memory at the next read.
    partial.push(new Uint8Array(tile.subarray(0, bytes)));
  }
  return { size, partial };
}

/** Appends leaf hashes. Returns the new edge, and every changed tile, full or partial, in its new state. */
export function appendLeaves(edge: Edge, leafHashes: readonly Uint8Array[]): { edge: Edge; tiles: Tile[] } {
  const size = edge.size + leafHashes.length;
  assert(Number.isSafeInteger(size), 'the tree is full');
  assert(
    leafHashes.every((hash) => hash.length === HASH_BYTES),
    'a leaf hash has 32 bytes',
  );
  const partial = [...edge.partial];
  const tiles: Tile[] = [];
  let added: readonly Uint8Array[] = leafHashes;
  for (let level = 0; added.length > 0; level++) {
    const row = concatBytes([edge.partial[level] ?? new Uint8Array(0), ...added]);
    const changed = cutTiles(row, level, Math.floor(levelWidth(level, edge.size) / TILE_WIDTH));
    const full = changed.filter((tile) => tile.hashes.length === TILE_WIDTH * HASH_BYTES);
    // Copy, so that the edge does not keep the memory of a whole batch alive.
    partial[level] = new Uint8Array(row.subarray(full.length * TILE_WIDTH * HASH_BYTES));
    tiles.push(...changed);
    added = full.map((tile) => merkleRoot(tile.hashes));
  }
  return { edge: { size, partial }, tiles };
}

function cutTiles(row: Uint8Array, level: number, firstIndex: number): Tile[] {
  const tileBytes = TILE_WIDTH * HASH_BYTES;
  return Array.from({ length: Math.ceil(row.length / tileBytes) }, (_, i) => ({
    level,
    index: firstIndex + i,
    hashes: row.subarray(i * tileBytes, (i + 1) * tileBytes),
  }));
}

/** The Merkle tree hash of the whole tree (RFC 6962, section 2.1): 32 bytes. */
export function rootOf(edge: Edge): Uint8Array {
  // From the bottom up: the unfinished part of a level is the last, smaller subtree of the level above.
  const root = edge.partial.reduce<Uint8Array>(
    (below, hashes) =>
      hashes.length + below.length === 0 ? below : merkleRoot(concatBytes([hashes, below])),
    new Uint8Array(0),
  );
  return root.length === 0 ? emptyRoot : root;
}
