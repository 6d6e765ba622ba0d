import t from 'tap';
import { BrokenInvariant } from '../../src/base/assert.ts';
import { tileWidth } from '../../src/log/tiles.ts';
import {
  appendLeaves,
  emptyEdge,
  emptyRoot,
  leafHash,
  loadEdge,
  merkleRoot,
  nodeHash,
  rootOf,
} from '../../src/log/tree.ts';
import { growTree } from '../support/sealing.ts';
import { fc, tries } from '../support/seed.ts';
import vectors from '../vectors/rfc6962/tree.json' with { type: 'json' };
import tileVectors from '../vectors/tiles/tiles.json' with { type: 'json' };
import { mth } from './oracle.ts';

const hashes = (count: number) => Array.from({ length: count }, (_, i) => leafHash(Buffer.from(`leaf ${i}`)));
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');

t.test('RFC 6962 vectors: every root', async (t) => {
  const leaves = vectors.leaves.map((leaf) => leafHash(Buffer.from(leaf, 'hex')));
  t.equal(hex(emptyRoot), vectors.emptyRoot);
  t.equal(hex(rootOf(emptyEdge())), vectors.emptyRoot);
  for (const [i, root] of vectors.roots.entries()) {
    t.equal(hex(rootOf(growTree(leaves.slice(0, i + 1), 3).edge)), root, `size ${i + 1}`);
  }
});

t.test('the tree is the same for any batches', async (t) => {
  const leaves = hashes(70_000);
  for (const size of [1, 2, 255, 256, 257, 511, 512, 65_535, 65_536, 65_537, 70_000]) {
    const want = hex(mth(leaves.slice(0, size)));
    for (const batch of [97, 256, 4096, size]) {
      t.equal(hex(rootOf(growTree(leaves.slice(0, size), batch).edge)), want, `${size} leaves by ${batch}`);
    }
  }
});

t.test('any batches agree with the recursion of the RFC', async (t) => {
  const leaves = hashes(1200);
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 300 }), { maxLength: 4 }), (batches) => {
      let edge = emptyEdge();
      for (const batch of batches) edge = appendLeaves(edge, leaves.slice(edge.size, edge.size + batch)).edge;
      t.strictSame(hex(rootOf(edge)), hex(mth(leaves.slice(0, edge.size))));
      t.equal(edge.peaks.length, edge.size.toString(2).replaceAll('0', '').length);
    }),
    { numRuns: tries(60) },
  );
});

for (const { size, full, partial } of tileVectors.trees) {
  t.test(`a tree of ${size} leaves has the right tiles`, async (t) => {
    const { edge, shelf } = growTree(hashes(size), 1000);
    const fullTiles: Record<string, number> = {};
    const partialWidths: Record<string, number> = {};
    for (const [name, tile] of shelf.tiles) {
      const [level = '', index] = name.split('/');
      const width = tile.length / 32;
      t.equal(width, tileWidth(Number(level), Number(index), size), name);
      if (width === 256) fullTiles[level] = (fullTiles[level] ?? 0) + 1;
      else partialWidths[level] = width;
    }
    t.strictSame(fullTiles, full);
    t.strictSame(partialWidths, partial);
    // structuredClone makes plain arrays of every kind of them.
    t.strictSame(structuredClone(await loadEdge(size, shelf.read)), structuredClone(edge));
  });
}

t.test('appending does not change the edge that it starts from', async (t) => {
  const leaves = hashes(600);
  const { edge } = appendLeaves(emptyEdge(), leaves.slice(0, 300));
  const before = structuredClone(edge);
  const once = appendLeaves(edge, leaves.slice(300));
  for (const tile of once.tiles) Buffer.from(tile.hashes).fill(0);
  const again = appendLeaves(edge, leaves.slice(300));
  t.strictSame(structuredClone(edge), before);
  t.equal(hex(rootOf(again.edge)), hex(mth(leaves)));
  t.strictSame(structuredClone(appendLeaves(edge, [])), { edge: before, tiles: [] });
});

t.test('only changed tiles are returned, and they are whole', async (t) => {
  const { edge } = growTree(hashes(1000), 1000);
  const { tiles } = appendLeaves(edge, hashes(50));
  t.strictSame(
    tiles.map(({ level, index, hashes }) => [level, index, hashes.length / 32]),
    [
      [0, 3, 256],
      [0, 4, 26],
      [1, 0, 4],
    ],
  );
});

t.test('an edge loads from tiles that have grown since, but not from wrong ones', async (t) => {
  const leaves = hashes(1500);
  const { shelf } = growTree(leaves, 1500);
  for (const size of [0, 1, 255, 256, 700, 1280]) {
    t.equal(hex(rootOf(await loadEdge(size, shelf.read))), hex(mth(leaves.slice(0, size))), `${size}`);
  }
  await t.rejects(loadEdge(1501, shelf.read), BrokenInvariant);
  shelf.tiles.delete('1/0');
  await t.rejects(loadEdge(1500, shelf.read), BrokenInvariant);
  await t.rejects(loadEdge(-1, shelf.read), BrokenInvariant);
});

t.test('an input that is not a hash is refused', async (t) => {
  t.throws(() => appendLeaves(emptyEdge(), [new Uint8Array(31)]), BrokenInvariant);
  t.throws(() => merkleRoot(new Uint8Array(0)), BrokenInvariant);
  t.throws(() => merkleRoot(new Uint8Array(33)), BrokenInvariant);
  t.not(hex(nodeHash(new Uint8Array(32), new Uint8Array(32))), hex(leafHash(new Uint8Array(64))));
});
