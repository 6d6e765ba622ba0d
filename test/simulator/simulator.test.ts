import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import t from 'tap';
import { random } from '../support/seed.ts';
import { MUTANTS } from './mutants.ts';

/** The rarest fault shows in one of about 5,000 schedules. Each run ends with the first that it shows in. */
const SCHEDULES_TO_CATCH = '200000';

const seed = `${Math.floor(random() * 2 ** 31)}`;

/** Runs schedules in a process of their own, since they take over its timers; the history of the one that broke a promise. */
async function simulate(options: readonly string[], mutant?: string): Promise<string | undefined> {
  const program = ['--import=./test/simulator/mutants.ts', 'test/simulator/run.ts', ...options];
  const env = { ...process.env, PDFSEALD_SEED: seed, PDFSEALD_MUTANT: mutant };
  try {
    await promisify(execFile)(process.execPath, program, { env });
    return undefined;
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    // Anything else is no verdict.
    if (code !== 1 || !stdout.includes(' schedules, ')) throw new Error(`${stderr}\n${stdout}`);
    return stdout;
  }
}

t.test('no schedule breaks a promise of the sealer', async (t) => {
  t.equal(await simulate(['--schedules', '3500']), undefined);
});

t.test('no schedule breaks a promise of the outbox', async (t) => {
  t.equal(await simulate(['--outbox', '--schedules', '1500']), undefined);
});

for (const [mutant, { file }] of Object.entries(MUTANTS)) {
  t.test(`is caught: a daemon that ${mutant}`, async (t) => {
    const options = ['--as-found', '--schedules', SCHEDULES_TO_CATCH];
    if (file.startsWith('webhook/')) options.push('--outbox');
    t.match(await simulate(options, mutant), / {2}schedule \[/);
  });
}
