/** A document of any size is hashed in slices, and the page can do something else after each of them. */
import t from 'tap';
import { digestFile, SLICE_BYTES } from '../../page/hashing.ts';
import { digestsOf } from '../support/receipts.ts';

/** Two reads and a bit, so that the last slice is a short one. */
const BYTES = Buffer.alloc(9_000_001, 'so many bytes ');

t.test('both digests are right for any size', async (t) => {
  for (const size of [0, 1, SLICE_BYTES, SLICE_BYTES + 1, BYTES.length]) {
    const bytes = BYTES.subarray(0, size);
    t.strictSame(await digestFile(new Blob([bytes]), () => true), digestsOf(bytes), `${size} bytes`);
  }
});

t.test('other tasks run between any two slices', async (t) => {
  const done: number[] = [];
  let turns = 0;
  const count = () => {
    turns += 1;
    turning = setImmediate(count);
  };
  let turning = setImmediate(count);
  const turnsAt: number[] = [];
  await digestFile(new Blob([BYTES]), (bytes) => {
    done.push(bytes);
    turnsAt.push(turns);
    return true;
  });
  clearImmediate(turning);
  t.equal(done.at(-1), BYTES.length);
  t.ok(
    done.every((bytes, n) => bytes - (done[n - 1] ?? 0) <= SLICE_BYTES),
    'no slice is longer',
  );
  t.ok(
    turnsAt.every((turn, n) => n === 0 || turn > (turnsAt[n - 1] ?? 0)),
    'the event loop went around after each',
  );
});

t.test('hashing stops as soon as it is no longer wanted', async (t) => {
  const read: number[] = [];
  class Watched extends Blob {
    override slice(start = 0, end?: number) {
      read.push(start);
      return super.slice(start, end);
    }
  }
  let told = 0;
  const wanted = () => {
    told += 1;
    return told < 3;
  };
  t.equal(await digestFile(new Watched([BYTES]), wanted), undefined);
  t.strictSame([told, read], [3, [0]]);
});
