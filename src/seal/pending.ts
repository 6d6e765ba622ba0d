import { ServiceError } from '../base/errors.ts';
import { isReceived, type Job, type JobPhase, type Outcome, type ReceivedJob } from '../job/job.ts';
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
