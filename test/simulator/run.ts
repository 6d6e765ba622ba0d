/**
 * Runs schedules: `[PDFSEALD_SEED=S] node test/simulator/run.ts [--outbox] [--schedules N] [--as-found]`. When one breaks a promise, it ends with 1 and shows
 * that schedule, as short as it can be made. `--schedule '[0,[1,2]]'` replays one as it was shown.
 */
import { parseArgs } from 'node:util';
import { BATCH_STATES } from '../../src/seal/batchStates.ts';
import { fc } from '../support/seed.ts';
import { OutboxSchedule } from './outboxSchedule.ts';
import { Schedule } from './schedule.ts';
import { Broken } from './world.ts';

const { values } = parseArgs({
  options: {
    schedules: { type: 'string', default: '10000' },
    outbox: { type: 'boolean', default: false },
    schedule: { type: 'string' },
    table: { type: 'boolean', default: false },
    'as-found': { type: 'boolean', default: false },
  },
});
const STEPS_MAX = 150;
/** Of the history of a schedule: what goes on for ever needs no more. */
const LINES_MAX = 120;
const steps = fc.noBias(fc.array(fc.noBias(fc.nat({ max: 2 ** 24 })), { maxLength: STEPS_MAX, size: 'max' }));

type Numbers = [first: number, list: number[]];

/** Schedules of the sealer that broke a promise once. They are the first of every run. */
const FOUND: Numbers[] = [
  // A partition missed a batch that joined two that it had signed, and kept the trees of those instead of the committed one.
  [0, [0, 12070740, 3788600, 0, 12225600, 10544975, 0, 12431740, 11952640, 4804740]],
];

let stray: unknown;
process.on('unhandledRejection', (error) => {
  stray ??= error;
});

async function play(first: number, list: readonly number[]): Promise<void> {
  const schedule = values.outbox ? new OutboxSchedule(first) : new Schedule(first);
  stray = undefined;
  try {
    await schedule.run(list);
    if (stray !== undefined) throw stray;
  } catch (error) {
    throw Object.assign(error as Error, { history: schedule.world.history });
  }
}

/** The operations of devices that lead from one state of the table to the next. */
const OPERATIONS = [
  'partition',
  'time-stamp authority',
  'store: announcement',
  'witness',
  'store: batch',
] as const;
/** The schedules with these numbers have, together, all that a batch needs: a time-stamp or none, witnesses or none. */
const KINDS = [0, 1, 3, 4];

/** Lets every step of the table go wrong in every way. The transitions that were seen must be those of the table. */
async function playTable(): Promise<void> {
  const unseen = new Set(
    Object.entries(BATCH_STATES).flatMap(([from, { next }]) => next.map((to) => `${from} → ${to}`)),
  );
  let played = 0;
  for (const first of KINDS)
    for (const operation of OPERATIONS)
      for (let way = 0, isPossible = true; isPossible; way++) {
        const schedule = new Schedule(first);
        played += 1;
        isPossible = await schedule.runStep(operation, way).catch((error) => {
          const { history } = schedule.world;
          throw Object.assign(error, { history: [`${operation}, way ${way}`, ...history], played });
        });
        for (const transition of schedule.world.progress.seen) unseen.delete(transition);
      }
  const error = new Broken(`never seen: ${[...unseen].join(', ')}`);
  if (stray !== undefined || unseen.size > 0) throw Object.assign(stray ?? error, { played });
  console.log(`${played} schedules, one for each way in which a step can fail`);
}

if (values.table) {
  await playTable().catch((error) => {
    console.log(
      [error.stack, ...(error.history ?? []), `${error.played} schedules, then it failed`].join('\n  '),
    );
    process.exit(1);
  });
  process.exit(0);
}

const given = values.schedule === undefined ? undefined : (JSON.parse(values.schedule) as Numbers);
const begun = performance.now();
// Most errors are refusals that callers get, and a stack costs more than all else about them.
Error.stackTraceLimit = 0;
const result = await fc.check(fc.asyncProperty(fc.nat({ max: 29 }), steps, play), {
  numRuns: given === undefined ? Number(values.schedules) : 1,
  examples: [...(given === undefined ? [] : [given]), ...(values.outbox ? [] : FOUND)],
  endOnFailure: values['as-found'],
});
if (result.counterexample !== null) {
  Error.stackTraceLimit = 10;
  const error = await play(...result.counterexample).catch((broken) => broken);
  console.log(error?.stack ?? 'Error: the same schedule goes well the second time');
  console.log(`  schedule ${JSON.stringify(result.counterexample)}:`);
  for (const line of (error?.history ?? []).slice(0, LINES_MAX)) console.log(`  ${line}`);
}
console.log(`${result.numRuns} schedules, ${Math.round(performance.now() - begun)} ms`);
process.exit(result.failed ? 1 : 0);
