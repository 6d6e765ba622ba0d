import { assert } from '../../base/assert.ts';
import {
  type Content,
  type Failure,
  isReceived,
  type Job,
  type JobRecord,
  type Outcome,
} from '../../job/job.ts';
import { encodeContent, encodeJob, parseContent, parseJob } from '../jobCodec.ts';
import { assertAcceptable, assertCopied, CANDIDATES_MAX, isOrUnset, matches } from '../jobRules.ts';
import { encodeRecord, parseRecord } from '../records.ts';
import type {
  Acceptance,
  IdempotencyEntry,
  IdempotencyKey,
  JobPage,
  JobQuery,
  JobReference,
  JobStore,
  NewJob,
  QuotaCount,
  SealedLeaf,
  StoredCopy,
} from '../store.ts';
import type { Change, Commits } from './commits.ts';
import type { CopyRecords } from './copyRecords.ts';
import { type Databases, scanKeys } from './databases.ts';
import type { IdempotencyEntries } from './idempotencyEntries.ts';
import { idKey, NOTHING, ownIdKey, parseJobKey } from './keyLayout.ts';
import type { Outbox } from './outbox.ts';
import { encodeFailed, encodeSealed, parseOutcome } from './outcomeRecords.ts';
import { Postings } from './postings.ts';
import type { QuotaCounts } from './quotaCounts.ts';

/** What is written together with jobs. */
interface Beside {
  idempotency: IdempotencyEntries;
  quotas: QuotaCounts;
  copies: CopyRecords;
  outbox: Outbox;
}

interface Adding {
  key: Buffer;
  changes: Change[];
  written(happened: boolean): void;
}

/** Jobs by id. A condition inside each transaction holds off a second process that writes the same. */
export class JobRecords implements JobStore {
  readonly #databases: Databases;
  readonly #commits: Commits;
  readonly #beside: Beside;
  readonly #postings: Postings;

  constructor(databases: Databases, commits: Commits, beside: Beside) {
    this.#databases = databases;
    this.#commits = commits;
    this.#beside = beside;
    this.#postings = new Postings(databases);
  }

  async accept(job: Job, acceptance: Acceptance = {}): Promise<void> {
    const { jobs } = this.#databases;
    const { key, changes, written } = this.#adding({ job, acceptance });
    let happened = false;
    try {
      const write = { unless: [{ database: jobs, key }], changes: [...changes, this.#waits(key)] };
      happened = await this.#commits.write(write);
    } finally {
      written(happened);
    }
    assert(happened, `job ${job.id} is in the store already`);
  }

  /** The changes that add a job, of which nobody knows yet how it ends. Write them at once, and then tell `written` whether they were. */
  #adding(newJob: NewJob): Adding {
    assertAcceptable(newJob);
    const { job, acceptance } = newJob;
    const { idempotency, sourceUrl, copy } = acceptance;
    const { sources } = this.#databases;
    const key = ownIdKey('job', job.id);
    const taken = idempotency && this.#beside.idempotency.take(idempotency, (id) => this.#hasFailed(id));
    const changes = [...this.#recordOf(job, key), ...(taken?.changes ?? [])];
    if (sourceUrl !== undefined) changes.push({ database: sources, key, value: encodeRecord(sourceUrl) });
    if (copy !== undefined) changes.push(this.#beside.copies.change(job.id, copy));
    const written = (happened: boolean) => {
      taken?.written();
      if (!happened && job.quota) this.#beside.quotas.uncount(job.clientId, job.quota);
    };
    return { key, changes, written };
  }

  /** The changes that add a job that nothing else is written with, and make it wait for its outcome. */
  changesFor(job: Job): Change[] {
    const key = ownIdKey('job', job.id);
    return [...this.#recordOf(job, key), this.#waits(key)];
  }

  /** A job, its place in the lists, and its quota. */
  #recordOf(job: Job, key: Buffer): Change[] {
    return [
      { database: this.#databases.jobs, key, value: encodeJob(job) },
      ...this.#postings.changesFor(job, key),
      ...(job.quota ? [this.#beside.quotas.count(job.clientId, job.quota)] : []),
    ];
  }

  #waits(key: Buffer): Change {
    return { database: this.#databases.waiting, key, value: NOTHING };
  }

  async receive(jobId: string, content: Content, copy?: StoredCopy): Promise<void> {
    assertCopied(jobId, content, copy);
    const happened = await this.#commits.inTurn(async () => {
      const key = this.#unfinished(jobId);
      const { contents, sources } = this.#databases;
      assert(sources.doesExist(key), `job ${jobId} has its content already`);
      const changes: Change[] = [
        { database: contents, key, value: encodeContent(content) },
        { database: sources, key },
      ];
      if (copy !== undefined) changes.push(this.#beside.copies.change(jobId, copy));
      return this.#commits.write({ unless: [{ database: contents, key }], changes });
    });
    assert(happened, `the content of ${jobId} was written by another process`);
  }

  async fail(jobId: string, failure: Failure): Promise<void> {
    const happened = await this.#commits.inTurn(async () => {
      const key = this.#unfinished(jobId);
      const { outcomes, waiting, sources } = this.#databases;
      const job = this.#job(key);
      assert(job, `job ${jobId} waits but is not in the store`);
      const { clientId } = job;
      const changes: Change[] = [
        { database: outcomes, key, value: encodeFailed(failure) },
        { database: waiting, key },
        { database: sources, key },
      ];
      const write = { unless: [{ database: outcomes, key }], changes };
      return this.#beside.outbox.tell('job.failed', failure.failedAt, [{ key, clientId }], write);
    });
    assert(happened, `the outcome of ${jobId} was written by another process`);
  }

  /**
   * The changes that complete a job as that leaf. Throws BrokenInvariant unless the job waits and has its content, or is new. Write them
   * at once, and then tell `written` whether they were.
   */
  seal({ jobId, newJob }: Pick<SealedLeaf, 'jobId' | 'newJob'>, leafIndex: number): Adding {
    const { jobs, outcomes, waiting, sources } = this.#databases;
    const outcome = { database: outcomes, value: encodeSealed(leafIndex) };
    if (newJob !== undefined) {
      assert(newJob.job.id === jobId && isReceived(newJob.job), `${jobId} is not the new job of its leaf`);
      const { key, changes, written } = this.#adding(newJob);
      assert(!jobs.doesExist(key), `job ${jobId} is in the store already`);
      return { key, changes: [...changes, { ...outcome, key }], written };
    }
    const key = this.#unfinished(jobId);
    assert(!sources.doesExist(key), `the document of job ${jobId} was not received`);
    const changes = [
      { ...outcome, key },
      { database: waiting, key },
    ];
    return { key, changes, written: () => {} };
  }

  async get(jobId: string): Promise<JobRecord | undefined> {
    const key = idKey('job', jobId);
    return key && this.#record(key);
  }

  async list(query: JobQuery): Promise<JobPage> {
    const records: JobRecord[] = [];
    let last: Uint8Array | undefined;
    let candidates = 0;
    for (const key of this.#postings.find(query)) {
      const isFull = records.length >= query.limit || candidates >= CANDIDATES_MAX;
      if (isFull) return { records, ...(last && { next: parseJobKey(last) }) };
      const outcome = this.#outcome(key);
      const record = isOrUnset(query.outcome, outcome?.kind ?? 'waiting') ? this.#record(key) : undefined;
      if (record !== undefined && matches(query, record)) records.push(record);
      last = key;
      candidates += 1;
    }
    return { records };
  }

  async *all(): AsyncIterable<JobRecord> {
    for await (const key of scanKeys(this.#databases, 'jobs')) {
      const record = this.#record(key);
      if (record !== undefined) yield record;
    }
  }

  async waiting(limit: number, after?: string): Promise<Job[]> {
    const start = after === undefined ? undefined : ownIdKey('job', after);
    const keys = this.#databases.waiting.getKeys({ ...(start && { start, exclusiveStart: true }), limit });
    return Array.from(keys, (key) => {
      const job = this.#job(key);
      assert(job !== undefined, `job ${parseJobKey(key)} waits but is not in the store`);
      return job;
    });
  }

  async waitingCount(): Promise<number> {
    return this.#databases.waiting.getStats().entryCount ?? 0;
  }

  async sourceUrl(jobId: string): Promise<string | undefined> {
    const key = idKey('job', jobId);
    const bytes = key && this.#databases.sources.getBinary(key);
    return bytes && parseRecord<string>(bytes, `the source of ${jobId}`);
  }

  async idempotency(key: IdempotencyKey): Promise<IdempotencyEntry | undefined> {
    return this.#beside.idempotency.get(key);
  }

  async sweepIdempotency(before: number, limit: number): Promise<number> {
    return this.#commits.inTurn(async () => {
      const expired = Array.from(this.#beside.idempotency.expired(before, limit));
      if (expired.length > 0) await this.#commits.write({ changes: expired.flat() });
      return expired.length;
    });
  }

  async quotaCounts(): Promise<QuotaCount[]> {
    return this.#beside.quotas.all();
  }

  async sweepQuotas(epochMs: number, limit: number): Promise<number> {
    return this.#commits.inTurn(async () => {
      const changes = this.#beside.quotas.ended(epochMs, limit);
      if (changes.length > 0) await this.#commits.write({ changes });
      return changes.length;
    });
  }

  async *references(): AsyncIterable<JobReference> {
    const kinds = { outcome: 'outcomes', content: 'contents', source: 'sources', copy: 'copies' } as const;
    for (const kind of ['outcome', 'content', 'source', 'copy'] as const) {
      for await (const key of scanKeys(this.#databases, kinds[kind])) {
        if (kind === 'outcome' && this.#outcome(key)?.kind !== 'failed') continue;
        yield { kind, jobId: parseJobKey(key) };
      }
    }
    for await (const key of scanKeys(this.#databases, 'idempotency')) {
      const jobId = this.#beside.idempotency.jobOf(key);
      if (jobId !== undefined) yield { kind: 'idempotency', jobId };
    }
  }

  /** A job waits exactly as long as it has no outcome. */
  #unfinished(jobId: string): Buffer {
    const key = idKey('job', jobId);
    assert(
      key && this.#databases.waiting.doesExist(key),
      `job ${jobId} is unknown or has an outcome already`,
    );
    return key;
  }

  #hasFailed(jobId: string): boolean {
    const key = idKey('job', jobId);
    return key !== undefined && this.#outcome(key)?.kind === 'failed';
  }

  #job(key: Uint8Array): Job | undefined {
    const bytes = this.#databases.jobs.getBinary(key);
    if (bytes === undefined) return undefined;
    const job = parseJob(parseJobKey(key), bytes);
    if (isReceived(job)) return job;
    const content = this.#databases.contents.getBinary(key);
    return content === undefined ? job : { ...job, content: parseContent(content) };
  }

  #record(key: Uint8Array): JobRecord | undefined {
    const job = this.#job(key);
    if (job === undefined) return undefined;
    const outcome = this.#outcome(key);
    return outcome === undefined ? { job } : { job, outcome };
  }

  #outcome(key: Uint8Array): Outcome | undefined {
    const bytes = this.#databases.outcomes.getBinary(key);
    return bytes && parseOutcome(bytes);
  }
}
