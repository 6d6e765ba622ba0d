import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readlinkSync } from 'node:fs';
import { OperatorError } from './errors.ts';
import { DATAGRAM_ADDON, openDatagramAddon } from './journal.ts';
import { systemReason } from './systemReason.ts';

/** As in flock(2). */
export type LockKind = 'shared' | 'exclusive';

/** The file system does not support locks: an export without locks, a failed lock service, or a broken disk. */
export class NoLocks extends OperatorError {
  constructor(path: string, reason: string) {
    super(`cannot lock ${path}: ${reason}`, {
      remedy:
        'repair its disk, or put it on a local file system: without locks, two programs would write to one store',
    });
  }
}

/** flock(2), which Node lacks. It never waits, and returns whether the open file has the lock. Throws Error with the system's message. */
interface FlockAddon {
  flock(file: number, kind: LockKind | 'unlock'): boolean;
}

let loaded: FlockAddon | false | undefined;

/** Locks an open file unless a conflicting lock exists; returns false if one does. Throws NoLocks. */
export function tryLock(file: number, kind: LockKind): boolean {
  return callAddon(file, kind) ?? runProgram(file, kind, '--nonblock');
}

/** Like {@link tryLock}, but waits for up to that many seconds. */
export async function lockInTime(file: number, kind: LockKind, seconds: number): Promise<boolean> {
  if (callAddon(file, kind)) return true;
  const args = [`--${kind}`, '--timeout', `${seconds}`, '3'];
  const child = spawn('flock', args, { stdio: withFile(file) });
  try {
    const [status] = await once(child, 'close');
    return isLocked(status, file);
  } catch (error) {
    throw error instanceof NoLocks ? error : noProgram(error);
  }
}

export function unlock(file: number): void {
  if (callAddon(file, 'unlock') === undefined) runProgram(file, 'unlock');
}

/** Undefined if the add-on was not built. */
function callAddon(file: number, kind: LockKind | 'unlock'): boolean | undefined {
  try {
    return addon()?.flock(file, kind);
  } catch (error) {
    throw new NoLocks(pathOf(file), systemReason(error));
  }
}

function pathOf(file: number): string {
  return readlinkSync(`/proc/self/fd/${file}`);
}

/** Undefined if it was not built. */
function addon(): FlockAddon | undefined {
  loaded ??= existsSync(DATAGRAM_ADDON) && openDatagramAddon<FlockAddon>();
  return loaded || undefined;
}

/** The util-linux program locks the open file that it shares with this process. */
function runProgram(file: number, ...args: string[]): boolean {
  const [kind, ...more] = args;
  const { status, error } = spawnSync('flock', [`--${kind}`, ...more, '3'], { stdio: withFile(file) });
  if (error !== undefined) throw noProgram(error);
  return isLocked(status, file);
}

/** flock(1) exits with 1 if the lock is taken, and with other statuses after system errors. */
function isLocked(status: number | null, file: number): boolean {
  if (status === 0) return true;
  if (status === 1) return false;
  throw new NoLocks(pathOf(file), `flock ended with ${status}`);
}

/** Passed to the child as descriptor 3. */
function withFile(file: number): ('ignore' | number)[] {
  return ['ignore', 'ignore', 'ignore', file];
}

function noProgram(cause: unknown): OperatorError {
  return new OperatorError('flock (package util-linux) cannot be run', { cause });
}
