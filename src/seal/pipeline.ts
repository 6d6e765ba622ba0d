import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { assert } from '../base/assert.ts';
import { stopwatch } from '../base/clock.ts';
import type { ServiceError } from '../base/errors.ts';
import type { Job } from '../job/job.ts';
import type { Growth } from '../kms/order.ts';
import type { Term } from '../log/epochs.ts';
import type { ReadTile } from '../log/tiles.ts';
import type { Edge } from '../log/tree.ts';
import type { AnnouncedBatch, Batch, Store } from '../store/store.ts';
import type { Cosigners } from './cosigners.ts';
import { batchOf, type Draft, draftBatch, growthOf, signCheckpoint } from './draft.ts';
import type { SealedJobs } from './observer.ts';
import {
  cleared,
  forkAlarm,
  obstacleOf,
  obstacleTo,
  type Prerequisites,
  unstampable,
  unwitnessed,
} from './obstacle.ts';
import { isSealable, Pending, type Sealable } from './pending.ts';
import type { PendingJobs, PendingOptions } from './pendingJobs.ts';
import type { Signing } from './signing.ts';
import type { Timestamping } from './timestamping.ts';

export interface PipelineOptions extends PendingOptions {
  store: Store;
  signing: Pick<Signing, 'term' | 'sign' | 'sessions'> & Prerequisites['signing'];
  /** If absent, nothing is sealed in an epoch that requires time-stamps. */
  timestamping?: Pick<Timestamping, 'stamp' | 'sealed'> & NonNullable<Prerequisites['timestamping']>;
  /** Whether a witness holds another history of the log. If so, nothing is sealed, because that would continue a fork. */
  isForked?(): boolean;
  /** Present if batches are released only after witnesses have cosigned their checkpoints. */
  cosigners?: Cosigners | undefined;
  /** Maximum jobs that share one checkpoint. Audit records may be more. */
  batchJobsMax: number;
  logger: Logger;
  /** Called if sealing cannot continue (a broken invariant, a commit with an unknown outcome): the process must end. */
  onFatal(error: unknown): void;
}

/** A batch in progress: it is signed and time-stamped, and then committed after the batch before it. */
interface Flight {
  draft: Draft;
  term: Term;
  jobs: Sealable[];
  /** How long each job waited for the draft, in milliseconds of service time. */
  waitedMs: number[];
  /** The batch will not be committed: its jobs are in the queue again. */
  abandoned: boolean;
  /** Resolves once an authority was asked for its time-stamp, or if none will be asked. */
  dated: PromiseWithResolvers<void>;
  /** Resolves once it is committed or abandoned. Never rejects. */
  landed: Promise<void>;
}

/** A batch with its evidence, and the time that this took. */
interface Evidence extends Pick<SealedJobs, 'signMs' | 'stampMs'> {
  batch: Batch;
  /** How long it waited for the batch ahead before its time-stamp, in milliseconds. */
  aheadMs?: number;
  /** Set if witnesses may have seen it. */
  isAnnounced?: true;
}

/** Node's timers beyond 2^31 ms fire at once; waking up once a minute costs nothing. */
const PATIENCE_MS_MAX = 60_000;
/** How long the batches in progress may wait for their time-stamps when the daemon stops. */
const CLOSE_MS_MAX = 2_000;
const STRADDLE_PAUSE_MS = 50;
/** How soon a correction of the clock is noticed. */
const EARLY_PAUSE_MS_MAX = 1000;

/**
 * Seals jobs, batch by batch. There is no timer: all jobs that wait when there is room form the next batch. While batches are with the HSM and the authority, the next is drafted on the tree that the last of them
 * will produce; as many are in progress as the HSM has sessions. They are committed in order. A batch that cannot be sealed is abandoned
 * with all those drafted on it, and none of their data leaves the process.
 *
 * The pipeline owns the right edge of the log's tree: it is the only one that appends to it.
 */
export class Pipeline {
  readonly #options: PipelineOptions;
  readonly #pending: PendingJobs;
  /** In the order of their leaves. */
  #flights: Flight[] = [];
  /** The right edge of the committed tree. */
  #edge: Edge;
  /** `sealed_at` of the committed tree's last batch. */
  #sealedAt: number;
  readonly #cutOff = new AbortController();
  #closing = false;
  #isBroken = false;
  #loop: Promise<void> = Promise.resolve();

  /** `edge`: the right edge of the tree that `head` commits to. */
  constructor(options: PipelineOptions, pending: PendingJobs, edge: Edge, head: Batch | undefined) {
    this.#options = options;
    this.#pending = pending;
    this.#edge = edge;
    this.#sealedAt = head?.sealedAt ?? 0;
  }

  /** Starts sealing. Called once. */
  start(): void {
    this.#loop = this.#run().catch((error) => this.#break(error));
  }

  /** Ends after the batches in progress, but does not wait long for their time-stamps. */
  async close(): Promise<void> {
    this.#closing = true;
    this.#pending.wake();
    const patience = setTimeout(() => this.#cutOff.abort(), CLOSE_MS_MAX);
    await this.#loop;
    clearTimeout(patience);
  }

  async #run(): Promise<void> {
    const { queue } = this.#pending;
    while (!this.#closing || this.#flights.length > 0) {
      const obstacle = obstacleTo(this.#options);
      if (this.#closing || !this.#admits(queue.length)) await this.#pending.nextWake();
      else if (obstacle) await this.#waitUntilClear(obstacle);
      else {
        // Everything else that happens in this turn of the event loop can join the batch.
        await nextTurn();
        await this.#launch();
      }
    }
  }

  async #waitUntilClear(obstacle: ServiceError): Promise<void> {
    const { queue } = this.#pending;
    // Taken first, so that a job queued during the failures below is not missed.
    const wake = this.#pending.nextWake();
    await this.#pending.failUnsealable(obstacle);
    if (queue.length === 0) return;
    const stop = new AbortController();
    const [oldest] = queue.perishable;
    const patienceMs = oldest
      ? this.#options.giveUpAfterMs - this.#pending.waitedMs(oldest.job)
      : PATIENCE_MS_MAX;
    const timer = setTimeout(() => stop.abort(), Math.min(Math.max(patienceMs, 0), PATIENCE_MS_MAX));
    await Promise.race([wake, cleared(this.#options, stop.signal)]);
    clearTimeout(timer);
    stop.abort();
  }

  /** Ends sealing because it cannot continue. */
  #break(error: unknown): void {
    if (this.#isBroken) return;
    this.#isBroken = true;
    this.#closing = true;
    this.#pending.wake();
    this.#options.onFatal(error);
  }

  /**
   * Whether a batch of that many jobs should be drafted now. Behind others, a small batch would occupy a session that the many jobs
   * arriving just after it need. So it waits until it is as large as the average of the others would be in one session less, or until the
   * first of them lands.
   */
  #admits(jobs: number): boolean {
    const { sessions } = this.#options.signing;
    if (jobs === 0 || this.#flights.length >= sessions) return false;
    const underWay = this.#flights.reduce((sum, flight) => sum + flight.jobs.length, 0);
    return this.#flights.length === 0 || jobs * (sessions - 1) >= underWay;
  }

  /** Drafts a batch on the tree that the batches in progress will produce, and starts its processing. */
  async #launch(): Promise<void> {
    const { clock, store, signing, batchJobsMax } = this.#options;
    // The log's time never goes back, even if the clock does; the time of an abandoned batch does not count.
    const last = () => this.#flights.at(-1)?.draft.sealedAt ?? this.#sealedAt;
    const sealedAt = Math.max(clock(), last(), signing.epoch.from);
    const term = await signing.term(sealedAt);
    const jobs = this.#pending.queue.take(batchJobsMax);
    if (jobs.length === 0) return;
    for (const one of jobs) one.phase = 'sealing';
    const draft = draftBatch(
      store.identity,
      this.#flights.at(-1)?.draft.edge ?? this.#edge,
      jobs.map(({ job }) => job),
      sealedAt,
    );
    const waitedMs = jobs.map(({ job }) => this.#pending.waitedMs(job));
    const drafts = this.#flights.map((one) => one.draft);
    const growth = growthOf(draft, this.#edge, drafts, this.#tilesWith(draft));
    const ahead = this.#flights.at(-1);
    const flight = flightOf(draft, term, jobs, waitedMs);
    this.#send(flight, () => this.#evidence(flight, growth, ahead?.dated.promise), ahead?.landed);
  }

  /**
   * Resumes the batch that was announced when the daemon ended, before anything else is sealed. `waiting` contains its jobs. Throws
   * BrokenInvariant.
   */
  async resume(
    { epochsRevision: _, jobIds, ...batch }: AnnouncedBatch,
    waiting: readonly Job[],
  ): Promise<void> {
    const { store, signing } = this.#options;
    const byId = new Map(waiting.map((job) => [job.id, new Pending(job, 'sealing')]));
    const jobs = jobIds.flatMap((id) => byId.get(id) ?? []).filter(isSealable);
    for (const one of jobs) this.#pending.add(one);
    // Nothing is sealed in a fork: the batch stays announced until an administrator has ended the alarm.
    if (this.#options.isForked?.()) return;
    const term = await signing.term(batch.sealedAt);
    const draft = draftBatch(
      store.identity,
      this.#edge,
      jobs.map(({ job }) => job),
      batch.sealedAt,
    );
    const isIt = jobs.length === jobIds.length && batch.checkpoint.startsWith(`${draft.text}\n`);
    assert(isIt, 'the announced batch is not of its jobs');
    const waitedMs = jobs.map(({ job }) => this.#pending.waitedMs(job));
    const flight = flightOf(draft, term, jobs, waitedMs);
    this.#send(flight, async () => ({ batch, signMs: 0, isAnnounced: true }), undefined);
  }

  /** It is registered before anything is requested for it, because it can be abandoned at once. */
  #send(
    flight: Flight,
    collect: () => Promise<Evidence | undefined>,
    ahead: Promise<void> | undefined,
  ): void {
    this.#flights.push(flight);
    const evidence = collect().finally(() => flight.dated.resolve());
    flight.landed = this.#fly(flight, evidence, ahead).catch((error) => {
      for (const one of this.#flights) one.abandoned = true;
      this.#flights = [];
      this.#break(error);
    });
  }

  async #fly(
    flight: Flight,
    coming: Promise<Evidence | undefined>,
    ahead: Promise<void> | undefined,
  ): Promise<void> {
    const evidence = await coming;
    const lap = stopwatch();
    if (evidence !== undefined) await ahead;
    if (flight.abandoned) return;
    if (evidence === undefined || !(await this.#commit(flight, evidence, lap))) return this.#abandon(flight);
    this.#flights.shift();
    this.#pending.wake();
  }

  /** Abandons a batch and all those drafted on it. */
  #abandon(flight: Flight): void {
    const index = this.#flights.indexOf(flight);
    assert(index >= 0, 'a batch was thrown away that is not under way');
    const lost = this.#flights.splice(index);
    for (const one of lost) one.abandoned = true;
    this.#pending.queue.putBack(lost.flatMap(({ jobs }) => jobs));
    this.#pending.wake();
  }

  /** False if the epochs changed since the draft, or in a fork: nothing is written then, and the batch is drafted again. */
  async #commit(
    { draft, term, jobs, waitedMs }: Flight,
    evidence: Evidence,
    lap: () => number,
  ): Promise<boolean> {
    const { store, timestamping, cosigners, observer } = this.#options;
    const { batch, aheadMs = 0, isAnnounced: _, ...steps } = evidence;
    if (!(await this.#isCosigned({ draft, term, jobs }, evidence))) return false;
    // A job that is being made durable on its own must not become durable twice.
    while (jobs.some(({ keeping }) => keeping)) await Promise.all(jobs.map(({ keeping }) => keeping));
    if (jobs.some(({ isOver }) => isOver)) return false;
    if (cosigners === undefined && this.#options.isForked?.()) return false;
    const added = jobs.filter(({ acceptance }) => acceptance !== undefined);
    const leaves = draft.leaves.map((leaf, n) => {
      const { job, acceptance } = jobs[n] ?? {};
      return { ...leaf, newJob: job && acceptance && { job, acceptance } };
    });
    // If we stop before this commit, the batch never existed: its signatures never left the process, its durable jobs still wait, and its
    // other jobs never existed either. If we stop after it, receipts and tiles are read from the store.
    const committing = store.log.commit({
      ...batch,
      leaves,
      tiles: draft.tiles,
      epochsRevision: term.revision,
    });
    // A caller that waits for it is notified of a failing store, and does not wait again.
    for (const one of added) one.committing = committing;
    const outcome = await committing;
    for (const one of added) one.committing = undefined;
    if (outcome === false) return false;
    if (outcome !== true) {
      // The other jobs of the batch are drafted again without these.
      for (const one of added) {
        const refusal = outcome.get(one.job.id);
        if (refusal !== undefined) this.#pending.end(one, refusal);
      }
      return false;
    }
    const commitMs = aheadMs + lap();
    this.#edge = draft.edge;
    this.#sealedAt = draft.sealedAt;
    cosigners?.released();
    timestamping?.sealed(batch);
    for (const { job } of added) observer?.accepted(job);
    const { firstLeaf, sealedAt } = draft;
    for (const [n, one] of jobs.entries())
      this.#pending.end(one, { kind: 'sealed', leafIndex: firstLeaf + n, sealedAt });
    observer?.sealed({ jobs: jobs.map(({ job }) => job), waitedMs, ...steps, commitMs });
    return true;
  }

  /**
   * Whether the required witnesses have cosigned the batch. From its announcement on, it is the next batch of the log, whatever happens: a
   * witness that has seen it would report any other as a fork. False if it was not announced because the epochs changed or the log is
   * forked, or if the daemon is stopping.
   */
  async #isCosigned(
    { draft, term, jobs }: Pick<Flight, 'draft' | 'term' | 'jobs'>,
    { batch, isAnnounced }: Evidence,
  ): Promise<boolean> {
    const { store, cosigners } = this.#options;
    if (cosigners === undefined) return true;
    if (!isAnnounced) {
      const orOver = (one: Pending) => (error: unknown) => {
        if (!one.isOver) throw error;
      };
      await Promise.all(jobs.map((one) => this.#pending.keep(one).catch(orOver(one))));
      if (jobs.some(({ isOver }) => isOver)) return false;
      if (this.#options.isForked?.()) return false;
      // If we stop before this, no witness has seen the batch, and its jobs wait.
      const jobIds = jobs.map(({ job }) => job.id);
      if (!(await store.log.announce({ ...batch, epochsRevision: term.revision, jobIds }))) return false;
    }
    // If we stop from here on, the batch is resumed at the next start.
    return cosigners.cosign(batch.checkpoint, this.#tilesWith(draft), this.#cutOff.signal);
  }

  /** The tiles of the tree that the draft produces, based on those of the batches in progress. */
  #tilesWith(draft: Draft): ReadTile {
    const { log } = this.#options.store;
    const changed = [...this.#flights.map((flight) => flight.draft), draft].flatMap(({ tiles }) => tiles);
    const tiles = new Map(changed.map(({ level, index, hashes }) => [`${level}/${index}`, hashes]));
    return async (level, index) => tiles.get(`${level}/${index}`) ?? log.tile(level, index);
  }

  /**
   * Collects signatures, then a time-stamp. Undefined if they are not available within the epoch: the batch cannot be sealed. A batch may
   * be signed before the one ahead of it, but not time-stamped before it, because the dates of the log never go back.
   */
  async #evidence(
    flight: Flight,
    growth: Growth,
    aheadIsDated: Promise<void> | undefined,
  ): Promise<Evidence | undefined> {
    const { signing, store, timestamping, cosigners, clock, logger } = this.#options;
    const { draft, term } = flight;
    try {
      const lap = stopwatch();
      if (this.#options.isForked?.()) throw forkAlarm();
      // If the clock was set back, time-stamps do not belong to this epoch yet, and HSMs would sign in vain.
      if (term.epoch.timestamps === 'required' && clock() < term.epoch.from) return await this.#pause(flight);
      const signatures = await signing.sign(term, draft.text, growth);
      if (signatures === undefined) return await this.#pause(flight);
      const signMs = lap();
      const checkpoint = signCheckpoint(draft.text, store.identity.logOrigin, signatures);
      if (cosigners?.accept(checkpoint.note) === false) throw unwitnessed();
      if (term.epoch.timestamps !== 'required')
        return { batch: batchOf(draft, checkpoint, undefined), signMs };
      if (!timestamping) throw unstampable();
      await aheadIsDated;
      const aheadMs = lap();
      if (flight.abandoned) return undefined;
      const stamping = timestamping.stamp(checkpoint.note, draft.sealedAt, term, this.#cutOff.signal);
      flight.dated.resolve();
      const timestamp = await stamping;
      return timestamp
        ? { batch: batchOf(draft, checkpoint, timestamp), signMs, aheadMs, stampMs: lap() }
        : await this.#pause(flight);
    } catch (error) {
      const obstacle = obstacleOf(error);
      if (!obstacle) throw error;
      if (flight.abandoned || this.#cutOff.signal.aborted) return undefined;
      const fields = { error_code: obstacle.code, jobs: draft.leaves.length };
      logger.warn(fields, 'a batch could not be sealed; its jobs wait');
      this.#abandon(flight);
      await this.#pending.failUnsealable(obstacle);
      return undefined;
    }
  }

  /**
   * A batch that crosses the end of an epoch does not belong to either epoch. The clock of an authority can pass that end before ours does.
   */
  async #pause({ abandoned, term }: Flight): Promise<undefined> {
    if (abandoned) return;
    const { clock, logger } = this.#options;
    logger.info('an epoch ended while a batch was being sealed: the batch is drafted again');
    const earlyMs = term.epoch.from - clock();
    await sleep(Math.min(Math.max(earlyMs, STRADDLE_PAUSE_MS), EARLY_PAUSE_MS_MAX));
  }
}

function flightOf(draft: Draft, term: Term, jobs: Sealable[], waitedMs: number[]): Flight {
  const dated = Promise.withResolvers<void>();
  return { draft, term, jobs, waitedMs, abandoned: false, dated, landed: Promise.resolve() };
}
