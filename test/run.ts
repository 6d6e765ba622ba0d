/**
 * Runs tests: picks the files, starts tap, shows how far it is, and ends with what failed and how to repeat it.
 *
 *   npm test                        the quick tier: every unit, and one journey of each kind
 *   npm test -- --rest              what the quick tier leaves out, and properties with all of their random inputs
 *   npm test -- --all               both in one run
 *   npm test -- --changed [REV]     the tests nearest to what differs from REV (default HEAD), within a minute
 *   npm test -- FILE ...            these files
 *
 * `--record` also writes the processor time of each file to `test/bench/suite.json`. `--again` runs the files that failed once
 * more, alone and with the same random inputs, if they are few: what passes then depends on what else the machine does, and is named.
 * The exit status is 1 if anything failed.
 */
import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';
import { nearestTo } from './suite/changed.ts';
import { runFiles, type Totals } from './suite/runFiles.ts';
import { recordCosts } from './suite/suiteCosts.ts';
import { allFiles, isLeftOut, leftOut, needsRoot, QUICK_SHARE, type Tier, tierFiles } from './suite/tiers.ts';

/** More failures than these are no accident. */
const AGAIN_MAX = 3;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    all: { type: 'boolean' },
    rest: { type: 'boolean' },
    changed: { type: 'boolean' },
    record: { type: 'boolean' },
    again: { type: 'boolean' },
  },
});
const tier: Tier = values.all ? 'all' : values.rest ? 'rest' : 'quick';
const isWhole = !values.changed && positionals.length === 0;

// Tools that only the rest needs are installed only for it. A failed step has said why.
const { files, share, afterwards } = pick();
if (files.some(isLeftOut)) step('sh', 'test/setup.sh', '--all-tests');
if (isWhole && tier !== 'rest') step('npm', 'run', '--silent', 'check');

const rootless = process.getuid?.() === 0 ? [] : files.filter((file) => needsRoot(file) !== undefined);
for (const file of rootless)
  console.log(`left out, because only root can run it (${needsRoot(file)}): ${file}`);
const first = await runFiles(
  files.filter((file) => !rootless.includes(file)),
  { share },
);
const unsteady = values.again ? await passingAlone(first) : [];
if (values.record) recordCosts(first.costs);
if (afterwards !== undefined) console.log(afterwards);
for (const file of unsteady)
  console.log(`passes alone, so it depends on what else the machine does: ${file}`);
const failed = unsteady.length > 0 ? 0 : first.failed;
console.log(`${first.passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;

function step(command: string, ...args: string[]): void {
  const { status } = spawnSync(command, args, { stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}

/** The files, the share of random inputs that they try, and what to say at the end. */
function pick(): { files: string[]; share: number; afterwards?: string } {
  if (values.changed) {
    const { files, omitted } = nearestTo(positionals[0] ?? 'HEAD');
    const more = `${omitted} more test files depend on the change: npm test`;
    return { files, share: QUICK_SHARE, ...(omitted > 0 && { afterwards: more }) };
  }
  if (positionals.length > 0) return { files: positionals, share: 1 };
  const afterwards = `Left out: ${leftOut()}. To run that as well: npm test -- --rest`;
  if (tier === 'quick') return { files: tierFiles(tier), share: QUICK_SHARE, afterwards };
  return { files: tier === 'all' ? allFiles() : tierFiles(tier), share: 1 };
}

/** The files that failed, if they are few and each passes alone. */
async function passingAlone({ failures }: Totals): Promise<string[]> {
  const again = [...failures];
  if (again.length > AGAIN_MAX) return [];
  for (const [file, seed] of again) {
    console.log(`\nAgain, alone: ${file}`);
    const { failed } = await runFiles([file], { share, jobs: 1, ...(seed !== undefined && { seed }) });
    if (failed > 0) return [];
  }
  return again.map(([file]) => file);
}
