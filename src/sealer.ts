import type { Logger } from 'pino';
import { assert } from './base/assert.ts';
import { bytesEqual } from './base/bytes.ts';
import type { Clock } from './base/clock.ts';
import { OperatorError, ServiceError } from './base/errors.ts';
import type { Failure, Job, JobMode, JobPhase, JobRecord, Outcome } from './job/job.ts';
import { belowQuorum, type PartitionSignature, type Partitions } from './kms/partitions.ts';
import { encodeCheckpoint, parseCheckpoint } from './log/checkpoint.ts';
import { noteKeyId } from './log/keys.ts';
import { encodeNote, parseNote } from './log/note.ts';
import type { Tile } from './log/tiles.ts';
import { appendLeaves, type Edge, leafHash, loadEdge, rootOf } from './log/tree.ts';
import { leafData, manifestOf } from './manifest/manifest.ts';
import { kmsKeyId, receiptAlgorithm } from './manifest/receipt.ts';
import type { Batch, IdempotencyEntry, Leaf, SealedBatch, Store } from './store/store.ts';

export interface SealerOptions {
  store: Store;
  partitions: Pick<Partitions, 'sign' | 'canSign' | 'recovered'>;
  /** Accepted jobs that may wait; one more is refused with `queue_full`. */
  queueJobsMax: number;
  /** Jobs that share one checkpoint at most. */
  batchJobsMax: number;
  /** How long a job may wait for the HSM before it fails, in milliseconds from its acceptance. */
  giveUpAfterMs: number;
  clock: Clock;
  logger: Logger;
  /** Called once when sealing cannot go on (a broken invariant, a commit of unknown outcome): the process must end. */
  onFatal(error: unknown): void;
}

/** A job between its acceptance and its outcome, as this process sees it. */
interface Pending {
  job: Job;
  phase: 'queued' | 'sealing';
  /** Whether a caller holds a connection open for the outcome: such a job fails at once when the HSM cannot sign. */
  held: boolean;
  /** Its failure is being written: whoever waits hears of it, even past the time-out. */
  failing: boolean;
  waiters: Set<(outcome: Outcome) => void>;
}

function pendingJob(job: Job, phase: Pending['phase'], held: boolean): Pending {
  return { job, phase, held, failing: false, waiters: new Set() };
}

/** Everything a checkpoint commits to, made in memory before any key signs it. */
interface Draft {
  pending: Pending[];
  leaves: Leaf[];
  tiles: Tile[];
  edge: Edge;
  sealedAt: number;
  text: string;
}

const RETRY_AFTER_SECONDS = 2;
/** Timers beyond 2^31 ms fire at once; waking up now and then costs nothing. */
const PATIENCE_MS_MAX = 60_000;

/**
 * Turns accepted jobs into sealed ones, batch by batch. There is no timer: all that waits when a batch is done becomes
 * the next one. Owns the right edge of the log's tree; nobody else appends to it.
 */
export class Sealer {
  readonly #options: SealerOptions;
  readonly #pending = new Map<string, Pending>();
  #queue: Pending[] = [];
  #edge: Edge;
  #sealedAt: number;
  #closing = false;
  #wake = Promise.withResolvers<void>();
  #loop: Promise<void> = Promise.resolve();

  constructor(options: SealerOptions, edge: Edge, head: Batch | undefined, waiting: Job[]) {
    this.#options = options;
    this.#edge = edge;
    this.#sealedAt = head?.sealedAt ?? 0;
    // A job found waiting may already have been reported as `sealing`; a phase never goes back.
    for (const job of waiting) this.#enqueue(pendingJob(job, 'sealing', false));
  }

  /** Begins to seal. Called once. */
  start(): void {
    this.#loop = this.#run().catch((error) => this.#options.onFatal(error));
  }

  /**
   * Refuses work that could not be done, before any of it is received: throws ServiceError `queue_full`, and for a
   * blocking create `kms_partition_unavailable` while too few partitions can sign.
   */
  admit(mode: JobMode): void {
    if (this.#pending.size >= this.#options.queueJobsMax) {
      throw new ServiceError('queue_full', 'Too many jobs wait to be sealed. Repeat the request later.', {
        retryAfterSeconds: RETRY_AFTER_SECONDS,
      });
    }
    if (mode === 'blocking' && !this.#options.partitions.canSign()) throw belowQuorum();
  }

  /** Makes the job durable and queues it. Once this resolves, the job survives any crash. */
  async accept(job: Job, idempotency?: IdempotencyEntry): Promise<void> {
    const pending = pendingJob(job, 'queued', job.mode === 'blocking');
    this.#pending.set(job.id, pending);
    try {
      await this.#options.store.accept(job, idempotency);
    } catch (error) {
      this.#pending.delete(job.id);
      throw error;
    }
    // If we stop here, the job is found waiting at the next start.
    this.#enqueue(pending);
  }

  /** The phase of a job as of now; a job without an outcome is `queued` until a batch takes it. */
  phase(record: JobRecord): JobPhase {
    if (record.outcome) return record.outcome.kind === 'sealed' ? 'completed' : 'failed';
    return this.#pending.get(record.job.id)?.phase ?? 'sealing';
  }

  /**
   * The outcome of an accepted job, once it is durable; undefined when `signal` aborts first. The job goes on either
   * way: a caller that stops waiting turns a blocking job into an asynchronous one.
   */
  async settled(jobId: string, signal: AbortSignal): Promise<Outcome | undefined> {
    const pending = this.#pending.get(jobId);
    if (!pending) return (await this.#options.store.job(jobId))?.outcome;
    const { promise, resolve } = Promise.withResolvers<Outcome | undefined>();
    const giveUp = () => {
      if (!pending.failing) resolve(undefined);
    };
    pending.waiters.add(resolve);
    signal.addEventListener('abort', giveUp, { once: true });
    if (signal.aborted) giveUp();
    try {
      return await promise;
    } finally {
      signal.removeEventListener('abort', giveUp);
      pending.waiters.delete(resolve);
      if (pending.waiters.size === 0) pending.held = false;
    }
  }

  /** How many accepted jobs have no outcome yet. */
  get waitingCount(): number {
    return this.#pending.size;
  }

  /** Ends after the batch in hand; what still waits is sealed after the next start. */
  async close(): Promise<void> {
    this.#closing = true;
    this.#wake.resolve();
    await this.#loop;
  }

  #enqueue(pending: Pending): void {
    this.#pending.set(pending.job.id, pending);
    this.#queue.push(pending);
    this.#wake.resolve();
  }

  async #run(): Promise<void> {
    while (!this.#closing) {
      if (this.#queue.length === 0) await this.#nextWake();
      else if (this.#options.partitions.canSign()) await this.#sealBatch();
      else await this.#waitForPartitions();
    }
  }

  #nextWake(): Promise<void> {
    this.#wake = Promise.withResolvers<void>();
    return this.#closing ? Promise.resolve() : this.#wake.promise;
  }

  async #sealBatch(): Promise<void> {
    const draft = this.#draft(this.#queue.slice(0, this.#options.batchJobsMax));
    const signatures = await this.#sign(draft);
    if (!signatures) return;
    // If we stop before this commit, the batch never was: its jobs still wait and its signatures never left the process.
    // If we stop after it, receipts and tiles are read from the store.
    await this.#options.store.commitBatch(sealedBatch(draft, signatures, this.#edge.size));
    this.#queue = this.#queue.slice(draft.pending.length);
    this.#sealedAt = draft.sealedAt;
    const firstLeaf = this.#edge.size;
    this.#edge = draft.edge;
    for (const [n, pending] of draft.pending.entries()) {
      this.#settle(pending, { kind: 'sealed', leafIndex: firstLeaf + n });
    }
  }

  /** Manifests → leaves → tree → checkpoint text. Pure but for the phase; a crash costs nothing but the work. */
  #draft(pending: Pending[]): Draft {
    const { clock, store } = this.#options;
    const { environment, logOrigin } = store.identity;
    // The log's time never goes back, even where the clock does.
    const sealedAt = Math.max(clock(), this.#sealedAt);
    const leaves = pending.map(({ job }) => ({
      jobId: job.id,
      data: leafData(manifestOf(job, environment, sealedAt)),
    }));
    const { edge, tiles } = appendLeaves(
      this.#edge,
      leaves.map((leaf) => leafHash(leaf.data)),
    );
    const text = encodeCheckpoint({ origin: logOrigin, treeSize: edge.size, root: rootOf(edge) });
    for (const one of pending) one.phase = 'sealing';
    return { pending, leaves, tiles, edge, sealedAt, text };
  }

  /** Every healthy partition signs; undefined when too few can, and then the jobs simply stay in the queue. */
  async #sign(draft: Draft): Promise<Note | undefined> {
    try {
      const signatures = await this.#options.partitions.sign(Buffer.from(draft.text));
      return signedNote(draft.text, this.#options.store.identity.logOrigin, signatures);
    } catch (error) {
      if (!(error instanceof ServiceError && error.code === 'kms_partition_unavailable')) throw error;
      this.#options.logger.warn(
        { err: error, jobs: draft.pending.length },
        'too few partitions signed the checkpoint',
      );
      await this.#failUnsealable();
      return undefined;
    }
  }

  async #waitForPartitions(): Promise<void> {
    // Taken first: a job queued while others are failed below must not be missed.
    const wake = this.#nextWake();
    await this.#failUnsealable();
    const [oldest] = this.#queue;
    if (!oldest) return;
    const stop = new AbortController();
    const patienceMs = oldest.job.acceptedAt + this.#options.giveUpAfterMs - this.#options.clock();
    const timer = setTimeout(() => stop.abort(), Math.min(Math.max(patienceMs, 0), PATIENCE_MS_MAX));
    await Promise.race([wake, this.#options.partitions.recovered(stop.signal)]);
    clearTimeout(timer);
    stop.abort();
  }

  /** While nothing can be signed: callers that hold a connection open are told at once, others after `giveUpAfterMs`. */
  async #failUnsealable(): Promise<void> {
    const now = this.#options.clock();
    const unsealable = ({ job, held }: Pending) =>
      held || now - job.acceptedAt >= this.#options.giveUpAfterMs;
    const failing = this.#queue.filter(unsealable);
    this.#queue = this.#queue.filter((pending) => !unsealable(pending));
    const failure: Failure = {
      code: 'kms_partition_unavailable',
      message: belowQuorum().message,
      failedAt: now,
    };
    await Promise.all(
      failing.map(async (pending) => {
        pending.failing = true;
        // Whoever repeats a blocking create is answered with its outcome, and this one is not to be pinned.
        const releaseKey = pending.job.mode === 'blocking';
        await this.#options.store.fail(pending.job.id, failure, { releaseKey });
        this.#settle(pending, { kind: 'failed', failure });
      }),
    );
  }

  #settle(pending: Pending, outcome: Outcome): void {
    this.#pending.delete(pending.job.id);
    for (const resolve of pending.waiters) resolve(outcome);
  }
}

interface Note {
  checkpoint: string;
  /** The first partition, in config order, that signed. */
  first: PartitionSignature;
}

function signedNote(text: string, origin: string, signatures: PartitionSignature[]): Note {
  const [first] = signatures;
  assert(first, 'a quorum of no signatures');
  const lines = signatures.map((one) => ({
    name: origin,
    keyId: noteKeyId(origin, one),
    signature: one.signature,
  }));
  return { checkpoint: encodeNote(text, lines), first };
}

function sealedBatch(draft: Draft, { checkpoint, first }: Note, firstLeaf: number): SealedBatch {
  return {
    firstLeaf,
    treeSize: draft.edge.size,
    sealedAt: draft.sealedAt,
    checkpoint,
    algorithm: receiptAlgorithm(first.algorithm),
    kmsKeyId: kmsKeyId(first),
    leaves: draft.leaves,
    tiles: draft.tiles,
  };
}

/**
 * Opens the sealer on a store, at the tree its newest checkpoint commits to. Throws OperatorError when tiles and
 * checkpoint disagree: the store is damaged, and one more signature would only hide it.
 */
export async function openSealer(options: SealerOptions): Promise<Sealer> {
  const { store } = options;
  const head = await store.head();
  const edge = await loadEdge(head?.treeSize ?? 0, (level, index) => store.tile(level, index));
  if (head && !commitsTo(head, edge)) {
    throw new OperatorError(
      'the log in the store does not match its newest checkpoint; nothing will be signed. Run `pdfseal log check`, then restore a backup',
    );
  }
  const sealer = new Sealer(options, edge, head, await store.waiting(Number.MAX_SAFE_INTEGER));
  sealer.start();
  return sealer;
}

function commitsTo(head: Batch, edge: Edge): boolean {
  const text = parseNote(head.checkpoint)?.text;
  const checkpoint = text === undefined ? undefined : parseCheckpoint(text);
  return checkpoint?.treeSize === edge.size && bytesEqual(checkpoint.root, rootOf(edge));
}
