import { assert } from '../../base/assert.ts';
import {
  type Content,
  documentSha256,
  isReceived,
  type Job,
  type JobRecord,
  type Outcome,
} from '../../job/job.ts';
import {
  type Acceptance,
  type JobPage,
  type JobQuery,
  maySee,
  type Reference,
  type StoredCopy,
} from '../store.ts';
import type { Change, Commits } from './commits.ts';
import type { Copies } from './copyRecords.ts';
import type { Databases } from './databases.ts';
import type { IdempotencyEntries } from './idempotencyEntries.ts';
import { jobKey, NOTHING, ownKey, parseJobKey } from './keyLayout.ts';
import { scanKeys } from './keyScan.ts';
import { Postings } from './postings.ts';
import type { QuotaCounts } from './quotaCounts.ts';
import { encodeJob, encodeRecord, parseContent, parseJob, parseOutcome, parseRecord } from './records.ts';

/** Jobs a listing looks at before it ends its page, found enough or not: some milliseconds of work. */
const CANDIDATES_MAX = 1000;

/** What is written with a new job. */
interface Beside {
  idempotency: IdempotencyEntries;
  quotas: QuotaCounts;
  copies: Copies;
}

export class Jobs {
  readonly #databases: Databases;
  readonly #commits: Commits;
  readonly #idempotency: IdempotencyEntries;
  readonly #quotas: QuotaCounts;
  readonly #copies: Copies;
  readonly #postings: Postings;

  constructor(databases: Databases, commits: Commits, beside: Beside) {
    this.#databases = databases;
    this.#commits = commits;
    this.#idempotency = beside.idempotency;
    this.#quotas = beside.quotas;
    this.#copies = beside.copies;
    this.#postings = new Postings(databases);
  }

  async accept(job: Job, { idempotency, sourceUrl, copy }: Acceptance): Promise<void> {
    const hasEither = isReceived(job) !== (sourceUrl !== undefined);
    assert(hasEither, `${job.id} must have either its content or the URL it comes from`);
    assertCopied(job.id, job.content, copy);
    const extras = [
      ...(sourceUrl === undefined ? [] : [this.#source(job.id, sourceUrl)]),
      ...(copy === undefined ? [] : [this.#copies.change(job.id, copy)]),
    ];
    if (idempotency === undefined) return this.#write(job, extras, NOTHING);
    return this.#idempotency.take(idempotency, (changes, releaseKey) =>
      this.#write(job, [...extras, ...changes], releaseKey),
    );
  }

  sourceUrl(jobId: string): string | undefined {
    const key = jobKey(jobId);
    const bytes = key && this.#databases.sources.getBinary(key);
    return bytes && parseRecord<string>(bytes, `the source of ${jobId}`);
  }

  async #write(job: Job, changes: Change[], releaseKey: Buffer): Promise<void> {
    const isNew = await this.#commits.write({
      unless: [{ database: this.#databases.jobs, key: ownKey(job.id) }],
      changes: [...this.changesFor(job, releaseKey), ...changes],
    });
    assert(isNew, `job ${job.id} is in the store already`);
  }

  /** What makes a job wait for its outcome. `releaseKey`: of its idempotency entry, or nothing. */
  changesFor(job: Job, releaseKey: Buffer): Change[] {
    const { jobs, waiting } = this.#databases;
    const key = ownKey(job.id);
    return [
      { database: jobs, key, value: encodeJob(job) },
      { database: waiting, key, value: releaseKey },
      ...this.#postings.changesFor(job, key),
      ...(job.quota ? [this.#quotas.change(job.clientId, job.quota, 1)] : []),
    ];
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
    const { outcomes, contents, sources, copies } = this.#databases;
    const byJob = { outcome: outcomes, content: contents, source: sources, copy: copies };
    for (const kind of ['outcome', 'content', 'source', 'copy'] as const) {
      for await (const key of scanKeys(byJob[kind], this.#commits)) {
        if (kind === 'outcome' && this.#outcome(key)?.kind !== 'failed') continue;
        yield { kind, jobId: parseJobKey(key) };
      }
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

/** What the manifest says of a copy is said of one that is there. */
export function assertCopied(
  jobId: string,
  content: Content | undefined,
  copy: StoredCopy | undefined,
): void {
  const matches = (content?.sealedDocument !== undefined) === (copy !== undefined);
  assert(matches, `${jobId} must have a copy of its document and the digests of it, or neither`);
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
