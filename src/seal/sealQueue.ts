import { Presence } from '../base/presence.ts';
import { parseAuditReference } from '../manifest/auditRecord.ts';
import type { Sealable } from './pending.ts';

/** Jobs of one client in a batch, if others seal too: they wait for all of the batch. */
const SHARED_MAX = 64;

/**
 * Jobs for the next batch. If more wait than it takes, it takes equally many of each client, so a client waits for no batch of others only.
 * It takes few of each while several clients seal: then a batch is done soon.
 * Audit records go before all others, in their order, and all into the next batch: the record of a new epoch is in
 * the log before anything is sealed in that epoch, and the newest record in the log proves those before it.
 */
export class SealQueue {
  /** In the order of their numbers. */
  #records: Sealable[] = [];
  #others: Sealable[] = [];
  readonly #presence: Presence;

  constructor(presence = new Presence()) {
    this.#presence = presence;
  }

  get length(): number {
    return this.#records.length + this.#others.length;
  }

  /** All but audit records, in the order in which they are sealed: records are sealed however late. */
  get perishable(): readonly Sealable[] {
    return this.#others;
  }

  set perishable(jobs: Sealable[]) {
    this.#others = jobs;
  }

  add(job: Sealable): void {
    if (isRecord(job)) {
      this.#keep([job]);
    } else {
      this.#others.push(job);
      this.#presence.note(job.job.clientId);
    }
  }

  /** Puts jobs that were taken before all others. */
  putBack(jobs: readonly Sealable[]): void {
    this.#keep(jobs.filter(isRecord));
    this.#others = [...jobs.filter((job) => !isRecord(job)), ...this.#others];
  }

  /** The next batch, of so many jobs at most. Audit records may be more. */
  take(max: number): Sealable[] {
    const records = this.#records.splice(0);
    return [...records, ...this.#takeOthers(Math.max(max - records.length, 0))];
  }

  /** In the order in which they came. */
  #takeOthers(max: number): Sealable[] {
    // Some may have ended in the queue: another node was faster.
    const waiting = this.#others.filter(({ isOver }) => !isOver);
    const taken = new Set<Sealable>();
    const shares = Map.groupBy(waiting, ({ job }) => job.clientId);
    for (let round = 0; taken.size < max && shares.size > 0; round += 1)
      for (const [clientId, jobs] of shares) {
        const next = this.#mayTake(clientId, round) ? jobs[round] : undefined;
        if (next === undefined) shares.delete(clientId);
        else if (taken.size < max) taken.add(next);
      }
    this.#others = waiting.filter((one) => !taken.has(one));
    return waiting.filter((one) => taken.has(one));
  }

  /** Whether a client that has so many jobs in a batch may have another one. */
  #mayTake(clientId: string, jobs: number): boolean {
    return jobs < SHARED_MAX || !this.#presence.isBesideOthers(clientId);
  }

  #keep(records: readonly Sealable[]): void {
    this.#records.push(...records);
    this.#records.sort((a, b) => numberOf(a) - numberOf(b));
  }
}

function isRecord({ job }: Sealable): boolean {
  return job.source === 'audit';
}

function numberOf({ job }: Sealable): number {
  return parseAuditReference(job.customerReference) ?? 0;
}
