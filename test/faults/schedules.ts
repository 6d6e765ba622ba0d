/** Schedules of the simulator, as a fault of the table. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { collect, ENVIRONMENT } from '../support/daemon.ts';
import type { Outcome } from './play.ts';

const RUN = fileURLToPath(new URL('../simulator/run.ts', import.meta.url));
const SCHEDULES = 20_000;

/** Plays schedules of a seed, each another one. A broken promise comes with its shortest schedule, as lines to read. */
export async function playSchedules(seed: number, ...options: string[]): Promise<Outcome> {
  const args = [RUN, ...options, '--schedules', `${SCHEDULES}`];
  const child = spawn(process.execPath, args, {
    env: { ...ENVIRONMENT, PDFSEALD_SEED: `${seed}` },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [stdout, stderr] = [collect(child.stdout), collect(child.stderr)];
  const [status, signal] = (await once(child, 'close')) as [number | null, string | null];
  const isWhole = stdout().includes(`${SCHEDULES} schedules, `);
  if (status === 0 && isWhole) return { ending: `${SCHEDULES} schedules`, against: [] };
  const lines = (stdout() + stderr()).trimEnd().split('\n');
  return { ending: `ended with ${status ?? signal}`, against: lines };
}
