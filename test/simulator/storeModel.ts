import { createHash } from 'node:crypto';
import { assert } from '../../src/base/assert.ts';
import { newJobId } from '../../src/job/id.ts';
import type { Failure, Job, JobRecord, Outcome } from '../../src/job/job.ts';
import type { Epoch, Epochs } from '../../src/log/epochs.ts';
import { type Act, auditReference, encodeAuditRecord } from '../../src/manifest/auditRecord.ts';
import {
  type Acceptance,
  type AnnouncedBatch,
  type Batch,
  type Leaf,
  type SealedBatch,
  type Store,
  UnknownOutcome,
} from '../../src/store/store.ts';
import { AUDIT_CLIENT, type TrailEntry } from '../../src/store/trail.ts';
import { makeContent, makeJob, TileShelf } from '../support/sealing.ts';
import type { World } from './world.ts';

export const ENVIRONMENT = 'test';
export const ORIGIN = 'seal.example.com/test/2026';

/** Told of each batch when it is about to be announced or, if it is not, committed, and when it has become durable. */
interface CommitListener {
  committing(): void;
  committed(batch: SealedBatch): void;
}

/**
 * What the sealer, the signing and the audit feed use of a store, as its contract describes it, on a disk that survives every crash. Writes are
 * done in their order. A write whose outcome is unknown is the last one until the process has ended.
 */
export class StoreModel {
  readonly jobs = new Map<string, JobRecord>();
  readonly leaves: Leaf[] = [];
  readonly batches: Batch[] = [];
  readonly trail: TrailEntry[] = [];
  /** How long each job that failed had waited, in service time. */
  readonly failedAfterMs = new Map<string, number>();
  epochs: Epochs;
  announced: AnnouncedBatch | undefined;
  /** The process that has the store open can neither read nor write any more. */
  isLost = false;
  readonly #shelf = new TileShelf();
  readonly #world: World;
  readonly #listener: CommitListener;

  constructor(world: World, epoch: Epoch, listener: CommitListener) {
    this.#world = world;
    this.epochs = { revision: 0, list: [epoch] };
    this.#listener = listener;
  }

  /** The store as a process sees it that opens it now. */
  open(): Store {
    const read =
      <Args extends unknown[], T>(look: (...args: Args) => T) =>
      async (...args: Args): Promise<T> => {
        if (this.isLost) throw new UnknownOutcome(undefined);
        return look(...args);
      };
    const now = () => this.#world.now;
    const store = {
      identity: { schema: 1, environment: ENVIRONMENT, logOrigin: ORIGIN, createdAt: 0 },
      serviceTime: { now, since: (stamp = 0) => now() - stamp },
      jobs: {
        accept: (job: Job, acceptance?: Acceptance) =>
          this.#write(`job ${nameOf(job.id)}`, () => this.#accept(job, acceptance)),
        receive: (id: string, content: Job['content']) =>
          this.#write(`content of ${nameOf(id)}`, () => {
            const record = this.#waiting(id);
            assert(record.job.content === undefined, `${id} has content`);
            this.jobs.set(id, { job: { ...record.job, ...(content && { content }) } });
          }),
        fail: (id: string, failure: Failure) =>
          this.#write(`failure of ${nameOf(id)}`, () => {
            const record = this.#waiting(id);
            this.failedAfterMs.set(id, now() - (record.job.since ?? 0));
            this.#end(record, { kind: 'failed', failure });
          }),
        get: read((id: string) => this.jobs.get(id)),
        sourceUrl: async () => 'https://files.example.com/a.pdf',
        waiting: read(() =>
          [...this.jobs.values()].flatMap(({ job, outcome }) => (outcome === undefined ? [job] : [])),
        ),
      },
      log: {
        commit: (batch: SealedBatch) => {
          if (this.announced === undefined) this.#complete(batch);
          return this.#write(`batch of ${batch.leaves.length} at ${batch.firstLeaf}`, () =>
            this.#commit(batch),
          );
        },
        announce: (batch: AnnouncedBatch) => {
          this.#complete(batch);
          return this.#write(`announcement of a batch at ${batch.firstLeaf}`, () => this.#announce(batch));
        },
        announced: read(() => this.announced),
        head: read(() => this.batches.at(-1)),
        tile: (level: number, index: number) => this.#shelf.read(level, index),
      },
      epochs: { newest: read(() => this.epochs) },
      trail: {
        newest: read(() => this.trail.length),
        entries: read((after: number, limit: number) => this.trail.slice(after, after + limit)),
      },
    };
    return store as unknown as Store;
  }

  /** Another process records an act, and with it changes the epochs if there is a list. */
  record(act: Act, date: number, list?: readonly Epoch[]): void {
    const number = this.trail.length + 1;
    const previous = this.trail.at(-1)?.text;
    const text = encodeAuditRecord(act, { number, previous, atMs: date, environment: ENVIRONMENT });
    const digest = (name: string) => createHash(name).update(text).digest('hex');
    const job = makeJob(newJobId(), {
      clientId: AUDIT_CLIENT,
      mode: 'async',
      source: 'audit',
      customerReference: auditReference(number),
      acceptedAt: date,
      content: makeContent({
        document: { sha256: digest('sha256'), sha512: digest('sha512'), bytes: text.length },
      }),
    });
    this.trail.push({ number, jobId: job.id, text });
    this.jobs.set(job.id, { job });
    if (list !== undefined) this.epochs = { revision: this.epochs.revision + 1, list };
  }

  #write<T>(name: string, apply: () => T): Promise<T> {
    if (this.isLost) return Promise.reject(new UnknownOutcome(undefined));
    const lose = () => {
      this.isLost = true;
      throw new UnknownOutcome(undefined);
    };
    const ends = [
      ['written', apply],
      [
        'written, of unknown outcome',
        () => {
          apply();
          return lose();
        },
      ],
      ['not written, of unknown outcome', lose],
    ] as const;
    return this.#world.begin('store', name, ends, { inOrder: true });
  }

  /** The batch has all its evidence, and is about to leave the process. */
  #complete({ checkpoint, timestamp }: Batch): void {
    const { progress } = this.#world;
    if (timestamp === undefined)
      for (const state of ['signed', 'stamped'] as const) progress.reached(checkpoint, state);
    this.#listener.committing();
  }

  #accept(job: Job, acceptance: Acceptance = {}): void {
    assert(!this.jobs.has(job.id), `${nameOf(job.id)} is in the store already`);
    const hasContent = job.content !== undefined;
    assert(hasContent !== (acceptance.sourceUrl !== undefined), `${job.id} has both or neither`);
    this.jobs.set(job.id, { job });
  }

  #waiting(id: string): JobRecord {
    const record = this.jobs.get(id);
    assert(record !== undefined && record.outcome === undefined, `${nameOf(id)} does not wait`);
    return record;
  }

  #end({ job }: JobRecord, outcome: Outcome): void {
    this.jobs.set(job.id, { job, outcome });
  }

  #announce(batch: AnnouncedBatch): boolean {
    assert(batch.firstLeaf === this.leaves.length, 'the batch is not for this log');
    assert(this.announced === undefined, 'another batch is announced');
    for (const id of batch.jobIds) this.#waiting(id);
    if (batch.epochsRevision !== this.epochs.revision) return false;
    this.announced = batch;
    this.#world.progress.reached(batch.checkpoint, 'announced');
    return true;
  }

  #commit(batch: SealedBatch): boolean {
    assert(batch.firstLeaf === this.leaves.length, 'the batch is not for this log');
    if (this.announced === undefined) {
      if (batch.epochsRevision !== this.epochs.revision) return false;
    } else assert(this.announced.checkpoint === batch.checkpoint, 'another batch is announced');
    this.announced = undefined;
    for (const { newJob } of batch.leaves) if (newJob) this.#accept(newJob.job, newJob.acceptance);
    for (const [n, { jobId, data }] of batch.leaves.entries()) {
      const record = this.#waiting(jobId);
      assert(record.job.content !== undefined, `${jobId} has no content`);
      this.#end(record, {
        kind: 'sealed',
        leafIndex: batch.firstLeaf + n,
        sealedAt: batch.sealedAt,
      });
      this.leaves.push({ jobId, data });
    }
    this.#shelf.put(batch.tiles);
    this.batches.push(batch);
    const jobIds = batch.leaves.map(({ jobId }) => jobId);
    this.#world.progress.reached(batch.checkpoint, 'committed', jobIds);
    this.#listener.committed(batch);
    return true;
  }
}

const names = new Map<string, string>();

/** A short name for a job in a history. */
export function nameOf(jobId: string): string {
  const name = names.get(jobId) ?? `job ${names.size + 1}`;
  names.set(jobId, name);
  return name;
}

/** Begins to count jobs anew. */
export function forgetNames(): void {
  names.clear();
}
