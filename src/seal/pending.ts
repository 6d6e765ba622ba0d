import { assert } from '../base/assert.ts';
import {
  isOfClient,
  isReceived,
  type Job,
  type JobPhase,
  type Outcome,
  type ReceivedJob,
} from '../job/job.ts';

/** A job between its acceptance and its outcome, as this process sees it. */
export class Pending {
  job: Job;
  phase: Extract<JobPhase, 'queued' | 'hashing' | 'sealing'>;
  /** Whether a caller waits on an open connection. Such a job fails at once when nothing can be sealed. */
  held: boolean;
  /** Its failure is being written: callers who wait are told, even after the time-out. */
  failing = false;
  readonly #waiters = new Set<(outcome: Outcome) => void>();

  constructor(job: Job, phase: Pending['phase'], held: boolean) {
    this.job = job;
    this.phase = phase;
    this.held = held;
  }

  /** The outcome; undefined when `signal` aborts first. */
  async settled(signal: AbortSignal): Promise<Outcome | undefined> {
    const { promise, resolve } = Promise.withResolvers<Outcome | undefined>();
    const giveUp = () => {
      if (!this.failing) resolve(undefined);
    };
    this.#waiters.add(resolve);
    signal.addEventListener('abort', giveUp, { once: true });
    if (signal.aborted) giveUp();
    try {
      return await promise;
    } finally {
      signal.removeEventListener('abort', giveUp);
      this.#waiters.delete(resolve);
      if (this.#waiters.size === 0) this.held = false;
    }
  }

  /** Tells the callers who wait. */
  settle(outcome: Outcome): void {
    for (const resolve of this.#waiters) resolve(outcome);
  }
}

/** A job whose document was received. */
export type Sealable = Pending & { job: ReceivedJob };

export function isSealable(pending: Pending): pending is Sealable {
  return isReceived(pending.job);
}

export interface WaitingJobs {
  phases: Record<Pending['phase'], number>;
  /** How long the oldest in each phase has waited, in milliseconds; 0 where there is none. */
  longestMs: Record<Pending['phase'], number>;
  /** Jobs of audit records, which no phase counts. */
  auditRecords: number;
}

/** All jobs without an outcome, by id. */
export class PendingJobs {
  readonly #byId = new Map<string, Pending>();
  /** The ids of clients' jobs among them. */
  readonly #ofClients = new Set<string>();

  add(pending: Pending): void {
    const { id } = pending.job;
    this.#byId.set(id, pending);
    if (isOfClient(pending.job)) this.#ofClients.add(id);
  }

  delete({ id }: Job): void {
    this.#byId.delete(id);
    this.#ofClients.delete(id);
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

  /** Clients' jobs: how many are in each phase, and how long the oldest has waited. */
  count(waitedMs: (job: Job) => number): WaitingJobs {
    const phases = { queued: 0, hashing: 0, sealing: 0 };
    const longestMs = { queued: 0, hashing: 0, sealing: 0 };
    let auditRecords = 0;
    for (const { job, phase } of this.#byId.values()) {
      if (job.source === 'audit') auditRecords += 1;
      if (!isOfClient(job)) continue;
      phases[phase] += 1;
      longestMs[phase] = Math.max(longestMs[phase], waitedMs(job));
    }
    return { phases, longestMs, auditRecords };
  }

  get ofClients(): number {
    return this.#ofClients.size;
  }
}
