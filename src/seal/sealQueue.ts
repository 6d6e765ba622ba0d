import { parseAuditReference } from '../manifest/auditRecord.ts';
import type { Sealable } from './pending.ts';

/**
 * Jobs for the next batch. Audit records go before all others, in their order, and all into the next batch: the record of a new epoch is in
 * the log before anything is sealed in that epoch, and the newest record in the log proves those before it.
 */
export class SealQueue {
  /** In the order of their numbers. */
  #records: Sealable[] = [];
  #others: Sealable[] = [];

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
    if (isRecord(job)) this.#keep([job]);
    else this.#others.push(job);
  }

  /** Puts jobs that were taken before all others. */
  putBack(jobs: readonly Sealable[]): void {
    this.#keep(jobs.filter(isRecord));
    this.#others = [...jobs.filter((job) => !isRecord(job)), ...this.#others];
  }

  /** The next batch, of so many jobs at most. Audit records may be more. */
  take(max: number): Sealable[] {
    const records = this.#records.splice(0);
    const others = this.#others.splice(0, Math.max(max - records.length, 0));
    // Some may have ended in the queue: another node was faster.
    return [...records, ...others.filter(({ isOver }) => !isOver)];
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
