import { assert } from '../base/assert.ts';
import type { Job, JobRecord, Outcome } from '../job/job.ts';
import type { Change, Commits } from './commits.ts';
import type { Databases } from './databases.ts';
import type { IdempotencyEntries } from './idempotency.ts';
import { jobKey, NOTHING, parseJobKey } from './keys.ts';
import { Postings } from './postings.ts';
import { encodeJob, parseJob, parseOutcome } from './records.ts';
import { scanKeys } from './scan.ts';
import { type IdempotencyEntry, type JobPage, type JobQuery, maySee, type Reference } from './store.ts';

/** Jobs a listing looks at before it ends its page, found enough or not: some milliseconds of work. */
const CANDIDATES_MAX = 1000;

export class Jobs {
  readonly #databases: Databases;
  readonly #commits: Commits;
  readonly #idempotency: IdempotencyEntries;
  readonly #postings: Postings;

  constructor(databases: Databases, commits: Commits, idempotency: IdempotencyEntries) {
    this.#databases = databases;
    this.#commits = commits;
    this.#idempotency = idempotency;
    this.#postings = new Postings(databases);
  }

  async accept(job: Job, entry: IdempotencyEntry | undefined): Promise<void> {
    if (entry === undefined) return this.#write(job, [], NOTHING);
    return this.#idempotency.take(entry, (changes, releaseKey) => this.#write(job, changes, releaseKey));
  }

  async #write(job: Job, changes: Change[], releaseKey: Buffer): Promise<void> {
    const { jobs, waiting } = this.#databases;
    const key = jobKey(job.id);
    assert(key !== undefined, `${job.id} is not a job id of this service`);
    const isNew = await this.#commits.write({
      unless: { database: jobs, key },
      changes: [
        { database: jobs, key, value: encodeJob(job) },
        { database: waiting, key, value: releaseKey },
        ...this.#postings.changesFor(job, key),
        ...changes,
      ],
    });
    assert(isNew, `job ${job.id} is in the store already`);
  }

  waiting(limit: number, after: string | undefined): Job[] {
    const start = after === undefined ? undefined : jobKey(after);
    assert(after === undefined || start !== undefined, `${after} is not a job id of this service`);
    const keys = this.#databases.waiting.getKeys({ ...(start && { start, exclusiveStart: true }), limit });
    return Array.from(keys, (key) => {
      const job = this.#job(key);
      assert(job !== undefined, `job ${parseJobKey(key)} waits but is not in the store`);
      return job;
    });
  }

  waitingCount(): number {
    return this.#databases.waiting.getStats().entryCount ?? 0;
  }

  record(jobId: string): JobRecord | undefined {
    const key = jobKey(jobId);
    return key && this.#record(key);
  }

  list(query: JobQuery): JobPage {
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
    for await (const key of scanKeys(this.#databases.jobs, this.#commits)) {
      const record = this.#record(key);
      if (record !== undefined) yield record;
    }
  }

  async *references(): AsyncIterable<Reference> {
    for await (const key of scanKeys(this.#databases.outcomes, this.#commits)) {
      yield { kind: 'outcome', jobId: parseJobKey(key) };
    }
    for await (const key of scanKeys(this.#databases.idempotency, this.#commits)) {
      const jobId = this.#idempotency.jobOf(key);
      if (jobId !== undefined) yield { kind: 'idempotency', jobId };
    }
  }

  #job(key: Uint8Array): Job | undefined {
    const bytes = this.#databases.jobs.getBinary(key);
    return bytes && parseJob(key, bytes);
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

/** Every filter but that by outcome. */
function matches(query: JobQuery, { job }: JobRecord): boolean {
  return (
    maySee(query.viewer, job) &&
    isOrUnset(query.documentSha256, job.document.sha256) &&
    isOrUnset(query.customerReference, job.customerReference) &&
    isOrUnset(query.visibility, job.visibility) &&
    job.acceptedAt >= (query.createdFrom ?? 0) &&
    job.acceptedAt < (query.createdTo ?? Number.POSITIVE_INFINITY)
  );
}

function isOrUnset<T>(wanted: T | undefined, actual: T): boolean {
  return wanted === undefined || wanted === actual;
}
