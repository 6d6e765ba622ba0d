import {
  closeSync,
  constants,
  existsSync,
  fchownSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readFileSync,
  statSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { OperatorError } from './errors.ts';
import { NoLocks, tryLock } from './flock.ts';
import { codeOf, remedyFor, systemReason } from './systemReason.ts';

const LOOK_MS = 1_000;
const RETRY_MS = 100;

/**
 * Takes the daemon's exclusive lock: flock(2) on an open file. The lock ends with the process, for whatever reason, so locks cannot become
 * stale. Node opens files close-on-exec, so children do not inherit the lock. Throws OperatorError with the holder's process id if another
 * daemon has it. `program`: the name of the program.
 */
export function acquireLock(path: string, program = 'pdfseald'): DaemonLock {
  return new DaemonLock(path, program);
}

export interface LockWait {
  waitMs: number;
  signal: AbortSignal;
  /** Called once, if there is a holder to wait for. */
  onWait(inUse: FolderInUse): void;
}

/** Takes the lock as {@link acquireLock} does, after waiting for its holder for at most `waitMs`. Undefined if `signal` aborts first. */
export async function waitForLock(path: string, wait: LockWait): Promise<DaemonLock | undefined> {
  const { waitMs, signal, onWait } = wait;
  const giveUpAt = performance.now() + waitMs;
  let isTold = false;
  while (!signal.aborted) {
    try {
      return acquireLock(path);
    } catch (error) {
      if (!(error instanceof FolderInUse) || performance.now() >= giveUpAt) throw error;
      if (!isTold) onWait(error);
      isTold = true;
    }
    await sleep(RETRY_MS, undefined, { signal }).catch(() => {});
  }
  return undefined;
}

/** Another process has the lock. */
export class FolderInUse extends OperatorError {
  /** Its process id, or `unknown`. */
  readonly holder: string;

  constructor(path: string, program: string) {
    const holder = readFileSync(path, 'utf8').trim() || 'unknown';
    super(`another ${program} (process ${holder}) is using this state folder: ${path} is locked`, {
      remedy: 'wait until it has ended, or stop it',
    });
    this.holder = holder;
  }
}

/** Proof that only this process writes to the state folder. */
export class DaemonLock implements Disposable {
  readonly #path: string;
  readonly #program: string;
  #file: number;
  #timer: NodeJS.Timeout | undefined;

  /** See {@link acquireLock}. */
  constructor(path: string, program: string) {
    this.#path = path;
    this.#program = program;
    this.#file = this.#take(openLockFile(path));
  }

  /**
   * Checks every second whether the path still leads to the locked file: otherwise a second daemon could start after the file was removed.
   * If it does not, this process locks the new file, or calls `onLost` if another process has locked it.
   */
  watch(onLost: (error: unknown) => void): void {
    this.#timer ??= setInterval(() => {
      try {
        this.#look();
      } catch (error) {
        clearInterval(this.#timer);
        onLost(error);
      }
    }, LOOK_MS).unref();
  }

  release(): void {
    clearInterval(this.#timer);
    closeSync(this.#file);
  }

  [Symbol.dispose](): void {
    this.release();
  }

  #look(): void {
    let next: number;
    try {
      if (this.#isAtPath()) return;
      next = openLockFile(this.#path);
    } catch {
      return; // A failing disk is noticed elsewhere, and does not allow another daemon to start.
    }
    const former = this.#file;
    this.#file = this.#take(next);
    closeSync(former);
  }

  #isAtPath(): boolean {
    const found = statSync(this.#path, { bigint: true, throwIfNoEntry: false });
    const own = fstatSync(this.#file, { bigint: true });
    return found?.ino === own.ino && found.dev === own.dev;
  }

  #take(file: number): number {
    try {
      assertLocked(file, this.#path, this.#program);
    } catch (error) {
      closeSync(file);
      throw error;
    }
    noteHolder(file);
    return file;
  }
}

/**
 * Process id of the daemon that holds the lock at `path`, or `unknown`; undefined if the lock is free. Does not take the lock, and does not
 * wait.
 */
export function lockHolder(path: string): string | undefined {
  let inode: bigint;
  try {
    inode = statSync(path, { bigint: true }).ino;
  } catch {
    return undefined;
  }
  // proc_locks(5): "1: FLOCK ADVISORY WRITE 1234 08:01:5678 0 EOF". The listed process may be a program that took the lock for the daemon.
  const held = readFileSync('/proc/locks', 'utf8')
    .split('\n')
    .some((line) => isLockOf(line, inode));
  return held ? readFileSync(path, 'utf8').trim() || 'unknown' : undefined;
}

function isLockOf(line: string, inode: bigint): boolean {
  const [, kind, , , , file = ''] = line.split(/ +/);
  return kind === 'FLOCK' && file.split(':')[2] === String(inode);
}

/** Records the holder of the lock. The lock is valid even if a full disk prevents that. */
function noteHolder(file: number): void {
  try {
    ftruncateSync(file);
    writeSync(file, `${process.pid}\n`);
  } catch {
    // Other processes then report the holder as "unknown".
  }
}

/** Root may lock a folder of another user, so a link placed there is not followed. */
const MODE = constants.O_RDWR | constants.O_APPEND | constants.O_NOFOLLOW;

/** Undefined if the file exists. If root creates it, the owner of the folder must be able to open it. */
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

/** Throws OperatorError with the holder's process id, or if the file system grants the lock to more than one process. */
function assertLocked(file: number, path: string, program: string): void {
  if (!tryLock(file, 'exclusive')) throw new FolderInUse(path, program);
  // flock(2) applies to open files: a second one of this process must not get the lock either.
  const second = openSync(path, MODE);
  try {
    if (tryLock(second, 'exclusive'))
      throw new NoLocks(path, 'its file system gives the same lock to every process');
  } finally {
    closeSync(second);
  }
}
