import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { stopwatch } from '../base/clock.ts';
import type { ServiceError } from '../base/errors.ts';
import {
  type Content,
  type Failure,
  isReceived,
  type Job,
  type JobMode,
  type JobPhase,
  type JobRecord,
  type Outcome,
  type ReceivedJob,
} from '../job/job.ts';
import { belowQuorum } from '../kms/partitions.ts';
import type { Edge } from '../log/tree.ts';
import type { DiskSpace } from '../store/diskSpace.ts';
import type { Acceptance, AnnouncedBatch, Batch, StoredCopy } from '../store/store.ts';
import { StoreError } from '../store/storeError.ts';
import { cleared, obstacleTo, type Prerequisites, queueFull, recordsFull } from './obstacle.ts';
import { isSealable, Pending, type Sealable } from './pending.ts';
import { PendingJobs, type WaitingJobs } from './pendingJobs.ts';
import { Pipeline, type PipelineOptions } from './pipeline.ts';
import { SealQueue } from './sealQueue.ts';

export interface SealerOptions extends PipelineOptions {
  signing: PipelineOptions['signing'] & Prerequisites['signing'];
  timestamping?: NonNullable<PipelineOptions['timestamping']> & NonNullable<Prerequisites['timestamping']>;
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
  /** Maximum jobs that share one checkpoint. Audit records may be more. */
  batchJobsMax: number;
  /** How long a job may wait for HSM and time-stamps before it fails, in milliseconds of service time from its acceptance. */
  giveUpAfterMs: number;
  /** Called once if sealing cannot continue (a broken invariant, a commit with an unknown outcome): the process must end. */
  onFatal(error: unknown): void;
}

/** Node's timers beyond 2^31 ms fire at once; waking up once a minute costs nothing. */
const PATIENCE_MS_MAX = 60_000;
/** How soon a caller that waits for a job of a front checks whether it was taken. */
const UNTAKEN_MS = 50;
const RECORDS_MAX = 10_000;
/** How long the batches in progress may wait for their time-stamps when the daemon stops. */
const CLOSE_MS_MAX = 2_000;

/**
 * Seals jobs, batch by batch. There is no timer: all jobs that wait when the {@link Pipeline} has room form the next batch. The sealer
 * knows every job without an outcome, including those whose documents must still be fetched.
 */
export class Sealer {
  readonly #options: SealerOptions;
  readonly #pending = new PendingJobs();
  readonly #queue = new SealQueue();
  readonly #pipeline: Pipeline;
  #closing = false;
  #isBroken = false;
  #wake = Promise.withResolvers<void>();
  #loop: Promise<void> = Promise.resolve();

  constructor(options: SealerOptions, edge: Edge, head: Batch | undefined, waiting: Job[]) {
    this.#options = options;
    this.#pipeline = new Pipeline(options, edge, head, {
      sealed: (job, outcome) => this.#settle(job, outcome),
      keep: (job) => this.#keep(job),
      conflicting: (job, error) => this.#settle(job, error),
      returned: (jobs) => this.#queue.putBack(jobs),
      obstructed: (obstacle) => this.#failUnsealable(obstacle),
      landed: () => this.#wake.resolve(),
      broken: (error) => this.#break(error),
    });
    // A received job found waiting may already have been reported as `sealing`; a phase never goes back.
    for (const job of waiting) this.#add(new Pending(job, job.content ? 'sealing' : 'queued'));
  }

  /** Resumes the batch that witnesses may have seen, before anything else is sealed. `waiting` contains its jobs. */
  async resume(announced: AnnouncedBatch, waiting: readonly Job[]): Promise<void> {
    const byId = new Map(waiting.map((job) => [job.id, new Pending(job, 'sealing')]));
    const jobs = announced.jobIds.flatMap((id) => byId.get(id) ?? []).filter(isSealable);
    for (const one of jobs) this.#pending.add(one);
    // Nothing is sealed in a fork: the batch stays announced until an administrator has ended the alarm.
    if (!this.#options.isForked?.()) await this.#pipeline.resume(announced, jobs);
  }

  /** Starts sealing. Called once. */
  start(): void {
    this.#loop = this.#run().catch((error) => this.#break(error));
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
    if (this.#pending.records >= (this.#options.recordsMax ?? RECORDS_MAX)) throw recordsFull();
  }

  /**
   * Makes the job durable, and queues it if its document was received. Once this resolves, the job survives any crash.
   */
  async accept(job: Job, acceptance: Acceptance = {}): Promise<void> {
    const pending = new Pending(job, 'queued', acceptance);
    this.#pending.add(pending);
    try {
      await this.#keep(pending);
    } catch (error) {
      this.#pending.delete(job);
      throw error;
    }
    // If we stop here, the job is found waiting at the next start.
    this.#add(pending);
  }

  /**
   * Queues a job whose caller waits for it. It is only in memory, and becomes durable with its receipt, or when {@link settled} stops
   * waiting. If we stop before that, the job never existed. While nothing can be sealed, it is dropped at once, with the same effect.
   */
  submit(job: ReceivedJob, acceptance: Acceptance = {}): void {
    this.#add(new Pending(job, 'queued', acceptance));
  }

  /** Queues the job of an audit record that any process made durable, unless it is known here or has an outcome. Throws OperatorError. */
  async adopt(jobId: string): Promise<void> {
    if (this.#pending.get(jobId) !== undefined) return;
    const record = await this.#options.store.jobs.get(jobId);
    if (record === undefined || record.outcome !== undefined) return;
    await this.#options.requireRecord(record.job);
    this.#add(new Pending(record.job, 'queued'));
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
    this.#add(new Pending(job, 'queued'));
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
    this.#add(pending);
  }

  /** Ends a pending job whose document cannot be fetched. */
  async fail(jobId: string, { code, message }: ServiceError): Promise<void> {
    const failure: Failure = { code, message, failedAt: this.#options.clock() };
    await this.#fail(this.#pending.require(jobId), failure);
  }

  /** The phase of a job as of now; a job without an outcome is `queued` until a batch takes it. */
  phase(record: JobRecord): JobPhase {
    if (record.outcome) return record.outcome.kind === 'sealed' ? 'completed' : 'failed';
    return this.#pending.get(record.job.id)?.phase ?? 'sealing';
  }

  /**
   * The outcome of a durable job; undefined if `signal` aborts first. Then the job is durable and continues: when its caller stops waiting,
   * a blocking job becomes an asynchronous one. A commit that has begun is waited for all the same, even on a full disk. Throws
   * ServiceError if the job was dropped because nothing could be sealed: then it never existed.
   */
  async settled(jobId: string, signal: AbortSignal): Promise<Outcome | undefined> {
    const pending = this.#pending.get(jobId);
    if (pending !== undefined) return (await pending.settled(signal)) ?? this.#keep(pending);
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
    return this.#pending.count((job) => this.#waitedMs(job));
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
    this.#closing = true;
    this.#wake.resolve();
    const patience = setTimeout(() => this.#pipeline.cutOff(), CLOSE_MS_MAX);
    await this.#loop;
    clearTimeout(patience);
    await Promise.allSettled(Array.from(this.#pending, ({ keeping }) => keeping));
  }

  #add(pending: Pending): void {
    this.#pending.add(pending);
    if (!isSealable(pending)) return;
    this.#queue.add(pending);
    this.#wake.resolve();
  }

  /** Makes a job durable that is only in memory, unless its batch is faster: then resolves with its outcome. */
  async #keep(pending: Pending): Promise<Outcome | undefined> {
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
    else this.#settle(pending, refusal);
  }

  async #run(): Promise<void> {
    const { batchJobsMax } = this.#options;
    while (!this.#closing || !this.#pipeline.isEmpty) {
      const obstacle = this.obstacle();
      if (this.#closing || !this.#pipeline.admits(this.#queue.length)) await this.#nextWake();
      else if (obstacle) await this.#waitUntilClear(obstacle);
      else {
        // Everything else that happens in this turn of the event loop can join the batch.
        await nextTurn();
        await this.#pipeline.launch(() => this.#queue.take(batchJobsMax));
      }
    }
  }

  /** Ends the sealer because it cannot continue. */
  #break(error: unknown): void {
    if (this.#isBroken) return;
    this.#isBroken = true;
    this.#closing = true;
    this.#wake.resolve();
    this.#options.onFatal(error);
  }

  #nextWake(): Promise<void> {
    this.#wake = Promise.withResolvers<void>();
    return this.#wake.promise;
  }

  async #waitUntilClear(obstacle: ServiceError): Promise<void> {
    const { giveUpAfterMs } = this.#options;
    // Taken first, so that a job queued during the failures below is not missed.
    const wake = this.#nextWake();
    await this.#failUnsealable(obstacle);
    if (this.#queue.length === 0) return;
    const stop = new AbortController();
    const [oldest] = this.#queue.perishable;
    const patienceMs = oldest ? giveUpAfterMs - this.#waitedMs(oldest.job) : PATIENCE_MS_MAX;
    const timer = setTimeout(() => stop.abort(), Math.min(Math.max(patienceMs, 0), PATIENCE_MS_MAX));
    await Promise.race([wake, cleared(this.#options, stop.signal)]);
    clearTimeout(timer);
    stop.abort();
  }

  /** While nothing can be sealed: drops jobs that are in memory only, and fails others after `giveUpAfterMs`. */
  async #failUnsealable(obstacle: ServiceError): Promise<void> {
    const { giveUpAfterMs, clock } = this.#options;
    const isOverdue = ({ job }: Pending) => this.#waitedMs(job) >= giveUpAfterMs;
    const left: Sealable[] = [];
    const failed: Sealable[] = [];
    for (const one of this.#queue.perishable) {
      if (one.isOver) continue;
      const isInMemory = one.acceptance !== undefined;
      if (isInMemory && one.keeping === undefined) this.#settle(one, obstacle);
      else if (!isInMemory && isOverdue(one)) failed.push(one);
      else left.push(one);
    }
    this.#queue.perishable = left;
    const failure: Failure = { code: obstacle.code, message: obstacle.message, failedAt: clock() };
    await Promise.all(failed.map((one) => this.#fail(one, failure)));
  }

  /** In service time: neither a jump of the clock nor time while the machine was off makes a job older. */
  #waitedMs({ since }: Job): number {
    return this.#options.store.serviceTime.since(since);
  }

  async #fail(pending: Pending, failure: Failure): Promise<void> {
    await this.#options.store.jobs.fail(pending.job.id, failure);
    this.#settle(pending, { kind: 'failed', failure });
    this.#options.observer?.failed(pending.job, failure.code);
  }

  #settle(pending: Pending, end: Outcome | ServiceError | StoreError): void {
    this.#pending.delete(pending.job);
    pending.settle(end);
  }
}
