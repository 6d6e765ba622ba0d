import { IF_EXISTS } from 'lmdb';
import { within } from '../../base/deadline.ts';
import { oneAtATime } from '../../base/serially.ts';
import type { DiskSpace } from '../diskSpace.ts';
import { UnknownOutcome } from '../store.ts';
import { StoreError } from '../storeError.ts';
import type { Databases, NamedDatabase } from './databases.ts';
import type { Fence } from './fence.ts';

export interface Change {
  database: NamedDatabase;
  key: Uint8Array;
  /** Absent: the entry is removed. */
  value?: Uint8Array;
}

/** Changes that become durable together or not at all. */
export interface Write {
  changes: Change[];
  /** Looked up inside the transaction: if one of these entries exists by then, no part of the write happens. */
  unless?: { database: NamedDatabase; key: Uint8Array }[];
  /** Whether it throws StoreError `disk_full` instead of waiting for disk space. */
  isRefusable?: boolean;
}

interface Pending extends Write {
  resolve: (happened: boolean) => void;
  reject: (error: unknown) => void;
}

/** Upper bound of one transaction; lmdb-js blocks the thread at 300,000 operations not yet done. */
const GROUP_CHANGES_MAX = 50_000;
/** lmdb-js does not report a transaction that it could not begin; and a disk that takes this long will not take any more. */
const COMMIT_MS_MAX = 60_000;

export interface CommitsOptions {
  /** A commit that takes longer has failed. */
  commitMsMax?: number;
  /** A commit waits until the disk has space for it. */
  diskSpace?: Pick<DiskSpace, 'forCommit'> | undefined;
  /** A daemon commits only while its fence stands. Absent for a command, which writes whichever daemon is active. */
  fence?: Fence | undefined;
}

/**
 * Group commit: one transaction at a time is on its way to the disk, and writes made meanwhile form the next one. So all writers that wait
 * for a flush share its cost, and there is no timer.
 *
 * Whether a commit that fails or never ends took place is unknown (its meta page may be on disk): every write in it and everything after
 * it, reads included, throws {@link UnknownOutcome}, until the process ends and the store is opened again. A commit that does not find the
 * fence of this daemon writes nothing, and it and everything after it throws `Superseded`.
 */
export class Commits {
  readonly #databases: Databases;
  readonly #commitMsMax: number;
  readonly #diskSpace: CommitsOptions['diskSpace'];
  readonly #fence: Fence | undefined;
  #pending: Pending[] = [];
  #draining: Promise<void> | undefined;
  /** Whether writes wait for disk space. */
  #isFull = false;
  #failure: UnknownOutcome | undefined;
  /** For writes that depend on the store's content: each decides on the state that the one before left on disk. */
  readonly serially = oneAtATime();

  constructor(databases: Databases, { commitMsMax = COMMIT_MS_MAX, diskSpace, fence }: CommitsOptions = {}) {
    this.#databases = databases;
    this.#diskSpace = diskSpace;
    this.#commitMsMax = commitMsMax;
    this.#fence = fence;
  }

  /** Throws StoreError `disk_full` while writes wait for disk space. */
  admit(): void {
    if (this.#isFull) throw new StoreError({ code: 'disk_full' });
  }

  /** Resolves when the write is on disk: true, or false if its condition forbade it. */
  write(write: Write): Promise<boolean> {
    return new Promise((resolve, reject) => {
      if (this.#failure !== undefined) throw this.#failure;
      if (write.isRefusable) this.admit();
      this.#pending.push({ ...write, resolve, reject });
      this.#draining ??= this.#drain();
    });
  }

  /** Resolves when everything written so far is on disk or has failed. */
  async idle(): Promise<void> {
    await this.#draining;
  }

  async #drain(): Promise<void> {
    while (this.#pending.length > 0) {
      // Everything else that happens in this turn of the event loop shares the commit. A process that waits to open the store gets its
      // chance.
      await new Promise((resolve) => setImmediate(resolve));
      const group = this.#nextGroup();
      try {
        const space = this.#diskSpace?.forCommit(group.reduce((sum, { changes }) => sum + changes.length, 0));
        if (space !== undefined) {
          this.#pending = this.#withoutRefused([...group, ...this.#pending]);
          this.#isFull = this.#pending.length > 0;
          if (this.#isFull) await space;
          this.#isFull = false;
          continue;
        }
        const commit = this.#commit(group).catch(rejectWithCause);
        const late = () => new Error(`a commit took more than ${this.#commitMsMax / 1000} s`);
        await within(this.#commitMsMax, commit, late);
      } catch (error) {
        this.#break(error, group);
      }
    }
    this.#draining = undefined;
  }

  #withoutRefused(writes: Pending[]): Pending[] {
    const refusal = new StoreError({ code: 'disk_full' });
    for (const { reject } of writes.filter(({ isRefusable }) => isRefusable)) reject(refusal);
    return writes.filter(({ isRefusable }) => !isRefusable);
  }

  #nextGroup(): Pending[] {
    let changes = 0;
    let writes = 0;
    for (const write of this.#pending) {
      changes += write.changes.length;
      if (changes > GROUP_CHANGES_MAX && writes > 0) break;
      writes += 1;
    }
    return this.#pending.splice(0, writes);
  }

  async #commit(group: Pending[]): Promise<void> {
    const happened: Promise<boolean>[] = [];
    const { root, lock, identity } = this.#databases;
    const fence = this.#fence;
    const ifFenceStands = (put: () => void) => fence && identity.ifVersion(fence.key, IF_EXISTS, put);
    let stands: Promise<boolean> | undefined;
    const results = await lock.holding('shared', () => {
      const committed = root.batch(() => {
        stands = ifFenceStands(() => {});
        for (const write of group) happened.push(enqueue(write, ifFenceStands));
      });
      return Promise.all([committed, ...happened]);
    });
    if (fence !== undefined && !(await stands)) throw fence.superseded();
    for (const [index, write] of group.entries()) write.resolve(results[index + 1] === true);
  }

  #break(cause: unknown, group: Pending[]): void {
    this.#failure = cause instanceof UnknownOutcome ? cause : new UnknownOutcome(cause);
    this.#databases.fail(this.#failure);
    const lost = [...group, ...this.#pending];
    this.#pending = [];
    for (const write of lost) write.reject(this.#failure);
  }
}

/**
 * Hands one write to lmdb-js, whose thread carries it out inside the transaction of the surrounding batch. The fence is the innermost
 * condition: in a block whose condition fails, lmdb-js 3.5.6 carries out the operations after an inner `ifNoExists`.
 */
async function enqueue(
  { changes, unless = [] }: Write,
  ifFenceStands: (put: () => void) => Promise<boolean> | undefined,
): Promise<boolean> {
  // Each of these promises has the outcome of the whole batch, which the batch itself reports.
  const change = () =>
    changes.map(({ database, key, value }) =>
      value === undefined ? database.remove(key) : database.put(key, value),
    );
  const putAll = () => {
    if (ifFenceStands(change) === undefined) void change();
  };
  const conditions: Promise<boolean>[] = [];
  const putUnless = unless.reduceRight(
    (inner, { database, key }) =>
      () =>
        void conditions.push(database.ifNoExists(key, inner)),
    putAll,
  );
  putUnless();
  return (await Promise.all(conditions)).every(Boolean);
}

/** lmdb-js says "commit failed" and delivers the reason (no space, file too large, …) by a promise that rejects later. */
async function rejectWithCause(error: unknown): Promise<never> {
  if (error instanceof Error && 'commitError' in error) await error.commitError;
  throw error;
}
