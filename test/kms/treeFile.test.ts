import { readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { NOTHING_SIGNED, type SignedTrees } from '../../src/kms/signedTrees.ts';
import { readForCopy, TreeFile } from '../../src/kms/treeFile.ts';

const SLOT_BYTES = 8192;
const heldAt = (size: number): SignedTrees => ({
  trees: Array.from({ length: 65 }, (_, n) => ({
    size: size + n,
    root: Buffer.alloc(32, n).toString('base64'),
  })),
  credit: 3,
  countedAt: 1_700_000_000_000,
});

/** A signer has its file until its process ends; so have these tests, or Node would warn of each that it collects. */
const open: TreeFile[] = [];

async function openFile(path: string): Promise<TreeFile> {
  const file = await TreeFile.open(path);
  open.push(file);
  return file;
}

t.test('written trees are there after a start, and at most one write is lost', async (t) => {
  const path = join(t.testdir(), 'key.trees');
  const file = await openFile(path);
  t.strictSame(file.held, NOTHING_SIGNED);
  for (const size of [1, 2, 9_007_199_254_740_000]) {
    await Promise.all([file.write(heldAt(size - 1)), file.write(heldAt(size))]);
    t.strictSame(file.held, heldAt(size));
    t.strictSame((await openFile(path)).held, heldAt(size));
  }
  const whole = readFileSync(path);
  t.equal(whole.length, 2 * SLOT_BYTES);
  let [older, newest] = [0, 0];
  for (let torn = 0; torn < 2 * SLOT_BYTES; torn += 512) {
    const bytes = Buffer.from(whole);
    bytes.fill(0, torn, torn + 512);
    writeFileSync(path, bytes);
    const { held } = await openFile(path);
    const size = held.trees[0]?.size;
    if (size === 9_007_199_254_740_000) newest += 1;
    else if (size === 9_007_199_254_739_999) older += 1;
  }
  t.equal(newest + older, 32, 'a power cut in one slot leaves the other');
  t.ok(older > 8, 'which holds what was on disk before');
});

t.test('a damaged file is not taken for a new one', async (t) => {
  const path = join(t.testdir(), 'key.trees');
  await (await openFile(path)).write(heldAt(1));
  const whole = readFileSync(path);
  for (const length of [0, 1, 300, 4096]) {
    writeFileSync(path, whole);
    truncateSync(path, length);
    await t.rejects(openFile(path), { code: 'tree_file_damaged' }, `${length} bytes of it`);
  }
});

t.test('a copy is of whole bytes, though a write is under way while they are read', async (t) => {
  const path = join(t.testdir(), 'a.trees');
  await openFile(path);
  const whole = readFileSync(path);
  const torn = Buffer.concat([Buffer.alloc(100), whole.subarray(100, 8192), Buffer.alloc(8192)]);
  const reads = [torn, whole];
  t.same(
    readForCopy(path, () => reads.shift() ?? torn),
    whole,
  );
  t.same(
    readForCopy(path, () => torn),
    torn,
    'a damaged file is copied as it is',
  );
});
