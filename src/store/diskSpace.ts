import { statfsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { StoreError } from './storeError.ts';

/** Writes to the log whether the disk of the database has space. */
export function logDatabaseSpace(logger: Logger): (isFull: boolean) => void {
  return (isFull) => {
    if (isFull)
      logger.error(
        { event: 'database_full' },
        'the disk of the database is full: no more jobs are accepted, and sealing waits for space',
      );
    else
      logger.info(
        { event: 'database_has_space' },
        'the disk of the database has space again: jobs are accepted',
      );
  };
}

export interface DiskSpaceOptions {
  /** Folder of the store. */
  path: string;
  /** With less free space, jobs are not accepted. */
  freeBytesMin: number;
  logger: Logger;
}

/** Lifetime of a measurement, milliseconds: it takes microseconds, but thousands of requests come in a second. */
const MEASURED_MS_MAX = 20;
/** Interval at which a write that waits for disk space measures the disk, milliseconds. */
const POLL_MS = 250;
/** Maximum disk space for a change: a page of a tree and, now and then, one above it. */
const CHANGE_BYTES = 8192;
const COMMIT_BYTES = 1 << 20;

/**
 * The free space on the store's disk. The service reacts before the disk is full: first it refuses new jobs, and seals those it has; with
 * hardly any space left, writes wait instead of failing half-way. Both end by themselves.
 */
export class DiskSpace {
  readonly #options: DiskSpaceOptions;
  #freeBytes = 0;
  #measuredAt = Number.NEGATIVE_INFINITY;
  #full = false;

  constructor(options: DiskSpaceOptions) {
    this.#options = options;
  }

  /** Throws StoreError `disk_full` while there is no space for more jobs. */
  admit(): void {
    if (this.isFull) throw new StoreError({ code: 'disk_full' });
  }

  /** Resolves when there is space for a commit of that many changes; undefined if there is now. */
  forCommit(changes: number): Promise<void> | undefined {
    if (!this.isFull) return undefined;
    const bytes = Math.min(COMMIT_BYTES + changes * CHANGE_BYTES, this.#options.freeBytesMin / 2);
    return this.#measure() < bytes ? this.#wait(bytes) : undefined;
  }

  async #wait(bytes: number): Promise<void> {
    const { logger } = this.#options;
    logger.error(
      { event: 'writes_wait', free_bytes: this.#freeBytes, needed_bytes: bytes },
      'the disk is full: writes wait for room',
    );
    while (this.#measure() < bytes) await sleep(POLL_MS);
    logger.info(
      { event: 'writes_go_on', free_bytes: this.#freeBytes },
      'there is room again: writes continue',
    );
  }

  /** Whether new jobs are refused. Full and free are an eighth apart, so that the state does not flutter. */
  get isFull(): boolean {
    const { freeBytesMin, logger } = this.#options;
    const free = this.#measure();
    const full = free < (this.#full ? freeBytesMin * 1.125 : freeBytesMin);
    if (full !== this.#full) {
      this.#full = full;
      const fields = { free_bytes: free, free_bytes_min: freeBytesMin };
      if (full)
        logger.error(
          { event: 'disk_nearly_full', ...fields },
          'the disk is nearly full: no more jobs are accepted',
        );
      else logger.info({ event: 'disk_has_room', ...fields }, 'the disk has room again: jobs are accepted');
    }
    return full;
  }

  #measure(): number {
    const now = performance.now();
    if (now - this.#measuredAt >= MEASURED_MS_MAX) {
      const { bavail, bsize } = statfsSync(this.#options.path);
      this.#freeBytes = bavail * bsize;
      this.#measuredAt = now;
    }
    return this.#freeBytes;
  }
}
