/**
 * Calls of the C library that fail: libfiu stands before it in the daemon. Each call fails with a probability, from the start on; or the next one
 * fails, whenever libfiu is told so while clients send. Some calls cannot fail so: libfiu does not know accept4, mkdir, and the calls with which
 * Node.js takes memory; and without the reads and writes that wake its threads, or without malloc, Node.js aborts.
 */
import { execFile } from 'node:child_process';
import { constants } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { failUnder, STORE_UNWRITABLE } from './failingCalls.ts';
import type { Outcome, Round } from './play.ts';

interface Point {
  /** As libfiu names it. */
  point: string;
  errors: (keyof typeof constants.errno)[];
  /** The signal by which a library ends the process, where nothing can be done about it. */
  crashes?: string;
}

export const POINTS: readonly Point[] = [
  { point: 'posix/io/sync/fdatasync', errors: ['EIO', 'ENOSPC', 'EINTR'] },
  { point: 'posix/io/sync/fsync', errors: ['EIO', 'ENOSPC', 'EINTR'] },
  { point: 'posix/io/rw/pwrite', errors: ['EIO', 'ENOSPC', 'EROFS'], crashes: STORE_UNWRITABLE },
  { point: 'posix/io/rw/pwrite/reduce', errors: ['EIO'], crashes: STORE_UNWRITABLE },
  { point: 'posix/io/rw/pread', errors: ['EIO', 'EINTR', 'ENOMEM'] },
  { point: 'posix/io/rw/pread/reduce', errors: ['EIO'] },
  { point: 'posix/io/rw/ftruncate', errors: ['EIO', 'ENOSPC', 'EFBIG'] },
  { point: 'posix/io/oc/open', errors: ['EMFILE', 'ENFILE', 'ENOMEM', 'EIO'] },
  { point: 'posix/io/net/socket', errors: ['EMFILE', 'ENFILE', 'ENOBUFS'] },
  { point: 'posix/io/net/connect', errors: ['ECONNREFUSED', 'ETIMEDOUT', 'EADDRNOTAVAIL'] },
  { point: 'posix/io/dir/rename', errors: ['EIO', 'ENOSPC', 'EROFS'] },
  { point: 'posix/io/dir/unlink', errors: ['EIO', 'EROFS', 'EBUSY'] },
];

const PROBABILITIES = [0.01, 0.03, 0.1];
/** So often the next call fails, and how long after one another. */
const STRIKES = 4;
const PAUSE_MS_MAX = 1200;

/** Consecutive seeds take turns between the two ways, and go through the errors of a point. */
export function failLibrary({ point, errors, crashes }: Point, seed: number): Promise<Outcome> {
  const turn = Math.floor(seed / 2);
  const error = errors[turn % errors.length] ?? 'EIO';
  const failure = `name=${point},failinfo=${constants.errno[error]}`;
  const what = `${point}: ${error}`;
  const fiuRun = (round: Round) => ['fiu-run', '-x', '-f', pipesOf(round)];
  if (seed % 2 === 0) {
    const probability = PROBABILITIES[turn % PROBABILITIES.length];
    const command = `enable_random ${failure},probability=${probability}`;
    return failUnder(seed, { what, signal: crashes, through: (round) => [...fiuRun(round), '-c', command] });
  }
  return failUnder(seed, {
    what,
    signal: crashes,
    through: fiuRun,
    during: async (round) => {
      for (let strike = 0; strike < STRIKES; strike++) {
        await sleep(round.random() * PAUSE_MS_MAX);
        const args = ['-f', pipesOf(round), '-c', `enable ${failure},onetime`, `${round.daemon.pid}`];
        // It may have ended at the one before.
        await tell('fiu-ctrl', args, { timeout: 5000 }).catch(() => {});
      }
    },
  });
}

const tell = promisify(execFile);

function pipesOf({ sandbox }: Round): string {
  return join(sandbox.dir, 'fiu');
}
