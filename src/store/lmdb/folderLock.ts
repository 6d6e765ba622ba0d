import { closeSync, constants, openSync } from 'node:fs';
import { OperatorError } from '../../base/errors.ts';
import { type LockKind, lockInTime, unlock } from '../../base/flock.ts';

/** Who waits gets it between two commits. A stopped process that has it is the only one to take so long. */
const SECONDS_MAX = 30;

/**
 * Keeps those who open an LMDB environment and those who commit to it apart, across processes. Who opens it reads the number of the newest
 * transaction, and a moment later writes that number into the memory that all processes share (mdb_env_open2 of lmdb-js 3.5.6, mended by
 * OpenLDAP in ITS#9496). After a commit in that moment the number is too low, and the next commit of anybody overwrites what was
 * acknowledged. So who opens holds this lock alone, and who commits shares it. It is flock(2) on the folder, and ends with its process.
 */
export class FolderLock {
  readonly #path: string;
  readonly #folder: number;
  #isClosed = false;

  constructor(path: string) {
    this.#path = path;
    this.#folder = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY);
  }

  /** Does the work with the lock, and lets go of it; for one work at a time. Throws OperatorError when others do not let go of it. */
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

  /** More than once does no harm. */
  close(): void {
    if (!this.#isClosed) closeSync(this.#folder);
    this.#isClosed = true;
  }
}
