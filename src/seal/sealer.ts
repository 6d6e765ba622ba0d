import { setTimeout as sleep } from 'node:timers/promises';
import type { ServiceError } from '../base/errors.ts';
import {
  type Content,
  isReceived,
  type Job,
  type JobMode,
  type JobPhase,
  type JobRecord,
  type Outcome,
  type ReceivedJob,
} from '../job/job.ts';
import { belowQuorum } from '../kms/partitions.ts';
import type { DiskSpace } from '../store/diskSpace.ts';
import type { Acceptance, StoredCopy } from '../store/store.ts';
import { obstacleTo, queueFull, repeatLater } from './obstacle.ts';
import { Pending } from './pending.ts';
import type { PendingJobs, WaitingJobs } from './pendingJobs.ts';
import type { PipelineOptions } from './pipeline.ts';
import type { SealingLoop } from './sealingLoop.ts';

export interface SealerOptions extends PipelineOptions {
  /**
   * Throws OperatorError for a job that does not seal a record of the audit trail, or whose record does not follow those sealed in the log.
   */
  requireRecord(job: Job): Promise<void>;
  /** The disk of the store. If absent, free space is not checked. */
  diskSpace?: Pick<DiskSpace, 'admit'>;
  /** How many accepted jobs may wait. Further jobs are refused with `queue_full`. */
  queueJobsMax: number;
  /** If that many audit records wait, clients' acts are refused with `queue_full`. Default: 10,000. */
  recordsMax?: number;
}

/** How soon a caller that waits for a job of a front checks whether it was taken. */
const UNTAKEN_MS = 50;
const RECORDS_MAX = 10_000;

/**
 * Takes jobs, and knows every job without an outcome, including those whose documents must still be fetched. The {@link SealingLoop} has them
 * sealed, batch by batch.
 */
export class Sealer {
  readonly #options: SealerOptions;
  readonly #pending: PendingJobs;
  readonly #loop: SealingLoop;

  /** `loop` has sealed what is in `pending`. */
  constructor(options: SealerOptions, pending: PendingJobs, loop: SealingLoop) {
    this.#options = options;
    this.#pending = pending;
    this.#loop = loop;
  }

  /**
   * Refuses a request that could not be fulfilled, before its document is received. Throws StoreError `disk_full`, or ServiceError `queue_full`, and
   * for a blocking request `fork_alarm`, `kms_partition_unavailable`, `witness_unavailable` or `timestamp_unavailable` while nothing can be
   * sealed. While another daemon signs with the keys of this one, no request can be fulfilled here.
   */
  admit(mode: JobMode): void {
    this.#options.diskSpace?.admit();
    this.#options.store.space?.admit();
    if (this.waitingCount >= this.#options.queueJobsMax) throw queueFull();
    const mustSeal = mode === 'blocking' || this.#options.signing.areTaken();
    const obstacle = mustSeal ? this.obstacle() : undefined;
    if (obstacle) throw obstacle;
  }

  /**
   * Refuses a client's act that would add a record to the audit trail: while nothing can be sealed, each record stays in memory. Throws
   * ServiceError `queue_full`. Acts of administrators are never refused.
   */
  admitRecord(): void {
    if (this.#pending.records < (this.#options.recordsMax ?? RECORDS_MAX)) return;
    throw repeatLater('queue_full', 'Too many records of earlier changes wait to be sealed.');
  }

  /**
   * Makes the job durable, and queues it if its document was received. Once this resolves, the job survives any crash.
   */
  async accept(job: Job, acceptance: Acceptance = {}): Promise<void> {
    const pending = new Pending(job, 'queued', acceptance);
    this.#pending.add(pending);
    try {
      await this.#pending.keep(pending);
    } catch (error) {
      this.#pending.forget(job);
      throw error;
    }
    // If we stop here, the job is found waiting at the next start.
    this.#pending.enqueue(pending);
  }

  /**
   * Queues a job whose caller waits for it. It is only in memory, and becomes durable with its receipt, or when {@link settled} stops
   * waiting. If we stop before that, the job never existed. While nothing can be sealed, it is dropped at once, with the same effect.
   */
  submit(job: ReceivedJob, acceptance: Acceptance = {}): void {
    this.#pending.enqueue(new Pending(job, 'queued', acceptance));
  }

  /** Queues the job of an audit record that any process made durable, unless it is known here or has an outcome. Throws OperatorError. */
  async adopt(jobId: string): Promise<void> {
    if (this.#pending.get(jobId) !== undefined) return;
    const record = await this.#options.store.jobs.get(jobId);
    if (record === undefined || record.outcome !== undefined) return;
    await this.#options.requireRecord(record.job);
    this.#pending.enqueue(new Pending(record.job, 'queued'));
  }

  /** Whether this job has no outcome yet, as far as this process knows. */
  knows(jobId: string): boolean {
    return this.#pending.get(jobId) !== undefined;
  }

  /** Jobs that were found waiting and whose documents are still to be fetched. */
  get unreceived(): Job[] {
    return Array.from(this.#pending, ({ job }) => job).filter((job) => !isReceived(job));
  }

  /** Takes a durable job that another process accepted, and queues it if its document was received. */
  take(job: Job): void {
    this.#pending.enqueue(new Pending(job, 'queued'));
  }

  /** Reports that the document of a pending job is being hashed. */
  hashing(jobId: string): void {
    this.#pending.require(jobId).phase = 'hashing';
  }

  /** Makes the content of a pending job durable, and queues the job. */
  async receive(jobId: string, content: Content, copy?: StoredCopy): Promise<void> {
    const pending = this.#pending.require(jobId);
    await this.#options.store.jobs.receive(jobId, content, copy);
    // If we stop here, the job is found waiting with its content at the next start.
    pending.job = { ...pending.job, content };
    pending.phase = 'sealing';
    this.#pending.enqueue(pending);
  }

  /** Ends a pending job whose document cannot be fetched. */
  fail(jobId: string, error: ServiceError): Promise<void> {
    return this.#pending.fail(this.#pending.require(jobId), error);
  }

  /** The phase of a job as of now; a job without an outcome is `queued` until a batch takes it. */
  phase(record: JobRecord): JobPhase {
    if (record.outcome) return record.outcome.kind === 'sealed' ? 'completed' : 'failed';
    return this.#pending.get(record.job.id)?.phase ?? 'sealing';
  }

  /**
   * The outcome of a durable job; undefined if `signal` aborts first. Then the job is durable and continues: when its caller stops waiting,
   * a blocking job becomes an asynchronous one. A commit that has begun is waited for all the same, even on a full disk. Throws
   * ServiceError if the job was dropped because nothing could be sealed, and StoreError if the store refused it: then it never existed.
   */
  async settled(jobId: string, signal: AbortSignal): Promise<Outcome | undefined> {
    const pending = this.#pending.get(jobId);
    if (pending !== undefined) return (await pending.settled(signal)) ?? this.#pending.keep(pending);
    const record = await this.#options.store.jobs.get(jobId);
    if (record === undefined) throw this.obstacle() ?? belowQuorum();
    if (record.outcome !== undefined || signal.aborted) return record.outcome;
    // A front accepted it, but it was not taken over yet.
    await sleep(UNTAKEN_MS, undefined, { signal }).catch(() => {});
    return this.settled(jobId, signal);
  }

  /** The number of accepted jobs of clients without an outcome. */
  get waitingCount(): number {
    return this.#pending.ofClients;
  }

  /** The phases and waiting times of these jobs. Visits each job, so it is not for every request. */
  get waiting(): WaitingJobs {
    return this.#pending.count();
  }

  /** The error for callers while nothing can be sealed; undefined while sealing works. */
  obstacle(): ServiceError | undefined {
    return obstacleTo(this.#options);
  }

  /**
   * Ends after the batches in progress, but does not wait long for their time-stamps. Durable jobs that still wait are sealed after the
   * next start.
   */
  async close(): Promise<void> {
    await this.#loop.close();
    await Promise.allSettled(Array.from(this.#pending, ({ keeping }) => keeping));
  }
}
