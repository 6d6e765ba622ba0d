import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { type Clock, stopwatch } from '../base/clock.ts';
import { OperatorError, type ServiceError } from '../base/errors.ts';
import type { Content, Failure, Job, JobMode, JobPhase, JobRecord, Outcome } from '../job/job.ts';
import { belowQuorum } from '../kms/partitions.ts';
import type { Limits } from '../limits/limits.ts';
import type { Term } from '../log/epochs.ts';
import { type Edge, emptyEdge } from '../log/tree.ts';
import type { DiskSpace } from '../store/diskSpace.ts';
import type { Acceptance, Batch, SealedBatch, Store, StoredCopy } from '../store/store.ts';
import { committedEdge, type Draft, draftBatch, sealedBatch, signCheckpoint } from './draft.ts';
import type { SealedJobs, SealerObserver } from './observer.ts';
import { obstacleOf, queueFull, unstampable } from './obstacle.ts';
import { isSealable, Pending, PendingJobs, type Sealable, type WaitingJobs } from './pending.ts';
import type { Signing } from './signing.ts';
import type { Timestamping } from './timestamping.ts';

export interface SealerOptions {
  store: Store;
  signing: Pick<Signing, 'epoch' | 'term' | 'sign' | 'canSign' | 'recovered'>;
  /** Absent: nothing is sealed in an epoch that requires time-stamps. */
  timestamping?: Pick<Timestamping, 'stamp' | 'canStamp' | 'recovered' | 'sealed'>;
  /** The disk of the store. Absent: nobody looks at it. */
  diskSpace?: Pick<DiskSpace, 'admit'>;
  /** Told of jobs that no longer count against a quota. Absent: there are no quotas. */
  limits?: Pick<Limits, 'giveBack'>;
  /** How many accepted jobs may wait. Further jobs are refused with `queue_full`. */
  queueJobsMax: number;
  /** How many jobs share one checkpoint at most. */
  batchJobsMax: number;
  /** How long a job may wait for HSM and time-stamps before it fails, in milliseconds of service time from its acceptance. */
  giveUpAfterMs: number;
  clock: Clock;
  logger: Logger;
  observer?: SealerObserver;
  /** Called once when sealing cannot go on (a broken invariant, a commit of unknown outcome): the process must end. */
  onFatal(error: unknown): void;
}

/** A batch with all its evidence, not yet committed. */
type Evidence = Pick<SealedJobs, 'signMs' | 'stampMs'> & { batch: SealedBatch };

const STRADDLE_PAUSE_MS = 50;
/** Node's timers beyond 2^31 ms fire at once; waking up once a minute costs nothing. */
const PATIENCE_MS_MAX = 60_000;
/** How long the current batch may wait for its time-stamp when the daemon stops. */
const CLOSE_MS_MAX = 2_000;

/**
 * Seals accepted jobs, batch by batch. There is no timer: all jobs that wait when a batch is done become the next
 * batch. The sealer owns the right edge of the log's tree, and nothing else appends to it. It knows every job
 * without an outcome, also jobs whose documents are still to be fetched.
 */
export class Sealer {
  readonly #options: SealerOptions;
  readonly #pending = new PendingJobs();
  #queue: Sealable[] = [];
  #edge: Edge;
  #sealedAt: number;
  #closing = false;
  readonly #cutOff = new AbortController();
  #wake = Promise.withResolvers<void>();
  #loop: Promise<void> = Promise.resolve();

  constructor(options: SealerOptions, edge: Edge, head: Batch | undefined, waiting: Job[]) {
    this.#options = options;
    this.#edge = edge;
    this.#sealedAt = head?.sealedAt ?? 0;
    // A received job found waiting may already have been reported as `sealing`; a phase never goes back.
    for (const job of waiting) this.#add(new Pending(job, job.content ? 'sealing' : 'queued', false));
  }

  /** Begins to seal. Called once. */
  start(): void {
    this.#loop = this.#run().catch((error) => this.#options.onFatal(error));
  }

  /**
   * Refuses a request that could not be fulfilled before its document is received. Throws ServiceError
   * `storage_full` or `queue_full`, and for a blocking request `kms_partition_unavailable` or `timestamp_unavailable` while nothing can be sealed.
   */
  admit(mode: JobMode): void {
    this.#options.diskSpace?.admit();
    if (this.waitingCount >= this.#options.queueJobsMax) throw queueFull();
    const obstacle = mode === 'blocking' ? this.obstacle() : undefined;
    if (obstacle) throw obstacle;
  }

  /**
   * Makes the job durable, and queues it if its document was received. Once this resolves, the job survives any crash.
   */
  async accept(job: Job, acceptance?: Acceptance): Promise<void> {
    const pending = new Pending(job, 'queued', job.mode === 'blocking');
    const startedAtMs = performance.now();
    this.#pending.add(pending);
    try {
      await this.#options.store.jobs.accept(job, acceptance);
    } catch (error) {
      this.#pending.delete(job);
      throw error;
    }
    this.#options.observer?.accepted(job, performance.now() - startedAtMs);
    // If we stop here, the job is found waiting at the next start.
    this.#add(pending);
  }

  /** Queues a job that another process made durable, unless it is known here or has an outcome. */
  async adopt(jobId: string): Promise<void> {
    if (this.#pending.get(jobId) !== undefined) return;
    const record = await this.#options.store.jobs.get(jobId);
    if (record !== undefined && record.outcome === undefined)
      this.#add(new Pending(record.job, 'queued', false));
  }

  /** The document of a pending job is being hashed. */
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
   * The outcome of an accepted job once it is durable; undefined if `signal` aborts first. The job continues in
   * both cases: when its caller stops waiting, a blocking job becomes an asynchronous one.
   */
  async settled(jobId: string, signal: AbortSignal): Promise<Outcome | undefined> {
    const pending = this.#pending.get(jobId);
    return pending ? pending.settled(signal) : (await this.#options.store.jobs.get(jobId))?.outcome;
  }

  /** How many accepted jobs of clients have no outcome yet. */
  get waitingCount(): number {
    return this.#pending.ofClients;
  }

  /** The phases and waiting times of these jobs. Visits each job, so not for every request. */
  get waiting(): WaitingJobs {
    return this.#pending.count((job) => this.#waitedMs(job));
  }

  /** The error for callers while nothing can be sealed; undefined while sealing works. */
  obstacle(): ServiceError | undefined {
    const { signing, timestamping } = this.#options;
    if (!signing.canSign()) return belowQuorum();
    const isStamped = signing.epoch.timestamps === 'required';
    return isStamped && !timestamping?.canStamp() ? unstampable() : undefined;
  }

  /** Ends after the current batch, but does not wait long for its time-stamp. Jobs that still wait are sealed after the next start. */
  async close(): Promise<void> {
    this.#closing = true;
    this.#wake.resolve();
    const patience = setTimeout(() => this.#cutOff.abort(), CLOSE_MS_MAX);
    await this.#loop;
    clearTimeout(patience);
  }

  #add(pending: Pending): void {
    this.#pending.add(pending);
    if (!isSealable(pending)) return;
    this.#queue.push(pending);
    this.#wake.resolve();
  }

  async #run(): Promise<void> {
    while (!this.#closing) {
      const obstacle = this.obstacle();
      if (this.#queue.length === 0) await this.#nextWake();
      else if (obstacle) await this.#waitUntilClear(obstacle);
      else await this.#sealBatch();
    }
  }

  #nextWake(): Promise<void> {
    this.#wake = Promise.withResolvers<void>();
    return this.#closing ? Promise.resolve() : this.#wake.promise;
  }

  async #sealBatch(): Promise<void> {
    const { store, timestamping, observer } = this.#options;
    const pending = this.#queue.slice(0, this.#options.batchJobsMax);
    const waitedMs = pending.map(({ job }) => this.#waitedMs(job));
    const { draft, term } = await this.#draft(pending);
    const evidence = await this.#evidence(draft, term);
    if (!evidence) return;
    const lap = stopwatch();
    // If we stop before this commit, the batch never was: its jobs still wait and its signatures never left the process.
    // If we stop after it, receipts and tiles are read from the store. If the epochs changed since the draft,
    // nothing is written, and the batch is drafted again.
    if (!(await store.log.commit(evidence.batch))) return;
    const commitMs = lap();
    this.#queue = this.#queue.slice(pending.length);
    this.#edge = draft.edge;
    this.#sealedAt = draft.sealedAt;
    timestamping?.sealed(draft.sealedAt);
    for (const [n, one] of pending.entries()) {
      this.#settle(one, { kind: 'sealed', leafIndex: draft.firstLeaf + n });
    }
    const { batch: _, ...steps } = evidence;
    observer?.sealed({ jobs: pending.map(({ job }) => job), waitedMs, ...steps, commitMs });
  }

  async #draft(pending: Sealable[]): Promise<{ draft: Draft; term: Term }> {
    const { clock, store, signing } = this.#options;
    for (const one of pending) one.phase = 'sealing';
    // The log's time never goes back, even if the clock does.
    const sealedAt = Math.max(clock(), this.#sealedAt, signing.epoch.from);
    const term = await signing.term(sealedAt);
    const jobs = pending.map(({ job }) => job);
    return { draft: draftBatch(store.identity, this.#edge, jobs, sealedAt), term };
  }

  /** Collects signatures, then a time-stamp. Undefined if they are not available within the epoch: the jobs stay queued. */
  async #evidence(draft: Draft, term: Term): Promise<Evidence | undefined> {
    const { signing, store, timestamping, logger } = this.#options;
    try {
      const lap = stopwatch();
      const signatures = await signing.sign(term, Buffer.from(draft.text));
      if (signatures === undefined) return await this.#draftAgain();
      const signMs = lap();
      const checkpoint = signCheckpoint(draft.text, store.identity.logOrigin, signatures);
      const isStamped = term.epoch.timestamps === 'required';
      if (isStamped && !timestamping) throw unstampable();
      const timestamp = isStamped
        ? await timestamping?.stamp(checkpoint.note, draft.sealedAt, term, this.#cutOff.signal)
        : undefined;
      if (isStamped && timestamp === undefined) return await this.#draftAgain();
      const batch = sealedBatch(draft, term.revision, checkpoint, timestamp);
      return { batch, signMs, ...(timestamp && { stampMs: lap() }) };
    } catch (error) {
      const obstacle = obstacleOf(error);
      if (!obstacle) throw error;
      if (this.#cutOff.signal.aborted) return undefined;
      const fields = { error_code: obstacle.code, jobs: draft.leaves.length };
      logger.warn(fields, 'a batch could not be sealed; its jobs wait');
      await this.#failUnsealable(obstacle);
      return undefined;
    }
  }

  /** A batch that reaches over the end of its epoch belongs to no epoch. The clock of an authority can pass that end before ours does. */
  async #draftAgain(): Promise<undefined> {
    this.#options.logger.info('a batch reached over the end of its epoch and is drafted again');
    await sleep(STRADDLE_PAUSE_MS);
  }

  async #waitUntilClear(obstacle: ServiceError): Promise<void> {
    const { giveUpAfterMs } = this.#options;
    // Taken first, so that a job queued during the failures below is not missed.
    const wake = this.#nextWake();
    await this.#failUnsealable(obstacle);
    if (this.#queue.length === 0) return;
    const stop = new AbortController();
    const oldest = this.#queue.find(isGivenUp);
    const patienceMs = oldest ? giveUpAfterMs - this.#waitedMs(oldest.job) : PATIENCE_MS_MAX;
    const timer = setTimeout(() => stop.abort(), Math.min(Math.max(patienceMs, 0), PATIENCE_MS_MAX));
    await Promise.race([wake, this.#cleared(stop.signal)]);
    clearTimeout(timer);
    stop.abort();
  }

  /** Resolves as soon as the obstacle may be gone, or when the signal aborts. */
  async #cleared(signal: AbortSignal): Promise<void> {
    const { signing, timestamping } = this.#options;
    await signing.recovered(signal);
    if (signing.epoch.timestamps === 'none' || signal.aborted) return;
    await (timestamping?.recovered(signal) ?? once(signal, 'abort'));
  }

  /** While nothing can be sealed: fails jobs whose callers wait on a connection at once, others after `giveUpAfterMs`. */
  async #failUnsealable({ code, message }: ServiceError): Promise<void> {
    const { giveUpAfterMs, clock } = this.#options;
    const unsealable = (pending: Pending) =>
      pending.held || (isGivenUp(pending) && this.#waitedMs(pending.job) >= giveUpAfterMs);
    const failing = this.#queue.filter(unsealable);
    this.#queue = this.#queue.filter((pending) => !unsealable(pending));
    const failure: Failure = { code, message, failedAt: clock() };
    await Promise.all(failing.map((pending) => this.#fail(pending, failure)));
  }

  /** In service time: neither a jump of the clock nor time while the machine was off makes a job older. */
  #waitedMs({ since }: Job): number {
    return this.#options.store.serviceTime.since(since);
  }

  async #fail(pending: Pending, failure: Failure): Promise<void> {
    pending.failing = true;
    // A repeat of a blocking request gets the outcome of the first one. This failure is temporary, so the key is released.
    const releaseKey = pending.job.mode === 'blocking';
    await this.#options.store.jobs.fail(pending.job.id, failure, { releaseKey });
    if (releaseKey) this.#options.limits?.giveBack(pending.job);
    this.#settle(pending, { kind: 'failed', failure });
    this.#options.observer?.failed(pending.job, failure.code);
  }

  #settle(pending: Pending, outcome: Outcome): void {
    this.#pending.delete(pending.job);
    pending.settle(outcome);
  }
}

/** Whether the job fails if it cannot be sealed in time. Audit records are sealed however late. */
function isGivenUp({ job }: Pending): boolean {
  return job.source !== 'audit';
}

/**
 * Opens the sealer at the tree that the newest checkpoint commits to. Throws OperatorError if tiles and checkpoint
 * disagree: the store is damaged, and another signature would hide that.
 */
export async function openSealer(options: SealerOptions): Promise<Sealer> {
  const { store } = options;
  const head = await store.log.head();
  const edge =
    head === undefined
      ? emptyEdge()
      : await committedEdge(head, (level, index) => store.log.tile(level, index));
  if (edge === undefined) {
    throw new OperatorError(
      'the log in the store does not match its newest checkpoint; nothing will be signed. Run `pdfseal check`: its last line says what to do',
    );
  }
  const sealer = new Sealer(options, edge, head, await store.jobs.waiting(Number.MAX_SAFE_INTEGER));
  sealer.start();
  return sealer;
}
