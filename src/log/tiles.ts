/** A hash tile of height 8 (C2SP tlog-tiles): at level 0 leaf hashes, above it the roots of full tiles below. */
export interface Tile {
  level: number;
  index: number;
  /** 1 to 256 concatenated 32-byte hashes. */
  hashes: Uint8Array;
}
