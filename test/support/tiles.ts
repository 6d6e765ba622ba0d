import type { ReadTile, Tile } from '../../src/log/tiles.ts';
import { appendLeaves, type Edge, emptyEdge } from '../../src/log/tree.ts';

/** Tiles in memory, each as far as it is filled, as a store keeps them. */
export class TileShelf {
  readonly tiles = new Map<string, Uint8Array>();

  put(tiles: readonly Tile[]): void {
    for (const { level, index, hashes } of tiles)
      this.tiles.set(`${level}/${index}`, Uint8Array.from(hashes));
  }

  readonly read: ReadTile = (level, index) => Promise.resolve(this.tiles.get(`${level}/${index}`));
}

/** Grows a tree from nothing, in batches of `batchLeaves`. */
export function growTree(
  leafHashes: readonly Uint8Array[],
  batchLeaves: number,
): { edge: Edge; shelf: TileShelf } {
  const shelf = new TileShelf();
  let edge = emptyEdge();
  for (let from = 0; from < leafHashes.length; from += batchLeaves) {
    const grown = appendLeaves(edge, leafHashes.slice(from, from + batchLeaves));
    shelf.put(grown.tiles);
    edge = grown.edge;
  }
  return { edge, shelf };
}
