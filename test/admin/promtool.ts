import { spawnSync } from 'node:child_process';

/** Runs promtool of Debian's `prometheus`; all it said, and its exit status. */
export function promtool(args: string[], input = ''): { status: number | null; output: string } {
  const { status, stdout, stderr, error } = spawnSync('promtool', args, { input, encoding: 'utf8' });
  if (error) throw error;
  return { status, output: stdout + stderr };
}
