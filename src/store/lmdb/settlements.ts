import { assert } from '../../base/assert.ts';
import type { Content, Failure, Job } from '../../job/job.ts';
import type { Batch, SealedBatch, SealedLeaf, StoredCopy } from '../store.ts';
import type { Change, Commits, Write } from './commits.ts';
import type { Copies } from './copyRecords.ts';
import type { Databases } from './databases.ts';
import type { EpochRecords } from './epochRecords.ts';
import type { IdempotencyEntries } from './idempotencyEntries.ts';
import { assertCopied } from './jobRecords.ts';
import { counterKey, jobKey, parseJobKey, tileKey } from './keyLayout.ts';
import type { Log } from './logRecords.ts';
import type { Outbox, Queued } from './outbox.ts';
import type { QuotaCounts } from './quotaCounts.ts';
import { encodeContent, encodeFailed, encodeLeaf, encodeRecord, encodeSealed, parseJob } from './records.ts';

/** What else changes when a job ends. */
interface Beside {
  idempotency: IdempotencyEntries;
  quotas: QuotaCounts;
  copies: Copies;
  outbox: Outbox;
  epochs: EpochRecords;
}

/**
 * The writes that decide on what is stored: what a job's document is, how the job ends, and which keys go. They take turns, so that each decides on
 * what the one before left on disk; and a condition inside the transaction holds off a second process.
 */
export class Settlements {
  readonly #databases: Databases;
  readonly #commits: Commits;
  readonly #log: Log;
  readonly #idempotency: IdempotencyEntries;
  readonly #quotas: QuotaCounts;
  readonly #outbox: Outbox;
  readonly #copies: Copies;
  readonly #epochs: EpochRecords;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(databases: Databases, commits: Commits, log: Log, beside: Beside) {
    this.#copies = beside.copies;
    this.#epochs = beside.epochs;
    this.#databases = databases;
    this.#commits = commits;
    this.#log = log;
    this.#idempotency = beside.idempotency;
    this.#quotas = beside.quotas;
    this.#outbox = beside.outbox;
  }

  async commitBatch(batch: SealedBatch): Promise<boolean> {
    const epochsChanged = this.#epochs.after(batch.epochsRevision);
    const happened = await this.#inTurn(() => {
      const size = this.#log.size();
      assert(size === batch.firstLeaf, `the log has ${size} leaves, the batch begins at ${batch.firstLeaf}`);
      assert(
        batch.treeSize - batch.firstLeaf === batch.leaves.length,
        'the batch has not as many leaves as it says',
      );
      assert(batch.leaves.length > 0, 'the batch is empty');
      const jobs = new Set(batch.leaves.map((leaf) => leaf.jobId));
      assert(jobs.size === batch.leaves.length, 'the batch has a job twice');
      const sealed = batch.leaves.map((leaf) => ({ ...leaf, key: this.#waitingJob(leaf.jobId).key }));
      const changes = sealed.flatMap((leaf, offset) => this.#sealed(leaf, batch.firstLeaf + offset));
      const told = this.#outbox.queue('job.completed', batch.sealedAt, sealed);
      return this.#tell(told, {
        unless: [{ database: this.#databases.leaves, key: counterKey(batch.firstLeaf) }, epochsChanged],
        changes: [...changes, ...this.#evidence(batch)],
      });
    });
    assert(
      happened || epochsChanged.database.doesExist(epochsChanged.key),
      `leaf ${batch.firstLeaf} was written by another process`,
    );
    return happened;
  }

  async receive(jobId: string, content: Content, copy: StoredCopy | undefined): Promise<void> {
    assertCopied(jobId, content, copy);
    const happened = await this.#inTurn(() => {
      const { key } = this.#waitingJob(jobId);
      const { contents, sources } = this.#databases;
      assert(sources.doesExist(key), `job ${jobId} has its content already`);
      return this.#commits.write({
        unless: [{ database: contents, key }],
        changes: [
          { database: contents, key, value: encodeContent(content) },
          { database: sources, key },
          ...(copy === undefined ? [] : [this.#copies.change(jobId, copy)]),
        ],
      });
    });
    assert(happened, `the content of ${jobId} was written by another process`);
  }

  async fail(jobId: string, failure: Failure, releaseKey: boolean): Promise<void> {
    const happened = await this.#inTurn(() => {
      const { key, expiry } = this.#waitingJob(jobId);
      const changes: Change[] = [
        { database: this.#databases.outcomes, key, value: encodeFailed(failure, releaseKey) },
        { database: this.#databases.waiting, key },
        { database: this.#databases.sources, key },
      ];
      const job = this.#job(key);
      if (releaseKey) changes.push(...this.#neverAsked(job, expiry));
      const told = this.#outbox.queue('job.failed', failure.failedAt, [{ key, clientId: job.clientId }]);
      return this.#tell(told, { unless: [{ database: this.#databases.outcomes, key }], changes });
    });
    assert(happened, `the outcome of ${jobId} was written by another process`);
  }

  async sweepIdempotency(before: number, limit: number): Promise<number> {
    return this.#inTurn(async () => {
      const expired = Array.from(this.#idempotency.expired(before, limit));
      if (expired.length > 0) await this.#commits.write({ changes: expired.flat() });
      return expired.length;
    });
  }

  async sweepQuotas(epochMs: number, limit: number): Promise<number> {
    return this.#inTurn(async () => {
      const changes = this.#quotas.ended(epochMs, limit);
      if (changes.length > 0) await this.#commits.write({ changes });
      return changes.length;
    });
  }

  async #inTurn<T>(decide: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(decide);
    this.#turn = result.catch(() => undefined); // its caller is told; the next one decides for itself
    return result;
  }

  /** What is to be sent because of a write becomes durable with it, or not at all. */
  async #tell(told: Queued, { unless, changes }: Write): Promise<boolean> {
    let happened = false;
    try {
      happened = await this.#commits.write({
        ...(unless && { unless }),
        changes: [...changes, ...told.changes],
      });
    } finally {
      told.settled(happened);
    }
    return happened;
  }

  #job(key: Uint8Array): Job {
    const job = this.#databases.jobs.getBinary(key);
    assert(job, `job ${parseJobKey(key)} waits but is not in the store`);
    return parseJob(key, job);
  }

  /** Frees the key of a create that failed after all, and what it took of its quota. */
  #neverAsked({ clientId, quota }: Job, expiry: Buffer): Change[] {
    return [
      ...(expiry.length > 0 ? this.#idempotency.release(expiry) : []),
      ...(quota ? [this.#quotas.change(clientId, quota, -1)] : []),
    ];
  }

  #sealed({ jobId, data, key }: SealedLeaf & { key: Buffer }, leafIndex: number): Write['changes'] {
    assert(!this.#databases.sources.doesExist(key), `the document of job ${jobId} was not received`);
    return [
      { database: this.#databases.leaves, key: counterKey(leafIndex), value: encodeLeaf(key, data) },
      { database: this.#databases.outcomes, key, value: encodeSealed(leafIndex) },
      { database: this.#databases.waiting, key },
    ];
  }

  #evidence({ leaves: _, epochsRevision: __, tiles, ...batch }: SealedBatch): Change[] {
    return [
      ...tiles.map(({ level, index, hashes }) => ({
        database: this.#databases.tiles,
        key: tileKey(level, index),
        value: hashes,
      })),
      {
        database: this.#databases.batches,
        key: counterKey(batch.treeSize),
        value: encodeRecord(batch satisfies Batch),
      },
    ];
  }

  /** A job waits exactly as long as it has no outcome. */
  #waitingJob(jobId: string): { key: Buffer; expiry: Buffer } {
    const key = jobKey(jobId);
    const expiry = key && this.#databases.waiting.getBinary(key);
    assert(key && expiry, `job ${jobId} is unknown or has an outcome already`);
    return { key, expiry };
  }
}
