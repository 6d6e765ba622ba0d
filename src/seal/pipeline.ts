import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { assert } from '../base/assert.ts';
import { stopwatch } from '../base/clock.ts';
import type { Job } from '../job/job.ts';
import type { Growth } from '../kms/order.ts';
import type { Term } from '../log/epochs.ts';
import type { ReadTile } from '../log/tiles.ts';
import type { Edge } from '../log/tree.ts';
import type { AnnouncedBatch, Batch, Store } from '../store/store.ts';
import { BATCH_STATES, type BatchState } from './batchStates.ts';
import type { Cosigners } from './cosigners.ts';
import { type Draft, draftBatch, growthOf, signDraft } from './draft.ts';
import type { SealedJobs } from './observer.ts';
import { forkAlarm, obstacleOf, type Prerequisites, unstampable, unwitnessed } from './obstacle.ts';
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

/** A batch in progress. */
interface Flight {
  state: BatchState;
  draft: Draft;
  term: Term;
  jobs: Sealable[];
  /** How long each job waited for the draft, in milliseconds of service time. */
  waitedMs: number[];
  /** How long its steps took. */
  took: Pick<SealedJobs, 'signMs' | 'stampMs' | 'commitMs'>;
  lap(): number;
  /** Resolves once an authority was asked for its time-stamp, or if none will be asked. */
  dated: PromiseWithResolvers<void>;
  /** Resolves once it is committed or abandoned. Never rejects. */
  landed: Promise<void>;
}

/** A batch is drafted again, although nothing obstructs sealing, or the daemon is stopping. */
class NotNow extends Error {}

const STRADDLE_PAUSE_MS = 50;
/** How soon a correction of the clock is noticed. */
const EARLY_PAUSE_MS_MAX = 1000;

/**
 * Seals jobs, batch by batch. While batches are with the HSM and the authority, the next is drafted on the tree that the last of them will
 * produce; as many are in progress as the HSM has sessions. They are committed in order. A batch that cannot be sealed is abandoned with all those drafted on it, and none of their data leaves the
 * process.
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
  #isBroken = false;

  /** `edge`: the right edge of the tree that `head` commits to. */
  constructor(options: PipelineOptions, pending: PendingJobs, edge: Edge, head: Batch | undefined) {
    this.#options = options;
    this.#pending = pending;
    this.#edge = edge;
    this.#sealedAt = head?.sealedAt ?? 0;
  }

  get isEmpty(): boolean {
    return this.#flights.length === 0;
  }

  /** Whether sealing has ended because it cannot continue. */
  get isBroken(): boolean {
    return this.#isBroken;
  }

  /** Ends sealing, and with it the process. */
  break(error: unknown): void {
    this.#flights = [];
    if (this.#isBroken) return;
    this.#isBroken = true;
    this.#pending.wake();
    this.#options.onFatal(error);
  }

  /** Gives up batches that wait for their time-stamps. */
  cutOff(): void {
    this.#cutOff.abort();
  }

  /**
   * Whether a batch of that many jobs should be drafted now. Behind others, a small batch would occupy a session that the many jobs
   * arriving just after it need. So it waits until it is as large as the average of the others would be in one session less, or until the
   * first of them lands.
   */
  admits(jobs: number): boolean {
    const { sessions } = this.#options.signing;
    if (jobs === 0 || this.#flights.length >= sessions) return false;
    const underWay = this.#flights.reduce((sum, flight) => sum + flight.jobs.length, 0);
    return this.isEmpty || jobs * (sessions - 1) >= underWay;
  }

  /** Drafts a batch on the tree that the batches in progress will produce, and starts its processing. */
  async launch(): Promise<void> {
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
    const drafts = this.#flights.map((one) => one.draft);
    const growth = growthOf(draft, this.#edge, drafts, this.#tilesWith(draft));
    const flight = this.#flightOf('drafted', draft, term, jobs);
    this.#send(flight, async (ahead) => this.#stamp(flight, await this.#sign(flight, growth), ahead));
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
    const flight = this.#flightOf('announced', draft, term, jobs);
    // It has its time-stamp, so the batch behind it can ask for one.
    flight.dated.resolve();
    this.#send(flight, async () => batch);
  }

  #flightOf(state: BatchState, draft: Draft, term: Term, jobs: Sealable[]): Flight {
    const waitedMs = jobs.map(({ job }) => this.#pending.waitedMs(job));
    const took = { signMs: 0, commitMs: 0 };
    const dated = Promise.withResolvers<void>();
    return { state, draft, term, jobs, waitedMs, took, lap: stopwatch(), dated, landed: Promise.resolve() };
  }

  /** Moves a batch through {@link BATCH_STATES}. `complete` leads to `stamped`, unless the batch is announced already. */
  #send(flight: Flight, complete: (ahead: Flight | undefined) => Promise<Batch>): void {
    const ahead = this.#flights.at(-1);
    // It is registered before anything is requested for it, because it can be abandoned at once.
    this.#flights.push(flight);
    flight.landed = this.#fly(flight, complete(ahead), ahead).catch((error) => this.break(error));
  }

  async #fly(flight: Flight, completed: Promise<Batch>, ahead: Flight | undefined): Promise<void> {
    try {
      const batch = await completed;
      await ahead?.landed;
      this.#requireUnderWay(flight);
      if (flight.state === 'stamped' && this.#options.cosigners) await this.#announce(flight, batch);
      if (flight.state === 'announced') await this.#cosign(flight, batch);
      await this.#commit(flight, batch);
      this.#flights.shift();
      this.#pending.wake();
    } catch (error) {
      const obstacle = obstacleOf(error);
      if (obstacle === undefined && !(error instanceof NotNow)) throw error;
      if (!this.#flights.includes(flight)) return;
      this.#abandon(flight);
      if (obstacle === undefined || this.#cutOff.signal.aborted) return;
      const fields = { error_code: obstacle.code, jobs: flight.jobs.length };
      this.#options.logger.warn(fields, 'a batch could not be sealed; its jobs wait');
      await this.#pending.failUnsealable(obstacle);
    } finally {
      flight.dated.resolve();
    }
  }

  /** Collects signatures over the checkpoint. */
  async #sign(flight: Flight, growth: Growth): Promise<Batch> {
    const { signing, store, cosigners, clock } = this.#options;
    const { draft, term } = flight;
    if (this.#options.isForked?.()) throw forkAlarm();
    // If the clock was set back, time-stamps do not belong to this epoch yet, and HSMs would sign in vain.
    const isEarly = term.epoch.timestamps === 'required' && clock() < term.epoch.from;
    const signatures = isEarly ? undefined : await signing.sign(term, draft.text, growth);
    if (signatures === undefined) return this.#pause(flight);
    flight.took.signMs = flight.lap();
    const batch = signDraft(draft, store.identity.logOrigin, signatures);
    if (cosigners?.accept(batch.checkpoint) === false) throw unwitnessed();
    this.#advance(flight, 'signed');
    return batch;
  }

  /**
   * Collects a time-stamp, if the epoch requires one. A batch may be signed before the one ahead of it, but not time-stamped before it,
   * because the dates of the log never go back.
   */
  async #stamp(flight: Flight, batch: Batch, ahead: Flight | undefined): Promise<Batch> {
    const { timestamping } = this.#options;
    const { term, took } = flight;
    let timestamp: Batch['timestamp'];
    if (term.epoch.timestamps === 'required') {
      if (!timestamping) throw unstampable();
      await ahead?.dated.promise;
      took.commitMs = flight.lap();
      this.#requireUnderWay(flight);
      const stamping = timestamping.stamp(batch.checkpoint, batch.sealedAt, term, this.#cutOff.signal);
      flight.dated.resolve();
      timestamp = await stamping;
      if (timestamp === undefined) return this.#pause(flight);
      took.stampMs = flight.lap();
    }
    flight.dated.resolve();
    this.#advance(flight, 'stamped');
    return { ...batch, timestamp };
  }

  /** Makes the batch the next one of the log, whatever happens. */
  async #announce(flight: Flight, batch: Batch): Promise<void> {
    const { jobs, term } = flight;
    const orOver = (one: Pending) => (error: unknown) => {
      if (!one.isOver) throw error;
    };
    await Promise.all(jobs.map((one) => this.#pending.keep(one).catch(orOver(one))));
    if (jobs.some(({ isOver }) => isOver)) throw new NotNow();
    if (this.#options.isForked?.()) throw forkAlarm();
    // If we stop before this, no witness has seen the batch, and its jobs wait.
    const jobIds = jobs.map(({ job }) => job.id);
    const announced = { ...batch, epochsRevision: term.revision, jobIds };
    if (!(await this.#options.store.log.announce(announced))) throw new NotNow();
    this.#advance(flight, 'announced');
  }

  /** Has the witnesses cosign an announced batch, if they must. */
  async #cosign(flight: Flight, { checkpoint }: Batch): Promise<void> {
    const { cosigners } = this.#options;
    const tiles = this.#tilesWith(flight.draft);
    // If we stop from here on, the batch is resumed at the next start.
    if (cosigners && !(await cosigners.cosign(checkpoint, tiles, this.#cutOff.signal))) throw new NotNow();
    this.#advance(flight, 'cosigned');
  }

  /** Writes the batch, unless the epochs changed since the draft, the log is forked, or one of its jobs has ended. */
  async #commit(flight: Flight, batch: Batch): Promise<void> {
    const { store, observer } = this.#options;
    const { draft, term, jobs } = flight;
    // A job that is being made durable on its own must not become durable twice.
    while (jobs.some(({ keeping }) => keeping)) await Promise.all(jobs.map(({ keeping }) => keeping));
    if (jobs.some(({ isOver }) => isOver)) throw new NotNow();
    if (flight.state === 'stamped' && this.#options.isForked?.()) throw forkAlarm();
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
    if (outcome !== true) {
      // The other jobs of the batch are drafted again without those that conflict with jobs of another node.
      for (const one of added) {
        const refusal = outcome === false ? undefined : outcome.get(one.job.id);
        if (refusal) this.#pending.end(one, refusal);
      }
      throw new NotNow();
    }
    flight.took.commitMs += flight.lap();
    this.#edge = draft.edge;
    this.#sealedAt = draft.sealedAt;
    this.#advance(flight, 'committed');
    for (const { job } of added) observer?.accepted(job);
    // At once: a caller that stops waiting now must find the outcome of its job.
    this.#report(flight, batch);
  }

  /** Notifies the callers that wait, and all parts that follow the log. */
  #report(flight: Flight, batch: Batch): void {
    const { timestamping, cosigners, observer } = this.#options;
    const { draft, jobs, waitedMs, took } = flight;
    cosigners?.released();
    timestamping?.sealed(batch);
    const { firstLeaf, sealedAt } = draft;
    for (const [n, one] of jobs.entries())
      this.#pending.end(one, { kind: 'sealed', leafIndex: firstLeaf + n, sealedAt });
    observer?.sealed({ jobs: jobs.map(({ job }) => job), waitedMs, ...took });
    this.#advance(flight, 'reported');
  }

  /** Throws {@link NotNow} for a batch whose jobs wait again, because one that it was drafted on was abandoned. */
  #requireUnderWay(flight: Flight): void {
    if (!this.#flights.includes(flight)) throw new NotNow();
  }

  /** Moves a batch to its next state, unless its jobs wait again. */
  #advance(flight: Flight, to: BatchState): void {
    this.#requireUnderWay(flight);
    const next: readonly BatchState[] = BATCH_STATES[flight.state].next;
    assert(next.includes(to), `a batch is ${flight.state} and becomes ${to}`);
    flight.state = to;
  }

  /** Returns the jobs of a batch, and of all those drafted on it, to the queue. A batch that is announced when the daemon stops stays so. */
  #abandon(flight: Flight): void {
    const lost = this.#flights.slice(this.#flights.indexOf(flight));
    const returned = lost.filter(({ state }) => state !== 'announced');
    for (const one of returned) this.#advance(one, 'waiting');
    this.#flights = this.#flights.filter((one) => !lost.includes(one));
    this.#pending.queue.putBack(returned.flatMap(({ jobs }) => jobs));
    this.#pending.wake();
  }

  /** The tiles of the tree that the draft produces, based on those of the batches in progress. */
  #tilesWith(draft: Draft): ReadTile {
    const { log } = this.#options.store;
    const changed = [...this.#flights.map((flight) => flight.draft), draft].flatMap(({ tiles }) => tiles);
    const tiles = new Map(changed.map(({ level, index, hashes }) => [`${level}/${index}`, hashes]));
    return async (level, index) => tiles.get(`${level}/${index}`) ?? log.tile(level, index);
  }

  /**
   * A batch that crosses the end of an epoch does not belong to either epoch. The clock of an authority can pass that end before ours does.
   */
  async #pause(flight: Flight): Promise<never> {
    this.#requireUnderWay(flight);
    const { clock, logger } = this.#options;
    logger.info('an epoch ended while a batch was being sealed: the batch is drafted again');
    const earlyMs = flight.term.epoch.from - clock();
    await sleep(Math.min(Math.max(earlyMs, STRADDLE_PAUSE_MS), EARLY_PAUSE_MS_MAX));
    throw new NotNow();
  }
}
