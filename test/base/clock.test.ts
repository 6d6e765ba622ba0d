import t from 'tap';
import { toRfc3339 } from '../../src/base/clock.ts';
import { fc, tries } from '../support/seed.ts';

const LAST_MS = 8.64e15;

t.test('a time is written as a Date writes it, whatever time was written before', async (t) => {
  const near = Date.UTC(2026, 0, 1);
  const times = fc.oneof(
    fc.integer({ min: near - 100_000_000, max: near + 100_000_000 }),
    fc.double({ min: near - 1000, max: near + 1000, noNaN: true }),
    fc.integer({ min: -LAST_MS, max: LAST_MS }),
    fc.constantFrom(0, -0.5, -1, LAST_MS, -LAST_MS, near, near - 1),
  );
  const written = fc.property(times, (at) => {
    t.equal(toRfc3339(at), new Date(at).toISOString());
  });
  fc.assert(written, { numRuns: tries(2000) });
});

t.test('what is not a time is refused, whatever time was written before', async (t) => {
  for (const before of [0, LAST_MS, -LAST_MS])
    for (const at of [Number.NaN, Number.POSITIVE_INFINITY, LAST_MS + 1, -LAST_MS - 1]) {
      toRfc3339(before);
      t.throws(() => toRfc3339(at), RangeError, `${at} after ${before}`);
    }
});
