import {
  closeSync,
  constants,
  existsSync,
  fchownSync,
  ftruncateSync,
  openSync,
  readFileSync,
  statSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { OperatorError } from './errors.ts';
import { tryLock } from './flock.ts';
import { codeOf, remedyFor, systemReason } from './systemReason.ts';

/** Proof that this process alone writes to the state folder. */
export interface DaemonLock extends Disposable {
  release(): void;
}

/**
 * Takes the daemon's exclusive lock: flock(2) on an open file. The lock ends with the process, however that ends, so there are no stale
 * locks. Node opens files close-on-exec: children do not inherit the lock.
 * Throws OperatorError with the holder's process id when another daemon has it. `program`: its name.
 */
export function acquireLock(path: string, program = 'pdfseald'): DaemonLock {
  const file = openLockFile(path);
  try {
    assertLocked(file, path, program);
  } catch (error) {
    closeSync(file);
    throw error;
  }
  noteHolder(file);
  const release = () => closeSync(file);
  return { release, [Symbol.dispose]: release };
}

/** Process id of the daemon that holds the lock at `path`, or `unknown`; undefined while none does. Takes no lock and does not wait. */
export function lockHolder(path: string): string | undefined {
  let inode: bigint;
  try {
    inode = statSync(path, { bigint: true }).ino;
  } catch {
    return undefined;
  }
  // proc_locks(5): "1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF". The process there may be a program that locked for the daemon.
  const held = readFileSync('/proc/locks', 'utf8')
    .split('\n')
    .some((line) => isLockOf(line, inode));
  return held ? readFileSync(path, 'utf8').trim() || 'unknown' : undefined;
}

function isLockOf(line: string, inode: bigint): boolean {
  const [, kind, , , , file = ''] = line.split(/ +/);
  return kind === 'FLOCK' && file.split(':')[2] === String(inode);
}

/** Writes down who holds the lock. A daemon holds it even where a full disk prevents that. */
function noteHolder(file: number): void {
  try {
    ftruncateSync(file);
    writeSync(file, `${process.pid}\n`);
  } catch {
    // Others are told "unknown".
  }
}

/** Root may lock a folder of another user: a link that was put there is not followed. */
const MODE = constants.O_RDWR | constants.O_APPEND | constants.O_NOFOLLOW;

/** Undefined if there is one. What root makes, the user of the folder must be able to open. */
function makeLockFile(path: string): number | undefined {
  try {
    const file = openSync(path, MODE | constants.O_CREAT | constants.O_EXCL, 0o600);
    const { uid, gid } = statSync(dirname(path));
    if (process.getuid?.() === 0) fchownSync(file, uid, gid);
    return file;
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return undefined;
    throw error;
  }
}

function openLockFile(path: string): number {
  try {
    return makeLockFile(path) ?? openSync(path, MODE);
  } catch (error) {
    const remedy = existsSync(dirname(path))
      ? remedyFor(error)
      : 'make state folder and store with `pdfseal init`';
    throw new OperatorError(`cannot open ${path} (${systemReason(error)}): ${remedy}`, { cause: error });
  }
}

/** Throws OperatorError with the holder's process id. */
function assertLocked(file: number, path: string, program: string): void {
  if (tryLock(file, 'exclusive')) return;
  const holder = readFileSync(path, 'utf8').trim() || 'unknown';
  throw new OperatorError(
    `another ${program} (process ${holder}) is using this state folder: ${path} is locked`,
    { remedy: 'wait until it has ended, or stop it' },
  );
}
