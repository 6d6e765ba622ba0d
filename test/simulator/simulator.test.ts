import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import t from 'tap';
import { random } from '../support/seed.ts';
import { MUTANTS } from './mutants.ts';

const SCHEDULES = 10_000;

/** Runs schedules in a process of their own, since they take over its timers; the history of the one that broke a promise. */
async function simulate(options: { seed: number; mutant?: string }): Promise<string | undefined> {
  const { seed, mutant } = options;
  const counts = ['--schedules', `${SCHEDULES}`];
  const program = ['--import=./test/simulator/mutants.ts', 'test/simulator/run.ts', ...counts];
  if (mutant !== undefined) program.push('--as-found');
  try {
    await promisify(execFile)(process.execPath, program, {
      env: { ...process.env, PDFSEALD_SEED: `${seed}`, PDFSEALD_MUTANT: mutant },
    });
    return undefined;
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    // Anything else is no verdict.
    if (code !== 1 || !stdout.includes(' schedules, ')) throw new Error(`${stderr}\n${stdout}`);
    return stdout;
  }
}

const seed = Math.floor(random() * 2 ** 31);

t.test('no schedule breaks a promise', async (t) => {
  t.equal(await simulate({ seed }), undefined);
});

for (const mutant of Object.keys(MUTANTS)) {
  t.test(`is caught: a daemon that ${mutant}`, async (t) => {
    t.match(await simulate({ seed, mutant }), / {2}schedule \[/);
  });
}
