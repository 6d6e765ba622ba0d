import { createHash } from 'node:crypto';
import { BrokenInvariant } from '../../src/base/assert.ts';
import { ServiceError } from '../../src/base/errors.ts';
import { newJobId } from '../../src/job/id.ts';
import { type Content, isOfClient, type Job, type Outcome } from '../../src/job/job.ts';
import type { Epoch } from '../../src/log/epochs.ts';
import { makeContent, makeJob } from '../support/sealing.ts';
import { Checker } from './checker.ts';
import { type Daemon, openDaemon } from './daemon.ts';
import { AuthorityModel, type Device, PartitionModel, WitnessModel } from './devices.ts';
import { forgetNames, nameOf, StoreModel } from './storeModel.ts';
import { Broken, World } from './world.ts';

const BEGIN = Date.parse('2026-03-04T05:06:07.008Z');

const KEYS = ['EU', 'US', 'AP'].map((region) => ({
  region: region.toLowerCase(),
  keyLabel: 'log',
  partition: 'log',
  algorithm: 'ed25519' as const,
  // Nobody verifies: only the identity of the keys counts.
  spki: Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), Buffer.alloc(32, region)]).toString(
    'base64',
  ),
}));

/** A document of its own for each job. */
function contentOf(jobId: string): Content {
  const digest = (name: string) => createHash(name).update(jobId).digest('hex');
  return makeContent({ document: { sha256: digest('sha256'), sha512: digest('sha512'), bytes: 1000 } });
}

/**
 * The real sealer, pipeline, signing and audit feed between clients, a store, partitions, an authority and a witness that do what a list of
 * numbers says. When the list is at its end, everything works again, and whatever was promised must come true.
 */
export class Schedule {
  readonly world = new World();
  readonly #partitions: PartitionModel[];
  readonly #authority: AuthorityModel;
  readonly #witness: WitnessModel;
  readonly #store: StoreModel;
  readonly #checker: Checker;
  readonly #isWitnessed: boolean;
  #offset = 0;
  /** When the newest epoch that has begun began. */
  #begun = 0;
  #daemon: Daemon | undefined;
  #fatal: unknown;

  constructor(first: number) {
    forgetNames();
    this.world.rule();
    this.#partitions = KEYS.map((key) => new PartitionModel(this.world, key));
    this.#authority = new AuthorityModel(this.world, this.#date);
    this.#witness = new WitnessModel(this.world, 'witness');
    this.#isWitnessed = first % 3 === 1;
    const epoch: Epoch = {
      from: BEGIN - 3_600_000,
      keys: KEYS,
      quorum: { needed: 1 + (first % 2) },
      timestamps: first % 5 < 3 ? 'required' : 'none',
      roots: [],
    };
    this.#store = new StoreModel(this.world, epoch, {
      committing: () => this.#checker.committing(),
      committed: (batch) => this.#checker.committed(batch),
    });
    this.#checker = new Checker(this.world, this.#store, this.#isWitnessed ? this.#witness : undefined);
    this.#record();
  }

  /** Throws {@link Broken} when a promise is broken. */
  async run(steps: readonly number[]): Promise<void> {
    await this.#start();
    for (const step of steps) await this.#step(step % 1000, Math.floor(step / 1000));
    await this.#calm();
  }

  /**
   * Lets the operation that is a step of the table go wrong in one way: 0 stops the daemon before its effect, 1 after it, further ways let
   * it fail, and the last one changes the epochs meanwhile. False if there is no such way.
   */
  async runStep(operation: string, way: number): Promise<boolean> {
    if (!this.#has(operation)) return false;
    await this.#start();
    for (const mode of ['async', 'blocking'] as const) void this.#create(this.#daemon as Daemon, mode);
    await this.#until(`${operation} begins`, () => this.world.underWay(operation).length > 0);
    const [ends = 0] = this.world.underWay(operation);
    if (way < 2) this.#crash(way * this.world.underWay('store').length);
    else if (way <= ends) this.world.endAll(operation, way - 1);
    else if (way > ends + 1) return false;
    else this.#plan(0);
    await this.#rest();
    await this.#calm();
    return true;
  }

  /** Whether a batch of this schedule needs that operation. */
  #has(operation: string): boolean {
    if (operation === 'time-stamp authority') return this.#store.epochs.list[0]?.timestamps === 'required';
    return this.#isWitnessed || !['store: announcement', 'witness'].includes(operation);
  }

  /** From now on everything works, and what was promised must come true. */
  async #calm(): Promise<void> {
    // Only an administrator ends a fork alarm, with a restart.
    if (this.#store.isLost || this.#checker.isForked) this.#crash(0);
    this.#checker.isForked = false;
    this.world.note('from here on everything works');
    for (const device of this.#devices) device.set(true);
    // Neither the log nor its epochs go back, so a clock behind them is wrong.
    const latest = Math.max(this.#store.batches.at(-1)?.sealedAt ?? 0, this.#begun);
    this.#offset += Math.max(0, latest - this.#date());
    await this.#stopped();
    if (this.#daemon === undefined) await this.#start();
    await this.#until('every job has its outcome', () => {
      for (const id of this.#daemon?.fetching ?? []) this.#received(id, 1);
      return this.#isDone();
    });
    this.#stop();
    await this.#stopped();
    this.#checker.ended();
  }

  /** A daemon that was told to stop does so, even if strangers do not answer. */
  async #stopped(): Promise<void> {
    if (this.#daemon?.closing === undefined) return;
    this.world.hung = [this.#authority.name, this.#witness.name];
    await this.#until('the daemon stops', () => this.#daemon === undefined);
    this.world.hung = [];
  }

  get #devices(): Device[] {
    return [...this.#partitions, this.#authority, this.#witness];
  }

  readonly #date = () => BEGIN + this.world.now + this.#offset;

  async #step(kind: number, detail: number): Promise<void> {
    const { world } = this;
    if (kind < 450) world.proceed();
    else if (kind < 600) world.endOne(detail, 0);
    else if (kind < 640) world.endOne(detail >> 2, detail & 3);
    else if (kind < 740) world.pass();
    else if (kind < 900) this.#act(detail);
    else if (kind < 975) this.#disturb(detail);
    else if (kind < 992) this.#crash(detail);
    else this.#stop();
    await this.#rest();
    if (this.#store.isLost && detail % 2 === 1) this.#crash(0);
    if (this.#daemon === undefined) await this.#start();
  }

  async #rest(): Promise<void> {
    await this.world.rest();
    if (this.#fatal !== undefined && !this.#store.isLost)
      throw new Broken(`the daemon ended itself: ${(this.#fatal as Error).stack}`);
    this.#checker.rested();
    if (this.#daemon && !this.#store.isLost) this.#checker.phases(this.#daemon.sealer);
  }

  #until(what: string, isSo: () => boolean): Promise<void> {
    return this.world.until(what, isSo, () => this.#rest());
  }

  #isDone(): boolean {
    const { sealer, callers } = this.#daemon as Daemon;
    return (
      callers.size === 0 &&
      sealer.waitingCount === 0 &&
      sealer.waiting.auditRecords === 0 &&
      this.#areSealed()
    );
  }

  #areSealed(): boolean {
    return [...this.#store.jobs.values()].every(({ outcome }) => outcome !== undefined);
  }

  async #start(): Promise<void> {
    const { world } = this;
    world.note('the daemon starts');
    world.progress.stopped(this.#store.announced?.checkpoint);
    this.#fatal = undefined;
    this.#store.isLost = false;
    this.#checker.restarted();
    const opening = openDaemon({
      store: this.#store.open(),
      partitions: this.#partitions,
      authority: this.#authority,
      witness: this.#isWitnessed ? this.#witness : undefined,
      date: this.#date,
      isForked: () => this.#checker.isForked,
      onBegin: ({ from }) => {
        this.#begun = from;
      },
      onFatal: (error) => {
        this.#fatal ??= error;
      },
    });
    let daemon: Daemon | undefined;
    opening.then(
      (opened) => {
        daemon = opened;
      },
      (error) => {
        this.#fatal = error;
      },
    );
    await this.#until('the daemon has started', () => daemon !== undefined);
    this.#daemon = await opening;
    const { fetching } = this.#daemon;
    for (const { job, outcome } of this.#store.jobs.values())
      if (outcome === undefined && job.content === undefined) fetching.add(job.id);
  }

  /** What clients and administrators do. */
  #act(detail: number): void {
    const daemon = this.#daemon;
    const [what, which] = [detail % 16, detail >> 4];
    if (daemon === undefined || daemon.closing) return;
    if (what < 5) void this.#create(daemon, 'blocking');
    else if (what < 8) void this.#create(daemon, 'async');
    else if (what < 9) void this.#create(daemon, 'async', true);
    else if (what < 11) this.#received([...daemon.fetching][which % daemon.fetching.size], which);
    else if (what < 13) this.#hangUp([...daemon.callers][which % daemon.callers.size]);
    else if (what < 14) void this.#repeat(daemon, which);
    else if (what < 15) this.#record();
    else this.#plan(which);
  }

  async #create(daemon: Daemon, mode: Job['mode'], isFetched = false): Promise<void> {
    const { sealer } = daemon;
    const since = this.world.now;
    const id = newJobId();
    const made = makeJob(id, { mode, since, acceptedAt: this.#date(), content: contentOf(id) });
    const checksumSha256 = made.content.document.sha256;
    const { content: _, ...fetched } = { ...made, source: 'url' as const, checksumSha256 };
    const job = isFetched ? fetched : made;
    this.world.note(`a client asks for ${nameOf(job.id)}, ${isFetched ? 'by URL' : mode}`);
    try {
      sealer.admit(mode);
      if (mode === 'blocking') {
        sealer.submit(made, {});
        await this.#wait(daemon, job.id);
      } else {
        await sealer.accept(job, isFetched ? { sourceUrl: 'https://example.com' } : {});
        this.#checker.acknowledged(job.id);
        if (isFetched) daemon.fetching.add(job.id);
      }
    } catch (error) {
      this.#refused(job.id, error);
    }
  }

  /** A caller waits for the outcome, as long as it likes. */
  async #wait(daemon: Daemon, jobId: string): Promise<void> {
    const caller = new AbortController();
    daemon.callers.add(caller);
    try {
      const outcome = await daemon.sealer.settled(jobId, caller.signal);
      this.#answered(jobId, outcome);
    } finally {
      daemon.callers.delete(caller);
    }
  }

  #answered(jobId: string, outcome: Outcome | undefined): void {
    this.world.note(`${nameOf(jobId)} is answered: ${outcome?.kind ?? 'queued'}`);
    if (outcome === undefined) this.#checker.acknowledged(jobId);
    else this.#checker.answered(jobId, outcome);
  }

  #refused(jobId: string, error: unknown): void {
    if (error instanceof ServiceError) {
      this.world.note(`${nameOf(jobId)} is refused: ${error.code}`);
      this.#checker.refused(jobId);
    } else if (error instanceof BrokenInvariant || !this.#store.isLost) this.#fatal ??= error;
  }

  /** The same request again, while its job waits or after it. */
  async #repeat(daemon: Daemon, which: number): Promise<void> {
    const known = [...this.#store.jobs.values()].filter(({ job }) => isOfClient(job));
    const again = known[which % known.length];
    if (again === undefined) return;
    this.world.note(`a client asks again for ${nameOf(again.job.id)}`);
    await this.#wait(daemon, again.job.id).catch((error) => {
      if (error instanceof ServiceError) this.#fatal ??= new Broken('a durable job was refused');
      else this.#refused(again.job.id, error);
    });
  }

  #hangUp(caller: AbortController | undefined): void {
    if (caller === undefined) return;
    this.world.note('a caller waits no longer');
    caller.abort();
  }

  /** The document of a job arrives, or cannot be fetched. */
  #received(jobId: string | undefined, which: number): void {
    const daemon = this.#daemon;
    if (jobId === undefined || daemon === undefined) return;
    daemon.fetching.delete(jobId);
    const isThere = which % 4 !== 0;
    this.world.note(`the document of ${nameOf(jobId)} ${isThere ? 'arrives' : 'cannot be fetched'}`);
    if (!isThere) this.#checker.mayFail(jobId);
    const error = new ServiceError('source_unreachable', 'no answer');
    daemon.sealer.hashing(jobId);
    const done = isThere ? daemon.sealer.receive(jobId, contentOf(jobId)) : daemon.sealer.fail(jobId, error);
    done.catch((failure) => this.#refused(jobId, failure));
  }

  /** An administrator does something that is recorded, in another process. */
  #record(): void {
    const act = { act: 'backup.make', actor: { via: 'command' }, object: {}, outcome: 'done' } as const;
    this.world.note(`audit record ${this.#store.trail.length + 1} is written`);
    this.#store.record(act, this.#date());
  }

  #plan(which: number): void {
    const { list } = this.#store.epochs;
    const last = list.at(-1);
    const from = this.#date() + 5000 + 1000 * (which % 16);
    const newest = this.#store.announced ?? this.#store.batches.at(-1);
    // As `pdfseal epochs plan` decides.
    if (last === undefined || last.from > this.#date() || from <= (newest?.sealedAt ?? 0)) return;
    const timestamps = which & 16 ? 'required' : 'none';
    const epoch: Epoch = { ...last, from, quorum: { needed: 1 + ((which >> 5) % 3) }, timestamps };
    this.world.note(
      `audit record ${this.#store.trail.length + 1} plans an epoch from ${from - BEGIN - this.#offset} ms on`,
    );
    const act = { act: 'epoch.plan', actor: { via: 'command' }, object: {}, outcome: 'done' } as const;
    this.#checker.planned(from, this.#store.trail.length + 1);
    this.#store.record(act, this.#date(), [...list, epoch]);
  }

  /** What happens to devices and clocks. */
  #disturb(detail: number): void {
    const [what, which] = [detail % 8, detail >> 3];
    const device = this.#devices[what];
    if (device !== undefined) {
      device.set(!device.isUp);
      return;
    }
    if (what === 7) {
      this.world.note('a witness raises the fork alarm');
      this.#checker.isForked = true;
      return;
    }
    const seconds = (which % 2001) - 1000;
    this.world.note(`the clock is set by ${seconds} s`);
    this.#offset += seconds * 1000;
  }

  #crash(detail: number): void {
    this.world.note('the daemon is killed');
    this.world.kill('store', this.#store.isLost ? 0 : detail);
    for (const device of this.#devices) device.forget();
    this.#daemon = undefined;
    this.#store.isLost = false;
    this.#fatal = undefined;
  }

  #stop(): void {
    const daemon = this.#daemon;
    if (daemon === undefined || daemon.closing) return;
    this.world.note('the daemon is told to stop');
    daemon.closing = (async () => {
      await daemon.sealer.close();
      await daemon.feed.close();
      await daemon.signing.close();
      this.world.note('the daemon has stopped');
      this.world.kill('store', 0);
      if (this.#daemon === daemon) this.#daemon = undefined;
    })();
  }
}
