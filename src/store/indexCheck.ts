/** Checks and repairs of indexes, as far as both engines do the same. */
import type { Clock } from '../base/clock.ts';
import type { Job } from '../job/job.ts';
import type { IndexFlaw, IndexStore } from './indexStore.ts';
import type { OutboxEntry } from './outboxEntry.ts';
import { encodeRecord } from './records.ts';
import { QUOTA_RETENTION_MS, type QuotaCount, type StoreIdentity } from './store.ts';

/** A flaw, and what mends it. */
export interface MendableFlaw<Mend> extends IndexFlaw {
  mend: Mend;
}

/** The parts of an engine's check and repair. */
export interface IndexEngine<Mend> {
  identity: StoreIdentity;
  clock: Clock;
  /** Flaws in pages. If each page is mended before the next is requested, every index is right at the end. */
  flaws(): AsyncIterable<MendableFlaw<Mend>[]>;
  mend(mends: Mend[]): Promise<unknown>;
  keepIdentity(identity: StoreIdentity): Promise<unknown>;
}

export function indexStoreOf<Mend>(engine: IndexEngine<Mend>): IndexStore {
  const { identity, clock, flaws, mend, keepIdentity } = engine;
  return {
    async *check() {
      for await (const page of flaws()) yield* page;
    },

    async repair({ backup, onMended, isGood }) {
      const { repair, ...whole } = identity;
      const mark = repair ?? { begunAt: clock(), backup };
      await keepIdentity({ ...whole, repair: mark });
      for await (const page of flaws()) {
        await mend(page.map((flaw) => flaw.mend));
        for (const flaw of page) onMended(flaw);
      }
      if (!(await isGood())) return false;
      await keepIdentity(whole);
      return true;
    },
  };
}

/** The count of jobs in each window of a quota, except those that ended before `overBefore`: these are left to the sweep. */
export class JobsInWindows {
  readonly counts = new Map<string, QuotaCount>();
  readonly #overBefore: number;

  constructor(now: number) {
    this.#overBefore = now - QUOTA_RETENTION_MS;
  }

  add({ clientId, quota }: Pick<Job, 'clientId' | 'quota'>): void {
    if (quota === undefined || this.isOver(quota.endsAt)) return;
    const name = windowName({ clientId, ...quota });
    const count = this.counts.get(name) ?? { clientId, ...quota, jobs: 0 };
    count.jobs += 1;
    this.counts.set(name, count);
  }

  isOver(endsAt: number): boolean {
    return endsAt < this.#overBefore;
  }
}

export function windowName({ clientId, name, startsAt, endsAt }: Omit<QuotaCount, 'jobs'>): string {
  return JSON.stringify([clientId, name, startsAt, endsAt]);
}

/** The record of a message with the outcome of its job; undefined if the entry has it. `afresh`: members of an entry that is unreadable. */
export function mendedMessage(
  entry: OutboxEntry | undefined,
  told: Pick<OutboxEntry, 'type' | 'occurredAt'>,
  afresh: Pick<OutboxEntry, 'death'>,
): Buffer | undefined {
  const isRight = entry?.type === told.type && entry.occurredAt === told.occurredAt;
  return isRight ? undefined : encodeRecord({ attempts: 0, ...afresh, ...entry, ...told });
}
