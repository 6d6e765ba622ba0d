/**
 * `npm run faults -- [--minutes N] [--runs N] [--seed S] [--only TEXT]`: runs the faults in turn, each with seeds of its own, and prints a
 * table. Ends with 1 if a promise was broken, and with 2 if none was, but a round was too slow to tell. `--only` takes part of a group or a name, `--runs` ends after so many rounds.
 */
import { parseArgs } from 'node:util';
import { FAULTS, type Fault } from './faults.ts';
import { type Outcome, TOO_SLOW } from './play.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    runs: { type: 'string', default: 'Infinity' },
    seed: { type: 'string', default: String(Date.now() % 2 ** 31) },
    only: { type: 'string', default: '' },
  },
});
const [minutes, runs, firstSeed] = [values.minutes, values.runs, values.seed].map(Number) as [
  number,
  number,
  number,
];
const faults = FAULTS.filter(({ group, name }) => `${group}: ${name}`.includes(values.only));
if (faults.length === 0 || [minutes, runs, firstSeed].some(Number.isNaN)) {
  console.error('usage: npm run faults -- [--minutes N] [--runs N] [--seed S] [--only TEXT]; there is:');
  for (const { group, name } of FAULTS) console.error(`  ${group}: ${name}`);
  process.exit(64);
}

interface Row {
  runs: number;
  endings: Map<string, number>;
  broken: number;
  recoveryMs: number;
}

const rows = new Map<Fault, Row>();
const end = performance.now() + minutes * 60_000;
for (let round = 0; round < runs && performance.now() < end; round++) {
  for (const fault of faults) {
    if (performance.now() > end) break;
    const seed = firstSeed + round;
    note(fault, seed, await fault.run(seed).catch(brokenOff));
  }
}
printTable();
const all = [...rows.values()];
if (all.some(({ endings }) => endings.has(TOO_SLOW))) process.exitCode = 2;
if (all.some(({ broken }) => broken > 0)) process.exitCode = 1;

/** The others can still be told. */
function brokenOff(error: unknown): Outcome {
  return { ending: 'broke off', against: [String(error)] };
}

function note(fault: Fault, seed: number, { ending, against, warnings = [], recoveryMs = 0 }: Outcome): void {
  const row = rows.get(fault) ?? { runs: 0, endings: new Map(), broken: 0, recoveryMs: 0 };
  rows.set(fault, row);
  row.runs += 1;
  row.endings.set(ending, (row.endings.get(ending) ?? 0) + 1);
  row.recoveryMs = Math.max(row.recoveryMs, recoveryMs);
  const isBroken = against.length > 0;
  console.error(`${isBroken ? 'BROKEN ' : ''}${fault.group}: ${fault.name}, seed ${seed}: ${ending}`);
  for (const line of [...against, ...warnings]) console.error(`  ${line}`);
  if (!isBroken) return;
  row.broken += 1;
  console.error(`  again: npm run faults -- --runs 1 --seed ${seed} --only '${fault.group}: ${fault.name}'`);
}

function printTable(): void {
  console.log(`\nseed ${firstSeed}, ${minutes} minutes\n`);
  console.log('| Fault | Runs | Outcomes | Broken | Slowest recovery |\n| --- | ---: | --- | ---: | ---: |');
  for (const [{ group, name }, { runs, endings, broken, recoveryMs }] of rows) {
    const outcomes = [...endings].map(([ending, count]) => `${ending}: ${count}`).join(', ');
    const recovery = recoveryMs === 0 ? '' : `${(recoveryMs / 1000).toFixed(1)} s`;
    console.log(`| ${group}: ${name} | ${runs} | ${outcomes} | ${broken} | ${recovery} |`);
  }
}
