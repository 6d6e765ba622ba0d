import { closeSync, constants, openSync } from 'node:fs';
import { OperatorError } from '../../base/errors.ts';
import { type LockKind, lockInTime, unlock } from '../../base/flock.ts';

/** Waiting processes get the lock between two commits. Only a stopped process that holds it can take this long. */
const SECONDS_MAX = 30;

/**
 * Keeps processes that open an LMDB environment apart from those that commit to it. Opening reads the number of the newest transaction, and
 * a moment later writes that number into the memory that all processes share (mdb_env_open2 of lmdb-js 3.5.6, mended by OpenLDAP in
 * ITS#9496). After a commit in that moment the number is too low, and the next commit of any process overwrites acknowledged data. So
 * openers hold this lock exclusively, and committers hold it in shared mode. It is flock(2) on the folder, and ends with its process.
 */
export class FolderLock {
  readonly #path: string;
  readonly #folder: number;
  #isClosed = false;

  constructor(path: string) {
    this.#path = path;
    this.#folder = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY);
  }

  /** Does the work while holding the lock, and releases it; for one work at a time. Throws OperatorError if others do not release it. */
  async holding<T>(kind: LockKind, work: () => T | Promise<T>): Promise<T> {
    if (!(await lockInTime(this.#folder, kind, SECONDS_MAX)))
      throw new OperatorError(
        `the store in ${this.#path} was busy for ${SECONDS_MAX} s; see who has locked the folder: lslocks`,
      );
    try {
      return await work();
    } finally {
      unlock(this.#folder);
    }
  }

  /** Further calls do nothing. */
  close(): void {
    if (!this.#isClosed) closeSync(this.#folder);
    this.#isClosed = true;
  }
}
