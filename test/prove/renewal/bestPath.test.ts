/** The path that records take, against all that there are: where any is good, so is the one that is served. */
import t from 'tap';
import { verifyEvidenceRecord } from '../../../src/asn1/evidenceRecord.ts';
import { BrokenInvariant } from '../../../src/base/assert.ts';
import { fromUtf8 } from '../../../src/base/bytes.ts';
import { chooseWays } from '../../../src/prove/renewal/renewalPath.ts';
import { commitRun, draftRun, nextRun } from '../../../src/prove/renewal/renewalRun.ts';
import { pathsNow, tokenStandings } from '../../../src/prove/renewal/renewalStandings.ts';
import { EvidenceRecords, RenewalTrees } from '../../../src/prove/renewal/renewals.ts';
import { actOfProcess } from '../../../src/store/acts.ts';
import type { RenewalRun } from '../../../src/store/renewalStore.ts';
import type { Batch } from '../../../src/store/store.ts';
import { BEGIN, DAY_MS } from '../../support/authority.ts';
import { MemoryLog, YearlyAuthority } from '../../support/renewals.ts';
import { fc, tries } from '../../support/seed.ts';

const day = (n: number) => BEGIN + n * DAY_MS;
/** The days of a year on which each has a certificate. */
const DAYS = [400, 400, 90, 60, 40];
const authorities = await Promise.all(
  DAYS.map((days) => YearlyAuthority.make(`for ${days} days`, days > 365 ? 3 : days / 365)),
);
const trusted = authorities.map((one) => one.trusted);
const trustedRoots = trusted.map(({ root }) => root);
const WIDTH = 2;

/** One of those that have a certificate on that day. */
function stamperOn(n: number, choice: number): YearlyAuthority | undefined {
  const able = authorities.filter((_, index) => n % 365 < (DAYS[index] ?? 0) - 1);
  return able[choice % able.length];
}

function allPaths(runs: readonly RenewalRun[]): number[][] {
  return runs.reduce<number[][]>(
    (paths, { tokens }) => paths.flatMap((path) => [-1, ...tokens.keys()].map((index) => [...path, index])),
    [[]],
  );
}

/** Renews on a day with the answers of up to two authorities; the second is given so many days later, and can be brought first. */
async function renewLate(
  memory: MemoryLog,
  now: number,
  step: { isHash: boolean; by: readonly number[]; late: number; isReversed: boolean },
): Promise<number> {
  const { store } = memory;
  const runs = await memory.renewals.runs();
  const waysAt = (n: number) => chooseWays(runs, tokenStandings(trusted), day(n) + 1000);
  const scope = await nextRun(store, runs, step.isHash ? 'sha384' : 'sha512', waysAt(now));
  const drafted = await draftRun(store, new RenewalTrees(store, runs, WIDTH), { ...scope, at: day(now) });
  // An answer of after the end of what the run goes on with is refused.
  const isTaken = JSON.stringify(waysAt(now + step.late)) === JSON.stringify(waysAt(now));
  const days = isTaken ? [now, now + step.late] : [now];
  const stampers = days.map((n, index) => stamperOn(n, step.by[index] ?? 0));
  const tokens = await Promise.all(
    [...new Set(stampers)].map((one, index) =>
      one?.stamp(scope.digest, drafted.root, day(days[index] ?? now) + 1000),
    ),
  );
  const given = tokens.filter((one) => one !== undefined);
  const act = actOfProcess('command', 'renewal.run', { run: scope.number });
  await commitRun(store, drafted, step.isReversed ? given.toReversed() : given, act);
  return (days.at(-1) ?? now) + 1;
}

t.test('the path of a record is good whenever any path is', async (t) => {
  const choice = fc.nat(100);
  const step = fc.record({
    batches: fc.array(fc.record({ wait: fc.integer({ min: 1, max: 10 }), by: choice }), { maxLength: 2 }),
    wait: fc.nat(40),
    isHash: fc.constantFrom(false, false, true),
    by: fc.tuple(choice, choice),
    late: fc.nat(25),
    isReversed: fc.boolean(),
  });
  const steps = fc.array(step, { minLength: 1, maxLength: 3 });
  let good = 0;
  await fc.assert(
    fc.asyncProperty(steps, fc.nat(60), async (all, later) => {
      const memory = new MemoryLog();
      await memory.seal(1, day(1), stamperOn(1, later));
      let now = 1;
      for (const { batches, wait, ...how } of all) {
        for (const { wait, by } of batches) {
          now += wait;
          await memory.seal(1, day(now), stamperOn(now, by));
        }
        now = await renewLate(memory, now + wait + 1, how);
      }
      const at = day(now + later);
      const path = pathsNow(
        () => trusted,
        () => at,
      );
      const isGood = async (batch: Batch, taken: typeof path) => {
        const record = await new EvidenceRecords(memory.store, { width: WIDTH, path: taken }).of(batch);
        const data = fromUtf8(batch.checkpoint);
        return record && verifyEvidenceRecord({ record, data, trustedRoots, at }).outcome === 'good';
      };
      for (const batch of memory.batches) {
        if (await isGood(batch, path)) {
          good += 1;
          continue;
        }
        for (const other of allPaths(await memory.renewals.runs())) {
          // Some go through a run that does not cover the batch.
          const isBetter = await isGood(batch, () => other).catch((error: unknown) => {
            if (!(error instanceof BrokenInvariant)) throw error;
          });
          if (isBetter) throw new Error(`leaf ${batch.firstLeaf} is proven by the path ${other.join()}`);
        }
      }
    }),
    { numRuns: tries(150) },
  );
  t.ok(good > 0, `${good} records`);
});
