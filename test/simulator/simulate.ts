import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { random } from '../support/seed.ts';

const seed = `${Math.floor(random() * 2 ** 31)}`;

/** Runs schedules in a process of their own, since they take over its timers; the history of the one that broke a promise. */
export async function simulate(options: readonly string[], mutant?: string): Promise<string | undefined> {
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
