import t from 'tap';
import { BrokenInvariant } from '../../src/base/assert.ts';
import {
  consistencyProof,
  growthProof,
  inclusionProof,
  verifyConsistency,
  verifyInclusion,
} from '../../src/log/proof.ts';
import { appendLeaves, emptyEdge, emptyRoot, leafHash } from '../../src/log/tree.ts';
import { growTree } from '../support/sealing.ts';
import { fc, tries } from '../support/seed.ts';
import vectors from '../vectors/rfc6962/tree.json' with { type: 'json' };
import { mth, path, proof as rfcProof } from './oracle.ts';

const unhex = (text: string) => Buffer.from(text, 'hex');
const hexAll = (hashes: readonly Uint8Array[]) => hashes.map((hash) => Buffer.from(hash).toString('hex'));
const vectorLeaves = vectors.leaves.map((leaf) => leafHash(unhex(leaf)));
const vectorRoot = (size: number) => unhex(vectors.roots[size - 1] ?? '');
const leaves = Array.from({ length: 1400 }, (_, i) => leafHash(Buffer.from(`leaf ${i}`)));
const other = unhex('abacaba000000000000000000000000000000000000000000060061e00123456');

/** Everything a forger can do to a list of hashes without a key. */
function corruptions(proof: readonly Uint8Array[]): Uint8Array[][] {
  const flipped = proof.map((_, i) =>
    proof.map((hash, j) => (i === j ? hash.map((b, k) => (k ? b : b ^ 8)) : hash)),
  );
  return [
    ...flipped,
    [...proof, other],
    [other, ...proof],
    [...proof, new Uint8Array(0)],
    [...proof, ...Array<Uint8Array>(200).fill(other)],
    ...(proof.length > 0 ? [proof.slice(1), proof.slice(0, -1)] : []),
  ];
}

t.test('RFC 6962 vectors: inclusion', async (t) => {
  const { shelf } = growTree(vectorLeaves, 8);
  for (const { index, size, proof } of vectors.inclusion) {
    t.strictSame(hexAll(await inclusionProof(index, size, shelf.read)), proof, `leaf ${index} of ${size}`);
    const leaf = vectorLeaves[index] ?? other;
    t.ok(verifyInclusion(index, size, leaf, proof.map(unhex), vectorRoot(size)));
    for (const wrong of corruptions(proof.map(unhex))) {
      t.notOk(verifyInclusion(index, size, leaf, wrong, vectorRoot(size)));
    }
  }
});

t.test('RFC 6962 vectors: consistency', async (t) => {
  const { shelf } = growTree(vectorLeaves, 8);
  for (const { oldSize, newSize, proof } of vectors.consistency) {
    const roots = [vectorRoot(oldSize), vectorRoot(newSize)] as const;
    t.strictSame(
      hexAll(await consistencyProof(oldSize, newSize, shelf.read)),
      proof,
      `${oldSize} to ${newSize}`,
    );
    t.ok(verifyConsistency(oldSize, newSize, proof.map(unhex), ...roots));
    for (const wrong of corruptions(proof.map(unhex))) {
      t.notOk(verifyConsistency(oldSize, newSize, wrong, ...roots));
    }
  }
});

t.test('every proof of small trees, from tiles of a larger one', async (t) => {
  const { shelf } = growTree(leaves, 1000);
  for (let size = 1; size <= 40; size++) {
    const root = mth(leaves.slice(0, size));
    for (let i = 0; i < size; i++) {
      const proof = await inclusionProof(i, size, shelf.read);
      t.strictSame(hexAll(proof), hexAll(path(i, leaves.slice(0, size))), `leaf ${i} of ${size}`);
      t.ok(verifyInclusion(i, size, leaves[i] ?? other, proof, root));
      const consistency = await consistencyProof(i + 1, size, shelf.read);
      t.strictSame(
        hexAll(consistency),
        hexAll(rfcProof(i + 1, leaves.slice(0, size))),
        `${i + 1} to ${size}`,
      );
      t.ok(verifyConsistency(i + 1, size, consistency, mth(leaves.slice(0, i + 1)), root));
    }
  }
});

t.test('proofs across tiles agree with the RFC, and hold for nothing else', async (t) => {
  const { shelf } = growTree(leaves, 700);
  const sizes = fc.integer({ min: 1, max: leaves.length });
  await fc.assert(
    fc.asyncProperty(sizes, sizes, sizes, async (a, b, c) => {
      const size = Math.max(a, b);
      const index = Math.min(a, b) - 1;
      const root = mth(leaves.slice(0, size));
      const proof = await inclusionProof(index, size, shelf.read);
      t.strictSame(hexAll(proof), hexAll(path(index, leaves.slice(0, size))));
      t.ok(verifyInclusion(index, size, leaves[index] ?? other, proof, root));
      t.notOk(verifyInclusion(index, size, other, proof, root));
      t.equal(verifyInclusion(c - 1, size, leaves[index] ?? other, proof, root), c - 1 === index);

      const oldRoot = mth(leaves.slice(0, index + 1));
      const consistency = await consistencyProof(index + 1, size, shelf.read);
      t.strictSame(hexAll(consistency), hexAll(rfcProof(index + 1, leaves.slice(0, size))));
      t.ok(verifyConsistency(index + 1, size, consistency, oldRoot, root));
      t.notOk(verifyConsistency(index + 1, size, consistency, other, root));
      t.notOk(verifyConsistency(index + 1, size, consistency, oldRoot, other));
    }),
    { numRuns: tries(100) },
  );
});

t.test('the proof of growth from an edge is the one from tiles', async (t) => {
  const edgeOf = (size: number) => appendLeaves(emptyEdge(), leaves.slice(0, size)).edge;
  for (let newSize = 0; newSize <= 40; newSize++) {
    for (let oldSize = 0; oldSize <= newSize; oldSize++) {
      const proof = growthProof(edgeOf(oldSize), leaves.slice(oldSize, newSize));
      const expected = oldSize === 0 ? [] : rfcProof(oldSize, leaves.slice(0, newSize));
      t.strictSame(hexAll(proof), hexAll(expected), `${oldSize} to ${newSize}`);
    }
  }
  const sizes = fc.integer({ min: 1, max: leaves.length });
  fc.assert(
    fc.property(sizes, sizes, (a, b) => {
      const [oldSize, newSize] = [Math.min(a, b), Math.max(a, b)];
      const proof = growthProof(edgeOf(oldSize), leaves.slice(oldSize, newSize));
      t.strictSame(hexAll(proof), hexAll(rfcProof(oldSize, leaves.slice(0, newSize))));
    }),
    { numRuns: tries(100) },
  );
});

t.test('proofs work in trees too large to count in 32 bits', async (t) => {
  // The first leaf of 2^40, all other subtrees being this one hash.
  const proof = Array<Uint8Array>(40).fill(other);
  const root = proof.reduce((left, right) => mth([left, right]), other);
  t.ok(verifyInclusion(0, 2 ** 40, other, proof, root));
  t.notOk(verifyInclusion(2 ** 32, 2 ** 40, leaves[0] ?? other, proof, root));
  t.notOk(verifyInclusion(0, 2 ** 41, other, proof, root));
});

t.test('nonsense gives false, never an exception', async (t) => {
  const none = new Uint8Array(0);
  for (const n of [-1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53, 0]) {
    t.notOk(verifyInclusion(n, n, other, [], other), `leaf ${n} of ${n}`);
    t.notOk(verifyInclusion(0, n, none, [], none), `size ${n}`);
    t.notOk(verifyConsistency(n, 1, [], none, none), `${n} to 1`);
  }
  t.notOk(verifyInclusion(1, 1, other, [], other));
  t.notOk(verifyConsistency(2, 1, [], other, other));
  t.notOk(verifyConsistency(1, 2, [], other, other));
  t.notOk(verifyConsistency(3, 5, [], other, other));
  t.notOk(verifyConsistency(0, 1, [], other, other));
  t.ok(verifyConsistency(0, 1, [], emptyRoot, other));
});

t.test('a proof that cannot be made throws', async (t) => {
  const { shelf } = growTree(leaves.slice(0, 300), 300);
  t.throws(() => inclusionProof(300, 300, shelf.read), BrokenInvariant);
  t.throws(() => consistencyProof(5, 4, shelf.read), BrokenInvariant);
  await t.rejects(inclusionProof(0, 301, shelf.read), BrokenInvariant);
  shelf.tiles.delete('0/1');
  await t.rejects(inclusionProof(0, 300, shelf.read), BrokenInvariant);
});
