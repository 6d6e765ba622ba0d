import type { Logger } from 'pino';
import { OperatorError, ServiceError } from '../base/errors.ts';
import { Rounds } from '../base/rounds.ts';
import { DATED_MS_MAX } from '../job/acceptedJob.ts';
import type { Job, JobMode, JobPhase, JobRecord, Outcome, ReceivedJob } from '../job/job.ts';
import type { SealingNode, SealingView } from '../store/arrivals.ts';
import type { Acceptance, Store } from '../store/store.ts';
import type { SealerObserver } from './observer.ts';
import { obstacleNamed, queueFull, repeatLater } from './obstacle.ts';
import type { WaitingJobs } from './pendingJobs.ts';

export interface RemoteSealerOptions {
  store: Pick<Store, 'jobs' | 'space'>;
  sealing: SealingView;
  /** How many accepted jobs may wait, together for this front, others with its login, and the daemon that seals. */
  queueJobsMax: number;
  observer?: Pick<SealerObserver, 'accepted'>;
  logger: Pick<Logger, 'error'>;
  /** Called if the store can no longer be read. */
  onFatal(error: unknown): void;
}

/** The daemon that seals, as a front saw it last. */
export type NodeOutlook = Pick<
  SealingNode,
  'isActive' | 'holder' | 'obstacle' | 'scans' | 'lacksAcceptanceKey' | 'isPrivileged'
>;

/** Interval at which a front checks for changes, even without a notification. */
const LOOK_MS = 1_000;
/** Another daemon takes over within this time; until then, blocking requests wait for it. */
const TAKEOVER_MS_MAX = 10_000;
const RETRY_AFTER_SECONDS = 2;

/** The store refuses a job whose date differs from that of the database; a minute is left for transmission. */
const AHEAD_MS_MAX = DATED_MS_MAX - 60_000;

/** Somebody repeated a request before it was refused, and asks for the outcome afterwards. */
function refusedBefore(): ServiceError {
  return new ServiceError(
    'idempotency_in_progress',
    'The first request with this Idempotency-Key was refused, so nothing was sealed. Repeat it.',
    { retryAfterSeconds: RETRY_AFTER_SECONDS },
  );
}

/**
 * The sealer of a front: it makes jobs durable, another daemon seals them, and callers waiting here are notified of the outcome. It has no
 * keys, and does not write to the log.
 */
export class RemoteSealer {
  readonly #options: RemoteSealerOptions;
  /** Jobs that are being made durable, by id. */
  readonly #accepting = new Map<string, Promise<void>>();
  /** Callers that wait for an outcome, by the id of the job. */
  readonly #waiters = new Map<string, Set<(outcome: Outcome) => void>>();
  readonly #refreshing: Rounds;
  /** Looks for outcomes: a notification that arrives during a look is handled by the next one. */
  readonly #looking: Rounds;
  #node: SealingNode;
  /** On the monotonic clock, in milliseconds. */
  #activeAtMs = performance.now();
  /** Jobs accepted here since the node's state was read. */
  #added = 0;

  private constructor(options: RemoteSealerOptions, node: SealingNode) {
    this.#options = options;
    this.#node = node;
    this.#refreshing = new Rounds(() => this.#refresh(), LOOK_MS, options.onFatal);
    this.#looking = new Rounds(() => this.#look(), LOOK_MS, options.onFatal);
    options.sealing.onNotice(() => void this.#looking.now());
  }

  static async open(options: RemoteSealerOptions): Promise<RemoteSealer> {
    const sealer = new RemoteSealer(options, await options.sealing.node());
    if (sealer.#isMisdated) sealer.#reportClock();
    return sealer;
  }

  /** As of a sealer that has keys: throws StoreError `disk_full`, or ServiceError `queue_full` or `timestamp_unavailable`, `kms_partition_unavailable` without an acceptance key that is demanded, and for a blocking request what the daemon that seals has named. */
  admit(mode: JobMode): void {
    this.#options.store.space?.admit();
    if (this.waitingCount >= this.#options.queueJobsMax) throw queueFull();
    if (this.#isMisdated)
      throw repeatLater(
        'timestamp_unavailable',
        'The clock of this node is wrong, so it can date no job, and nothing was sealed.',
      );
    if (this.#node.lacksAcceptanceKey) {
      // The cause tells the administrator's log what to do.
      const cause = new OperatorError(
        'the daemon that seals demands an acceptance key that this front does not have: bring it the file, and set store.acceptance_key_credential',
      );
      const why = 'The node that seals takes no jobs from this one at the moment, so nothing was sealed.';
      throw repeatLater('kms_partition_unavailable', why, cause);
    }
    const obstacle = mode === 'blocking' ? this.#obstacle() : undefined;
    if (obstacle) throw obstacle;
  }

  /** Makes the job durable. Once this resolves, it survives any crash. Throws StoreError if it conflicts with a job of another node. */
  async accept(job: Job, acceptance: Acceptance = {}): Promise<void> {
    const { store, observer } = this.#options;
    const sinceMs = performance.now();
    const accepting = store.jobs.accept(job, acceptance);
    accepting.catch(() => {}); // The caller that waits for its outcome gets the error.
    this.#accepting.set(job.id, accepting);
    try {
      await accepting;
    } finally {
      this.#accepting.delete(job.id);
    }
    this.#added += 1;
    observer?.accepted(job, performance.now() - sinceMs);
  }

  /** Like {@link accept}, for a job whose caller waits: {@link settled} throws what this did. */
  submit(job: ReceivedJob, acceptance: Acceptance = {}): void {
    this.accept(job, acceptance).catch(() => {});
  }

  /**
   * The outcome of a durable job; undefined if `signal` aborts first, and then the job is durable and continues. Throws ServiceError, or
   * StoreError, if it was refused, and then it never existed.
   */
  async settled(jobId: string, signal: AbortSignal): Promise<Outcome | undefined> {
    const { promise, resolve } = Promise.withResolvers<Outcome | undefined>();
    const waiters = this.#waiters.get(jobId) ?? new Set();
    this.#waiters.set(jobId, waiters.add(resolve)); // From now on, it is notified of the outcome.
    const stop = () => resolve(undefined);
    try {
      const accepting = this.#accepting.get(jobId);
      if (accepting !== undefined) await accepting;
      else if ((await this.#options.store.jobs.get(jobId)) === undefined) throw refusedBefore();
      else void this.#looking.now(); // It may have ended before.
      if (signal.aborted) return undefined;
      signal.addEventListener('abort', stop, { once: true });
      return await promise;
    } finally {
      signal.removeEventListener('abort', stop);
      waiters.delete(resolve);
      if (waiters.size === 0) this.#waiters.delete(jobId);
    }
  }

  /** The phase of a job, as far as this node can determine it. */
  phase({ job, outcome }: JobRecord): JobPhase {
    if (outcome) return outcome.kind === 'sealed' ? 'completed' : 'failed';
    return job.content ? 'sealing' : 'queued';
  }

  /** The jobs without an outcome that count against {@link RemoteSealerOptions.queueJobsMax}. */
  get waitingCount(): number {
    return this.#node.waiting + this.#added;
  }

  get waiting(): WaitingJobs {
    const none = { queued: 0, hashing: 0, sealing: 0 };
    return { phases: { ...none, sealing: this.waitingCount }, longestMs: none, auditRecords: 0 };
  }

  get outlook(): NodeOutlook {
    return this.#node;
  }

  async close(): Promise<void> {
    const rounds = [this.#refreshing.close(), this.#looking.close()];
    await Promise.allSettled([...this.#accepting.values(), ...rounds]);
  }

  get #isMisdated(): boolean {
    return Math.abs(this.#node.aheadMs) > AHEAD_MS_MAX;
  }

  #obstacle(): ServiceError | undefined {
    const { isActive, obstacle } = this.#node;
    if (isActive && obstacle !== undefined) return obstacleNamed(obstacle);
    if (isActive || performance.now() - this.#activeAtMs < TAKEOVER_MS_MAX) return undefined;
    const why = 'No node of this service can seal at the moment, so nothing was sealed.';
    return repeatLater('kms_partition_unavailable', why);
  }

  async #refresh(): Promise<void> {
    const added = this.#added;
    const wasMisdated = this.#isMisdated;
    this.#node = await this.#options.sealing.node();
    if (this.#isMisdated && !wasMisdated) this.#reportClock();
    this.#added -= added;
    if (this.#node.isActive) this.#activeAtMs = performance.now();
  }

  #reportClock(): void {
    const aheadSeconds = Math.round(this.#node.aheadMs / 1000);
    this.#options.logger.error(
      { event: 'clock_of_database', ahead_seconds: aheadSeconds },
      'the clock of this machine is not that of the database, so no job is accepted: correct the wrong one',
    );
  }

  async #look(): Promise<void> {
    if (this.#waiters.size === 0) return;
    const outcomes = await this.#options.sealing.outcomes([...this.#waiters.keys()]);
    for (const [jobId, outcome] of outcomes)
      for (const resolve of this.#waiters.get(jobId) ?? []) resolve(outcome);
  }
}
