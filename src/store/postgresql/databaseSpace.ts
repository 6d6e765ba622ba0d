import { setTimeout as sleep } from 'node:timers/promises';
import type { StoreSpace } from '../store.ts';
import { StoreError } from '../storeError.ts';
import { isDiskFull, isLost } from './pgSession.ts';

/** Interval at which a database whose disk is full is checked for space. */
const PROBE_MS = 1_000;

export interface DatabaseSpaceOptions {
  /** Writes some MiB on the server and discards them. Throws the server's error. */
  probe(): Promise<void>;
  /** Called when the disk is found full, and when it has space again. */
  onFull(isFull: boolean): void;
}

/**
 * Whether the disk of the database has space. Only the server knows, and reports it when it has no space for a write: from then on it is
 * checked repeatedly.
 */
export class DatabaseSpace implements StoreSpace {
  readonly #options: DatabaseSpaceOptions;
  /** Resolves when there is space again. Absent while there is. */
  #regained: PromiseWithResolvers<void> | undefined;
  readonly #closing = new AbortController();

  constructor(options: DatabaseSpaceOptions) {
    this.#options = options;
  }

  get isFull(): boolean {
    return this.#regained !== undefined;
  }

  admit(): void {
    if (this.isFull) throw new StoreError({ code: 'disk_full' });
  }

  /** Call this when the server had no space for a write. Returns the error for the caller. */
  refused(cause: unknown): StoreError {
    if (this.#regained === undefined && !this.#closing.signal.aborted) {
      this.#regained = Promise.withResolvers();
      this.#options.onFull(true);
      void this.#probeUntilSpace(this.#regained);
    }
    return new StoreError({ code: 'disk_full' }, cause);
  }

  /** Resolves when there may be space for the refused write. */
  async regained(): Promise<void> {
    await this.#regained?.promise;
  }

  close(): void {
    this.#closing.abort();
  }

  /** Never rejects. */
  async #probeUntilSpace({ resolve }: PromiseWithResolvers<void>): Promise<void> {
    const { signal } = this.#closing;
    do await sleep(PROBE_MS, undefined, { ref: false, signal }).catch(() => {});
    while (!signal.aborted && !(await this.#hasSpace()));
    if (signal.aborted) return;
    this.#regained = undefined;
    this.#options.onFull(false);
    resolve();
  }

  /** If the server cannot be queried, or does not let this role write so much, the next write finds out. */
  async #hasSpace(): Promise<boolean> {
    try {
      await this.#options.probe();
      return true;
    } catch (error) {
      return !isDiskFull(error) && !isLost(error);
    }
  }
}
