import { assert } from '../base/assert.ts';
import { concatBytes } from '../base/bytes.ts';

/** Bytes of a SHA-256 hash; height of a tile, and hashes in a full one (C2SP tlog-tiles). */
export const HASH_BYTES = 32;
export const TILE_HEIGHT = 8;
export const TILE_WIDTH = 2 ** TILE_HEIGHT;

/** A hash tile of height 8 (C2SP tlog-tiles): at level 0 leaf hashes, above it the roots of full tiles below. */
export interface Tile {
  level: number;
  index: number;
  /** 1 to 256 concatenated 32-byte hashes. */
  hashes: Uint8Array;
}

/** Returns a stored tile with all hashes that it has. These can be more than the requested tree size needs. */
export type ReadTile = (level: number, index: number) => Promise<Uint8Array | undefined>;

/** The name of a resource of the log: a hash tile, or the bundle of the entries below a level 0 tile. */
export interface TilePath {
  level: number | 'entries';
  index: number;
  /** 1 to 256; below 256 the tile is partial. */
  width: number;
}

const PATH_PATTERN =
  /^tile\/(0|[1-5][0-9]?|6[0-3]?|[7-9]|entries)\/((?:x[0-9]{3}\/)*[0-9]{3})(?:\.p\/([1-9][0-9]{0,2}))?$/;

/** Number of hashes at `level` that a tree of `size` leaves has in complete subtrees: floor(size / 256^level). */
export function levelWidth(level: number, size: number): number {
  return Math.floor(size / TILE_WIDTH ** level);
}

/** Number of hashes of the tile in a tree of `size` leaves: 0 (no tile yet) to 256 (full). */
export function tileWidth(level: number, index: number, size: number): number {
  return Math.max(0, Math.min(TILE_WIDTH, levelWidth(level, size) - index * TILE_WIDTH));
}

/** The path below the log's prefix, such as `tile/0/x001/x234/067.p/8` (C2SP tlog-tiles, "Merkle Tree"). */
export function tilePath({ level, index, width }: TilePath): string {
  const digits = String(index);
  const groups = digits.padStart(Math.ceil(digits.length / 3) * 3, '0').match(/.{3}/g) ?? [];
  const name = groups.map((group, i) => (i < groups.length - 1 ? `x${group}` : group)).join('/');
  return `tile/${level}/${name}${width < TILE_WIDTH ? `.p/${width}` : ''}`;
}

/** Parses a path; undefined for anything but the canonical spelling. */
export function parseTilePath(path: string): TilePath | undefined {
  const [, level, groups, width] = PATH_PATTERN.exec(path) ?? [];
  if (level === undefined || groups === undefined) return undefined;
  const parsed: TilePath = {
    level: level === 'entries' ? level : Number(level),
    index: Number(groups.replaceAll(/[x/]/g, '')),
    width: width === undefined ? TILE_WIDTH : Number(width),
  };
  return Number.isSafeInteger(parsed.index) && tilePath(parsed) === path ? parsed : undefined;
}

/** An entry bundle: for each entry, its length as a big-endian uint16, then its data (C2SP tlog-tiles, "Log entries"). */
export function encodeEntryBundle(entries: readonly Uint8Array[]): Uint8Array {
  const parts = entries.flatMap((entry) => {
    const { length } = entry;
    assert(length <= 0xffff, `a log entry has ${length} bytes, more than its length field can say`);
    return [Uint8Array.of(length >> 8, length & 0xff), entry];
  });
  return concatBytes(parts);
}
