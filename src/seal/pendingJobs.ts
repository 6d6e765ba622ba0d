import { assert } from '../base/assert.ts';
import { isOfClient, type Job } from '../job/job.ts';
import type { Pending } from './pending.ts';

export interface WaitingJobs {
  phases: Record<Pending['phase'], number>;
  /** How long the oldest job in each phase has waited, in milliseconds; 0 if there is none. */
  longestMs: Record<Pending['phase'], number>;
  /** Jobs of audit records, which are not counted in any phase. */
  auditRecords: number;
}

/** All jobs without an outcome, by id. Iterable. */
export class PendingJobs {
  readonly #byId = new Map<string, Pending>();
  /** The ids of clients' jobs. */
  readonly #ofClients = new Set<string>();
  #records = 0;

  add(pending: Pending): void {
    const { id } = pending.job;
    if (isRecord(pending.job) && !this.#byId.has(id)) this.#records += 1;
    this.#byId.set(id, pending);
    if (isOfClient(pending.job)) this.#ofClients.add(id);
  }

  delete(job: Job): void {
    if (this.#byId.delete(job.id) && isRecord(job)) this.#records -= 1;
    this.#ofClients.delete(job.id);
  }

  get(jobId: string): Pending | undefined {
    return this.#byId.get(jobId);
  }

  /** Like {@link get}, for a job that must be pending. */
  require(jobId: string): Pending {
    const pending = this.#byId.get(jobId);
    assert(pending !== undefined, `${jobId} is not pending`);
    return pending;
  }

  /** Clients' jobs: the number in each phase, and how long the oldest has waited. */
  count(waitedMs: (job: Job) => number): WaitingJobs {
    const phases = { queued: 0, hashing: 0, sealing: 0 };
    const longestMs = { queued: 0, hashing: 0, sealing: 0 };
    for (const { job, phase } of this.#byId.values()) {
      if (!isOfClient(job)) continue;
      phases[phase] += 1;
      longestMs[phase] = Math.max(longestMs[phase], waitedMs(job));
    }
    return { phases, longestMs, auditRecords: this.#records };
  }

  [Symbol.iterator](): Iterator<Pending> {
    return this.#byId.values();
  }

  get ofClients(): number {
    return this.#ofClients.size;
  }

  /** The number of jobs for audit records. */
  get records(): number {
    return this.#records;
  }
}

function isRecord({ source }: Job): boolean {
  return source === 'audit';
}
