import { assert } from '../base/assert.ts';
import { documentSha256, isReceived, type Job, type JobRecord, type Outcome } from '../job/job.ts';
import type { Change, Commits } from './commits.ts';
import type { Databases } from './databases.ts';
import type { IdempotencyEntries } from './idempotency.ts';
import { jobKey, NOTHING, parseJobKey } from './keys.ts';
import { Postings } from './postings.ts';
import type { QuotaCounts } from './quotas.ts';
import { encodeJob, encodeRecord, parseContent, parseJob, parseOutcome, parseRecord } from './records.ts';
import { scanKeys } from './scan.ts';
import { type Acceptance, type JobPage, type JobQuery, maySee, type Reference } from './store.ts';

/** Jobs a listing looks at before it ends its page, found enough or not: some milliseconds of work. */
const CANDIDATES_MAX = 1000;

export class Jobs {
  readonly #databases: Databases;
  readonly #commits: Commits;
  readonly #idempotency: IdempotencyEntries;
  readonly #quotas: QuotaCounts;
  readonly #postings: Postings;

  constructor(databases: Databases, commits: Commits, idempotency: IdempotencyEntries, quotas: QuotaCounts) {
    this.#databases = databases;
    this.#commits = commits;
    this.#idempotency = idempotency;
    this.#quotas = quotas;
    this.#postings = new Postings(databases);
  }

  async accept(job: Job, { idempotency, sourceUrl }: Acceptance): Promise<void> {
    const hasEither = isReceived(job) !== (sourceUrl !== undefined);
    assert(hasEither, `${job.id} must have either its content or the URL it comes from`);
    const source = sourceUrl === undefined ? [] : [this.#source(job.id, sourceUrl)];
    if (idempotency === undefined) return this.#write(job, source, NOTHING);
    return this.#idempotency.take(idempotency, (changes, releaseKey) =>
      this.#write(job, [...source, ...changes], releaseKey),
    );
  }

  sourceUrl(jobId: string): string | undefined {
    const key = jobKey(jobId);
    const bytes = key && this.#databases.sources.getBinary(key);
    return bytes && parseRecord<string>(bytes, `the source of ${jobId}`);
  }

  async #write(job: Job, changes: Change[], releaseKey: Buffer): Promise<void> {
    const { jobs, waiting } = this.#databases;
    const key = ownKey(job.id);
    const isNew = await this.#commits.write({
      unless: { database: jobs, key },
      changes: [
        { database: jobs, key, value: encodeJob(job) },
        { database: waiting, key, value: releaseKey },
        ...this.#postings.changesFor(job, key),
        ...(job.quota ? [this.#quotas.change(job.clientId, job.quota, 1)] : []),
        ...changes,
      ],
    });
    assert(isNew, `job ${job.id} is in the store already`);
  }

  #source(jobId: string, url: string): Change {
    return { database: this.#databases.sources, key: ownKey(jobId), value: encodeRecord(url) };
  }

  waiting(limit: number, after: string | undefined): Job[] {
    const start = after === undefined ? undefined : ownKey(after);
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
    const { outcomes, contents, sources } = this.#databases;
    const byJob = { outcome: outcomes, content: contents, source: sources };
    for (const kind of ['outcome', 'content', 'source'] as const) {
      for await (const key of scanKeys(byJob[kind], this.#commits)) yield { kind, jobId: parseJobKey(key) };
    }
    for await (const key of scanKeys(this.#databases.idempotency, this.#commits)) {
      const jobId = this.#idempotency.jobOf(key);
      if (jobId !== undefined) yield { kind: 'idempotency', jobId };
    }
  }

  #job(key: Uint8Array): Job | undefined {
    const bytes = this.#databases.jobs.getBinary(key);
    if (bytes === undefined) return undefined;
    const job = parseJob(key, bytes);
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

function ownKey(jobId: string): Buffer {
  const key = jobKey(jobId);
  assert(key !== undefined, `${jobId} is not a job id of this service`);
  return key;
}

/** Every filter but that by outcome. */
function matches(query: JobQuery, { job }: JobRecord): boolean {
  return (
    maySee(query.viewer, job) &&
    isOrUnset(query.documentSha256, documentSha256(job)) &&
    isOrUnset(query.customerReference, job.customerReference) &&
    isOrUnset(query.visibility, job.visibility) &&
    job.acceptedAt >= (query.createdFrom ?? 0) &&
    job.acceptedAt < (query.createdTo ?? Number.POSITIVE_INFINITY)
  );
}

function isOrUnset<T>(wanted: T | undefined, actual: T): boolean {
  return wanted === undefined || wanted === actual;
}
