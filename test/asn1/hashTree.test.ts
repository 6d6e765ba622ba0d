import { createHash } from 'node:crypto';
import t from 'tap';
import {
  pathInLevels,
  reducedTree,
  rootOfReducedTree,
  treeLevels,
  treeRoot,
} from '../../src/asn1/hashTree.ts';
import { DIGEST_BYTES, DIGESTS } from '../../src/asn1/signatureAlgorithm.ts';
import { fc, randomBytes } from '../support/seed.ts';

const H = (...parts: Uint8Array[]) => createHash('sha256').update(Buffer.concat(parts)).digest();
const [A, B, C, D, E] = [1, 2, 3, 4, 5].map((octet) => Buffer.alloc(32, octet)) as [
  Buffer,
  Buffer,
  Buffer,
  Buffer,
  Buffer,
];

t.test('trees have the roots computed by hand', async (t) => {
  t.same(treeRoot('sha256', [A]), A, 'one leaf is the root');
  t.same(treeRoot('sha256', [B, A]), H(A, B), 'in ascending order');
  const left = H(A, B);
  t.same(
    treeRoot('sha256', [A, B, C]),
    H(...[left, C].sort(Buffer.compare)),
    'an odd node moves up as it is',
  );
  const four = H(...[left, H(C, D)].sort(Buffer.compare));
  t.same(treeRoot('sha256', [A, B, C, D, E]), H(...[four, E].sort(Buffer.compare)));
  t.same(pathInLevels(treeLevels('sha256', [A, B, C, D, E]), 4), [four]);
  t.same(pathInLevels(treeLevels('sha256', [A, B, C, D, E]), 0), [B, H(C, D), E]);
  t.same(pathInLevels(treeLevels('sha256', [A]), 0), []);
  t.same(reducedTree(B, [A, C]), [[A, B], [C]]);
  t.same(reducedTree(A, []), undefined);
  t.same(rootOfReducedTree('sha256', [[A, A]], A), H(A, A), 'equal leaves');
  t.throws(() => treeRoot('sha256', []), RangeError);
  t.throws(() => pathInLevels(treeLevels('sha256', [A]), 1), RangeError);
});

t.test(
  'each leaf of a tree of any size has a path to its root, and only its own siblings make it',
  async () => {
    const trees = fc.record({
      digest: fc.constantFrom(...DIGESTS),
      size: fc.integer({ min: 2, max: 40 }),
      index: fc.nat(),
      changed: fc.nat(),
    });
    fc.assert(
      fc.property(trees, ({ digest, size, index, changed }) => {
        const leaves = Array.from({ length: size }, () => randomBytes(DIGEST_BYTES[digest]));
        const at = index % size;
        const leaf = leaves[at] as Buffer;
        const siblings = pathInLevels(treeLevels(digest, leaves), at);
        const tree = reducedTree(leaf, siblings) ?? [];
        const root = treeRoot(digest, leaves);
        if (Buffer.compare(rootOfReducedTree(digest, tree, leaf) ?? A, root) !== 0) return false;
        const other = siblings.map((hash, n) =>
          n === changed % siblings.length ? randomBytes(hash.length) : hash,
        );
        const wrong = rootOfReducedTree(digest, reducedTree(leaf, other) ?? [], leaf);
        return wrong !== undefined && Buffer.compare(wrong, root) !== 0;
      }),
    );
  },
);

t.test('foreign trees can have nodes with many children, and a single leaf in the first list', async (t) => {
  const first = H(A, B, C);
  t.same(
    rootOfReducedTree(
      'sha256',
      [
        [C, A, B],
        [D, E],
      ],
      B,
    ),
    H(...[first, D, E].sort(Buffer.compare)),
  );
  t.same(rootOfReducedTree('sha256', [[A], [B]], A), H(A, B));
  t.same(rootOfReducedTree('sha256', [[A]], A), A);
});

t.test('a reduced tree that does not contain the leaf is refused', async (t) => {
  for (const [why, tree] of [
    ['no list', []],
    ['an empty first list', [[], [A]]],
    ['an empty list further up', [[A, B], []]],
    ['the leaf in another list only', [[B, C], [A]]],
    ['a hash that is too short', [[A, B.subarray(1)]]],
    ['two hashes in one', [[A, Buffer.concat([B, C])]]],
    ['hashes of another function', [[A, B], [Buffer.alloc(64)]]],
  ] as const)
    t.equal(rootOfReducedTree('sha256', tree, A), undefined, why);
});
