import { assert } from '../../base/assert.ts';
import { isReceived, type Job, type JobRecord } from '../../job/job.ts';
import { encodeContent, encodeJob, parseContent, parseJob } from '../jobCodec.ts';
import { assertAcceptable, assertCopied, CANDIDATES_MAX, markersOf, matches } from '../jobRules.ts';
import { encodeRecord, parseRecord } from '../records.ts';
import type { JobQuery, JobStore, NewJob, SealedLeaf } from '../store.ts';
import { StoreError } from '../storeError.ts';
import type { Change, Commits } from './commits.ts';
import type { CopyRecords } from './copyRecords.ts';
import { type Databases, scanKeys } from './databases.ts';
import type { IdempotencyEntries } from './idempotencyEntries.ts';
import { idKey, NOTHING, ownIdKey, parseJobKey } from './keyLayout.ts';
import type { OutboxRecords } from './outboxRecords.ts';
import { encodeFailed, encodeSealed, outcomeKind, parseOutcome } from './outcomeRecords.ts';
import { Postings } from './postings.ts';
import type { QuotaCounts } from './quotaCounts.ts';

/** Parts of the store that are written together with jobs. */
interface Beside {
  idempotency: IdempotencyEntries;
  quotas: QuotaCounts;
  copies: CopyRecords;
  outbox: OutboxRecords;
}

interface Adding {
  key: Buffer;
  changes: Change[];
  written(happened: boolean): void;
}

export type JobRecords = ReturnType<typeof jobRecords>;

/** Jobs by id. A condition inside each transaction holds off a second process that writes the same. */
export function jobRecords(databases: Databases, commits: Commits, beside: Beside) {
  const postings = new Postings(databases);

  /** The changes that add a job without an outcome. Write them at once, and then tell `written` whether they were. Throws StoreError. */
  function adding(newJob: NewJob): Adding {
    assertAcceptable(newJob);
    const { job, acceptance } = newJob;
    const { idempotency, sourceUrl, copy } = acceptance;
    if (idempotency !== undefined && beside.idempotency.isTaken(idempotency, hasFailed))
      throw new StoreError({ code: 'key_taken' });
    const { sources } = databases;
    const key = ownIdKey('job', job.id);
    const taken = idempotency && beside.idempotency.take(idempotency);
    const changes = [...recordOf(job, key), ...(taken?.changes ?? [])];
    if (sourceUrl !== undefined) changes.push({ database: sources, key, value: encodeRecord(sourceUrl) });
    if (copy !== undefined) changes.push(beside.copies.change(job.id, copy));
    const written = (happened: boolean) => {
      taken?.written();
      if (!happened && job.quota) beside.quotas.uncount(job.clientId, job.quota);
    };
    return { key, changes, written };
  }

  /** The changes that add a job by itself, and make it wait for its outcome. */
  function changesFor(job: Job): Change[] {
    const key = ownIdKey('job', job.id);
    return [...recordOf(job, key), waits(key)];
  }

  /** A job, its place in the lists, and its quota. */
  function recordOf(job: Job, key: Buffer): Change[] {
    return [
      { database: databases.jobs, key, value: encodeJob(job) },
      ...postings.changesFor(job, key),
      ...(job.quota ? [beside.quotas.count(job.clientId, job.quota)] : []),
    ];
  }

  function waits(key: Buffer): Change {
    return { database: databases.waiting, key, value: NOTHING };
  }

  /**
   * The changes that seal a job as that leaf. Throws BrokenInvariant unless the job waits and has its content, or is new. Write them at
   * once, and then tell `written` whether they were.
   */
  function seal({ jobId, newJob }: Pick<SealedLeaf, 'jobId' | 'newJob'>, leafIndex: number): Adding {
    const { jobs, outcomes, waiting, sources } = databases;
    const outcome = { database: outcomes, value: encodeSealed(leafIndex) };
    if (newJob !== undefined) {
      assert(newJob.job.id === jobId && isReceived(newJob.job), `${jobId} is not the new job of its leaf`);
      const { key, changes, written } = adding(newJob);
      assert(!jobs.doesExist(key), `job ${jobId} is in the store already`);
      return { key, changes: [...changes, { ...outcome, key }], written };
    }
    const key = unfinished(jobId);
    assert(!sources.doesExist(key), `the document of job ${jobId} was not received`);
    const changes = [
      { ...outcome, key },
      { database: waiting, key },
    ];
    return { key, changes, written: () => {} };
  }

  /** A job waits exactly as long as it has no outcome. */
  function unfinished(jobId: string): Buffer {
    const key = idKey('job', jobId);
    assert(key && databases.waiting.doesExist(key), `job ${jobId} is unknown or has an outcome already`);
    return key;
  }

  function hasFailed(jobId: string): boolean {
    const key = idKey('job', jobId);
    return key !== undefined && kindAt(key) === 'failed';
  }

  function jobAt(key: Uint8Array): Job | undefined {
    const bytes = databases.jobs.getBinary(key);
    return bytes && jobOf(key, bytes);
  }

  function jobOf(key: Uint8Array, bytes: Buffer): Job {
    const job = parseJob(parseJobKey(key), bytes);
    if (isReceived(job)) return job;
    const content = databases.contents.getBinary(key);
    return content === undefined ? job : { ...job, content: parseContent(content) };
  }

  function recordAt(key: Uint8Array): JobRecord | undefined {
    const job = jobAt(key);
    return job && withOutcome(job, key);
  }

  function withOutcome(job: Job, key: Uint8Array): JobRecord {
    const outcome = databases.outcomes.getBinary(key);
    return outcome === undefined ? { job } : { job, outcome: parseOutcome(outcome) };
  }

  /** The job at that key if its record has the markers and its outcome is the wanted one; otherwise nothing of it is decoded. */
  function recordWith(
    key: Uint8Array,
    markers: Buffer[],
    wanted: JobQuery['outcome'],
  ): JobRecord | undefined {
    // For most jobs that a filter rejects, one look-up is enough.
    if (wanted !== undefined && kindAt(key) !== wanted) return undefined;
    const bytes = databases.jobs.getBinary(key);
    if (bytes === undefined || !markers.every((marker) => bytes.includes(marker))) return undefined;
    return withOutcome(jobOf(key, bytes), key);
  }

  function kindAt(key: Uint8Array): JobQuery['outcome'] {
    const outcome = databases.outcomes.getBinary(key);
    return outcome === undefined ? 'waiting' : outcomeKind(outcome);
  }

  const store: JobStore = {
    async accept(job, acceptance = {}) {
      const { jobs } = databases;
      const { key, changes, written } = adding({ job, acceptance });
      let happened = false;
      try {
        const write = { unless: [{ database: jobs, key }], changes: [...changes, waits(key)] };
        happened = await commits.write(write);
      } finally {
        written(happened);
      }
      assert(happened, `job ${job.id} is in the store already`);
    },

    async receive(jobId, content, copy) {
      assertCopied(jobId, content, copy);
      const happened = await commits.serially(async () => {
        const key = unfinished(jobId);
        const { contents, sources } = databases;
        assert(sources.doesExist(key), `job ${jobId} has its content already`);
        const changes: Change[] = [
          { database: contents, key, value: encodeContent(content) },
          { database: sources, key },
        ];
        if (copy !== undefined) changes.push(beside.copies.change(jobId, copy));
        return commits.write({ unless: [{ database: contents, key }], changes });
      });
      assert(happened, `the content of ${jobId} was written by another process`);
    },

    async fail(jobId, failure) {
      const happened = await commits.serially(async () => {
        const key = unfinished(jobId);
        const { outcomes, waiting, sources } = databases;
        const job = jobAt(key);
        assert(job, `job ${jobId} waits but is not in the store`);
        const { clientId } = job;
        const changes: Change[] = [
          { database: outcomes, key, value: encodeFailed(failure) },
          { database: waiting, key },
          { database: sources, key },
        ];
        const write = { unless: [{ database: outcomes, key }], changes };
        return beside.outbox.tell('job.failed', failure.failedAt, [{ key, clientId }], write);
      });
      assert(happened, `the outcome of ${jobId} was written by another process`);
    },

    async get(jobId) {
      const key = idKey('job', jobId);
      return key && recordAt(key);
    },

    async list(query) {
      const records: JobRecord[] = [];
      const markers = markersOf(query);
      let last: Uint8Array | undefined;
      let candidates = 0;
      for (const key of postings.find(query)) {
        const isFull = records.length >= query.limit || candidates >= CANDIDATES_MAX;
        if (isFull) return { records, ...(last && { next: parseJobKey(last) }) };
        const record = recordWith(key, markers, query.outcome);
        if (record !== undefined && matches(query, record)) records.push(record);
        last = key;
        candidates += 1;
      }
      return { records };
    },

    async *all() {
      for await (const key of scanKeys(databases, 'jobs')) {
        const record = recordAt(key);
        if (record !== undefined) yield record;
      }
    },

    async waiting(limit, after) {
      const start = after === undefined ? undefined : ownIdKey('job', after);
      const keys = databases.waiting.getKeys({ ...(start && { start, exclusiveStart: true }), limit });
      return Array.from(keys, (key) => {
        const job = jobAt(key);
        assert(job !== undefined, `job ${parseJobKey(key)} waits but is not in the store`);
        return job;
      });
    },

    waitingCount: async () => databases.waiting.getStats().entryCount ?? 0,

    async sourceUrl(jobId) {
      const key = idKey('job', jobId);
      const bytes = key && databases.sources.getBinary(key);
      return bytes && parseRecord<string>(bytes, `the source of ${jobId}`);
    },

    idempotency: async (key) => beside.idempotency.get(key),

    async sweepIdempotency(before, limit) {
      return commits.serially(async () => {
        const expired = Array.from(beside.idempotency.expired(before, limit));
        if (expired.length > 0) await commits.write({ changes: expired.flat() });
        return expired.length;
      });
    },

    quotaCounts: async () => beside.quotas.all(),

    async sweepQuotas(epochMs, limit) {
      return commits.serially(async () => {
        const changes = beside.quotas.ended(epochMs, limit);
        if (changes.length > 0) await commits.write({ changes });
        return changes.length;
      });
    },

    async *references() {
      const kinds = { outcome: 'outcomes', content: 'contents', source: 'sources', copy: 'copies' } as const;
      for (const kind of ['outcome', 'content', 'source', 'copy'] as const) {
        for await (const key of scanKeys(databases, kinds[kind])) {
          if (kind === 'outcome' && kindAt(key) !== 'failed') continue;
          yield { kind, jobId: parseJobKey(key) };
        }
      }
      for await (const key of scanKeys(databases, 'idempotency')) {
        const jobId = beside.idempotency.jobOf(key);
        if (jobId !== undefined) yield { kind: 'idempotency', jobId };
      }
    },
  };
  return { ...store, changesFor, seal };
}
