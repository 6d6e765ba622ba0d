import { spawnSync } from 'node:child_process';

/** Runs the stock openssl; `output` is what it printed, errors too. */
export function openssl(...args: string[]): { status: number | null; output: string } {
  const { status, stdout, stderr, error } = spawnSync('openssl', args, { encoding: 'utf8', timeout: 30_000 });
  if (error) throw error;
  return { status, output: stdout + stderr };
}
