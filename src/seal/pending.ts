import { assert } from '../base/assert.ts';
import { ServiceError } from '../base/errors.ts';
import {
  isOfClient,
  isReceived,
  type Job,
  type JobPhase,
  type Outcome,
  type ReceivedJob,
} from '../job/job.ts';
import type { Acceptance } from '../store/store.ts';
import { StoreError } from '../store/storeError.ts';

/** The outcome of a job, or why it was dropped. */
type End = Outcome | ServiceError | StoreError;

/** A job until its outcome, as seen by this process. */
export class Pending {
  job: Job;
  phase: Extract<JobPhase, 'queued' | 'hashing' | 'sealing'>;
  /** Data written together with the job. Present while the job is only in memory, undefined once it is durable. */
  acceptance: Acceptance | undefined;
  /** Set while the job is made durable on its own, before it is sealed. */
  keeping: Promise<void> | undefined;
  /** Set while the job is made durable with its receipt. */
  committing: Promise<unknown> | undefined;
  #end: End | undefined;
  readonly #waiters = new Set<() => void>();

  constructor(job: Job, phase: Pending['phase'], acceptance?: Acceptance) {
    this.job = job;
    this.phase = phase;
    this.acceptance = acceptance;
  }

  get isOver(): boolean {
    return this.#end !== undefined;
  }

  /** The outcome; undefined if `signal` aborts first. Throws the error for which the job was dropped. */
  async settled(signal?: AbortSignal): Promise<Outcome | undefined> {
    if (this.#end === undefined && !signal?.aborted) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#waiters.add(resolve);
      signal?.addEventListener('abort', () => resolve(), { once: true });
      await promise;
      this.#waiters.delete(resolve);
    }
    if (this.#end instanceof ServiceError || this.#end instanceof StoreError) throw this.#end;
    return this.#end;
  }

  /** Notifies the waiting callers. */
  settle(end: End): void {
    this.#end = end;
    for (const resolve of this.#waiters) resolve();
  }
}

/** A job whose document was received. */
export type Sealable = Pending & { job: ReceivedJob };

export function isSealable(pending: Pending): pending is Sealable {
  return isReceived(pending.job);
}

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
