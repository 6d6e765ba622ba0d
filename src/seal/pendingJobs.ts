import { assert } from '../base/assert.ts';
import { type Clock, stopwatch } from '../base/clock.ts';
import type { ServiceError } from '../base/errors.ts';
import { type Failure, isOfClient, type Job, type Outcome } from '../job/job.ts';
import type { Acceptance, Store } from '../store/store.ts';
import { StoreError } from '../store/storeError.ts';
import type { SealerObserver } from './observer.ts';
import { isSealable, type Pending, type Sealable } from './pending.ts';
import { SealQueue } from './sealQueue.ts';

export interface WaitingJobs {
  phases: Record<Pending['phase'], number>;
  /** How long the oldest job in each phase has waited, in milliseconds; 0 if there is none. */
  longestMs: Record<Pending['phase'], number>;
  /** Jobs of audit records, which are not counted in any phase. */
  auditRecords: number;
}

export interface PendingOptions {
  store: Pick<Store, 'jobs' | 'serviceTime'>;
  /** How long a job may wait for HSM and time-stamps before it fails, in milliseconds of service time from its acceptance. */
  giveUpAfterMs: number;
  clock: Clock;
  observer?: SealerObserver;
}

/**
 * All jobs without an outcome, by id, and the queue of those that can be sealed. This is the only place that makes a job durable by itself,
 * and the only one that ends it. Iterable.
 */
export class PendingJobs {
  readonly queue = new SealQueue();
  readonly #options: PendingOptions;
  readonly #byId = new Map<string, Pending>();
  /** The ids of clients' jobs. */
  readonly #ofClients = new Set<string>();
  #records = 0;
  #wake = Promise.withResolvers<void>();

  constructor(options: PendingOptions) {
    this.#options = options;
  }

  add(pending: Pending): void {
    const { id } = pending.job;
    if (isRecord(pending.job) && !this.#byId.has(id)) this.#records += 1;
    this.#byId.set(id, pending);
    if (isOfClient(pending.job)) this.#ofClients.add(id);
  }

  /** Adds a job, and queues it if its document was received. */
  enqueue(pending: Pending): void {
    this.add(pending);
    if (!isSealable(pending)) return;
    this.queue.add(pending);
    this.wake();
  }

  /** Something changed that may make the next batch possible. */
  wake(): void {
    this.#wake.resolve();
  }

  /** Resolves at the next {@link wake}. */
  nextWake(): Promise<void> {
    this.#wake = Promise.withResolvers<void>();
    return this.#wake.promise;
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

  /** Makes a job durable that is only in memory, unless its batch is faster: then resolves with its outcome. */
  async keep(pending: Pending): Promise<Outcome | undefined> {
    while (pending.committing !== undefined) await pending.committing;
    if (pending.isOver) return pending.settled();
    if (pending.acceptance === undefined) return undefined;
    pending.keeping ??= this.#write(pending, pending.acceptance);
    await pending.keeping;
    return pending.isOver ? pending.settled() : undefined;
  }

  async #write(pending: Pending, acceptance: Acceptance): Promise<void> {
    const { store, observer } = this.#options;
    const { job } = pending;
    const lap = stopwatch();
    const refusal = await store.jobs.accept(job, acceptance).catch((error: unknown) => {
      if (error instanceof StoreError) return error;
      throw error;
    });
    pending.acceptance = undefined;
    pending.keeping = undefined;
    if (refusal === undefined) observer?.accepted(job, lap());
    else this.end(pending, refusal);
  }

  /** The job has an outcome, or never existed: its callers are notified. */
  end(pending: Pending, end: Outcome | ServiceError | StoreError): void {
    this.forget(pending.job);
    pending.settle(end);
  }

  forget(job: Job): void {
    if (this.#byId.delete(job.id) && isRecord(job)) this.#records -= 1;
    this.#ofClients.delete(job.id);
  }

  async fail(pending: Pending, { code, message }: ServiceError): Promise<void> {
    const { store, clock, observer } = this.#options;
    const failure: Failure = { code, message, failedAt: clock() };
    await store.jobs.fail(pending.job.id, failure);
    this.end(pending, { kind: 'failed', failure });
    observer?.failed(pending.job, code);
  }

  /** While nothing can be sealed: drops queued jobs that are in memory only, and fails others after `giveUpAfterMs`. */
  async failUnsealable(obstacle: ServiceError): Promise<void> {
    const isOverdue = ({ job }: Pending) => this.waitedMs(job) >= this.#options.giveUpAfterMs;
    const left: Sealable[] = [];
    const failed: Sealable[] = [];
    for (const one of this.queue.perishable) {
      if (one.isOver) continue;
      const isInMemory = one.acceptance !== undefined;
      if (isInMemory && one.keeping === undefined) this.end(one, obstacle);
      else if (!isInMemory && isOverdue(one)) failed.push(one);
      else left.push(one);
    }
    this.queue.perishable = left;
    await Promise.all(failed.map((one) => this.fail(one, obstacle)));
  }

  /** In service time: neither a jump of the clock nor time while the machine was off makes a job older. */
  waitedMs({ since }: Job): number {
    return this.#options.store.serviceTime.since(since);
  }

  /** Clients' jobs: the number in each phase, and how long the oldest has waited. */
  count(): WaitingJobs {
    const phases = { queued: 0, hashing: 0, sealing: 0 };
    const longestMs = { queued: 0, hashing: 0, sealing: 0 };
    for (const { job, phase } of this.#byId.values()) {
      if (!isOfClient(job)) continue;
      phases[phase] += 1;
      longestMs[phase] = Math.max(longestMs[phase], this.waitedMs(job));
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
