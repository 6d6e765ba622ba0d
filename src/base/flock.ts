import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { OperatorError } from './errors.ts';
import { DATAGRAM_ADDON, openDatagramAddon } from './journal.ts';

/** As flock(2) has them. */
export type LockKind = 'shared' | 'exclusive';

/** flock(2), which Node lacks. It never waits, and tells whether the open file has the lock. Throws Error with the system's words. */
interface FlockAddon {
  flock(file: number, kind: LockKind | 'unlock'): boolean;
}

let loaded: FlockAddon | false | undefined;

/** Locks an open file if nobody has a lock that forbids it; false if somebody has. */
export function tryLock(file: number, kind: LockKind): boolean {
  return addon()?.flock(file, kind) ?? runProgram(file, kind, '--nonblock');
}

/** As {@link tryLock}, but waits for so many seconds. */
export async function lockInTime(file: number, kind: LockKind, seconds: number): Promise<boolean> {
  if (addon()?.flock(file, kind)) return true;
  const child = spawn('flock', [`--${kind}`, '--timeout', `${seconds}`, '3'], { stdio: withFile(file) });
  try {
    const [status] = await once(child, 'close');
    return status === 0;
  } catch (error) {
    throw noProgram(error);
  }
}

export function unlock(file: number): void {
  const { flock = runProgram } = addon() ?? {};
  flock(file, 'unlock');
}

/** Undefined where it was not built. */
function addon(): FlockAddon | undefined {
  loaded ??= existsSync(DATAGRAM_ADDON) && openDatagramAddon<FlockAddon>();
  return loaded || undefined;
}

/** The program of util-linux locks the open file that it shares with this process. */
function runProgram(file: number, ...args: string[]): boolean {
  const [kind, ...more] = args;
  const { status, error } = spawnSync('flock', [`--${kind}`, ...more, '3'], { stdio: withFile(file) });
  if (error !== undefined) throw noProgram(error);
  return status === 0;
}

/** As the descriptor 3 of a child. */
function withFile(file: number): ('ignore' | number)[] {
  return ['ignore', 'ignore', 'ignore', file];
}

function noProgram(cause: unknown): OperatorError {
  return new OperatorError('flock (package util-linux) cannot be run', { cause });
}
