import { assert, BrokenInvariant } from '../../base/assert.ts';
import { isReceived } from '../../job/job.ts';
import type { AcceptanceKeys } from '../acceptanceKeys.ts';
import { AlteredJob } from '../acceptances.ts';
import { idOf, LEAST_UUID, ownUuid, uuidOf } from '../ids.ts';
import { encodeContent, parseJob } from '../jobCodec.ts';
import { assertAcceptable, assertCopied } from '../jobRules.ts';
import { encodeRecord, parseRecord } from '../records.ts';
import type { IdempotencyEntry, JobStore, NewJob } from '../store.ts';
import { type JobConflicts, StoreError } from '../storeError.ts';
import { type Database, type Queries, type Query, statements, together } from './database.ts';
import type { IdempotencyTable } from './idempotencyTable.ts';
import {
  INSERT_COPIES,
  insertJobs,
  type insertWaiting,
  JOB_COLUMNS,
  type JobRow,
  parseJobRow,
} from './jobRows.ts';
import { findJobs } from './listing.ts';
import type { OutboxTable } from './outboxTable.ts';
import { overQuota, quotaCounts, sweepQuotas } from './quotaRows.ts';
import type { Writes } from './writes.ts';

/** Maximum number of jobs accepted in one go. */
const ACCEPTED_MAX = 1000;

const SQL = statements({
  known_jobs: 'SELECT id FROM jobs WHERE id = ANY ($1::uuid[])',
  get_job: `SELECT ${JOB_COLUMNS} FROM jobs j WHERE j.id = $1`,
  all_jobs: `SELECT ${JOB_COLUMNS} FROM jobs j WHERE j.id > $1 ORDER BY j.id LIMIT $2`,
  waiting_jobs: `SELECT ${JOB_COLUMNS} FROM waiting w CROSS JOIN LATERAL (SELECT id, record FROM jobs WHERE id = w.job_id LIMIT 1) j
    WHERE w.job_id > $1 ORDER BY w.job_id LIMIT $2`,
  waiting_count: 'SELECT (SELECT count(*) FROM waiting) + (SELECT count(*) FROM arrivals) AS count',
  end_waiting: `WITH arrived AS (DELETE FROM arrivals WHERE job_id = ANY ($1::uuid[]) RETURNING job_id),
      waited AS (DELETE FROM waiting WHERE job_id = ANY ($1::uuid[]) RETURNING job_id)
    SELECT job_id FROM arrived UNION SELECT job_id FROM waited`,
  /** A front can announce the job again: the row of this daemon comes first. */
  lock_waiting: `SELECT 1 AS place, mac FROM (SELECT mac FROM waiting WHERE job_id = $1 FOR SHARE) AS waiting
    UNION ALL SELECT 2, mac FROM (SELECT mac FROM arrivals WHERE job_id = $1 FOR SHARE) AS arrived ORDER BY place`,
  set_mac: `WITH waits AS (UPDATE waiting SET mac = $2 WHERE job_id = $1)
    UPDATE arrivals SET mac = $2 WHERE job_id = $1`,
  /** An announced batch is taken up at the next start, before anything arrives. */
  keep_arrivals: `WITH arrived AS (DELETE FROM arrivals WHERE job_id = ANY ($1::uuid[]) RETURNING job_id, mac)
    INSERT INTO waiting (job_id, mac) SELECT job_id, mac FROM arrived ON CONFLICT DO NOTHING`,
  end_sources: `DELETE FROM sources WHERE job_id = ANY ($1::uuid[])
    RETURNING job_id AS id, EXISTS (SELECT FROM contents WHERE contents.job_id = sources.job_id) AS is_received,
      (SELECT record FROM jobs WHERE id = sources.job_id) AS record`,
  end_source: `DELETE FROM sources WHERE job_id = $1
    RETURNING record AS source, (SELECT record FROM jobs WHERE id = $1) AS record`,
  get_source: `SELECT record AS source, (SELECT record FROM jobs WHERE id = $1) AS record,
    coalesce((SELECT mac FROM waiting WHERE job_id = $1), (SELECT mac FROM arrivals WHERE job_id = $1)) AS mac
    FROM sources WHERE job_id = $1`,
  receive: 'INSERT INTO contents (job_id, record) VALUES ($1, $2)',
  fail: `INSERT INTO failures (job_id, record) VALUES ($1, $2)
    RETURNING (SELECT client_id FROM jobs WHERE id = $1)`,
});

/** The table of each kind of entry about a job. */
const BESIDE = [
  ['outcome', 'failures'],
  ['content', 'contents'],
  ['source', 'sources'],
  ['copy', 'copies'],
] as const;

/** Jobs that will be accepted in one go. */
interface Accepting {
  newJobs: NewJob[];
  /** Refused jobs, with the reason for each. */
  refused: Promise<Map<NewJob, BrokenInvariant | StoreError>>;
}

export interface JobTableOptions {
  idempotency: IdempotencyTable;
  /** Notifies clients how their jobs ended. */
  outbox: OutboxTable;
  /** Makes jobs wait that were accepted. */
  insertWaiting: typeof insertWaiting;
  /** Make the MACs of jobs that wait. */
  keys?: AcceptanceKeys | undefined;
  /** Called once a job is accepted. */
  onAccepted(): void;
  /** Called once jobs that were already in the store have their outcome. */
  onEnded(): void;
}

export type JobTable = ReturnType<typeof jobTable>;

export function jobTable(database: Database, writes: Writes, options: JobTableOptions) {
  const { keys } = options;
  let current: Accepting | undefined;

  /** Accepts in one transaction all jobs that come before it begins. */
  function acceptTogether(): Accepting {
    const newJobs: NewJob[] = [];
    const accept = async (queries: Queries) => {
      if (current === accepting) current = undefined;
      const { refused, replaced } = await refusals(queries, newJobs);
      const accepted = newJobs.filter((one) => !refused.has(one));
      if (accepted.length === 0) return refused;
      const waiting = accepted.map(({ job, acceptance: { sourceUrl } }) => {
        return { id: job.id, mac: keys?.macOf({ job, sourceUrl }) ?? null };
      });
      await together([insert(queries, accepted, replaced), options.insertWaiting(queries, waiting)]);
      return refused;
    };
    const refused = writes.run(accept, { isRefusable: true });
    const accepting = { newJobs, refused };
    const end = () => {
      if (current === accepting) current = undefined;
    };
    refused.then(end, end); // It may have failed before the transaction began.
    return accepting;
  }

  /**
   * Checks whether jobs that do not wait can be added. Returns a function that adds them: their leaves are written with them. Throws
   * BrokenInvariant if one of them cannot be accepted, and {@link Conflicting} if another node was faster.
   */
  async function admit(queries: Queries, newJobs: readonly NewJob[]): Promise<() => Promise<void>> {
    if (newJobs.length === 0) return async () => {};
    for (const newJob of newJobs) assertAcceptable(newJob);
    const { refused, replaced } = await refusals(queries, newJobs);
    const conflicts = new Map<string, StoreError>();
    for (const [{ job }, refusal] of refused) {
      if (!(refusal instanceof StoreError)) throw refusal;
      conflicts.set(job.id, refusal);
    }
    if (conflicts.size > 0) throw new Conflicting(conflicts);
    return () => insert(queries, newJobs, replaced);
  }

  async function insert(
    queries: Queries,
    newJobs: readonly NewJob[],
    replaced: readonly string[],
  ): Promise<void> {
    const entries = newJobs.flatMap(entryOf);
    await together([insertJobs(queries, newJobs), options.idempotency.take(queries, entries, replaced)]);
  }

  async function refusals(queries: Queries, newJobs: readonly NewJob[]) {
    const [rows, holders] = await together([
      queries.rows<{ id: string }>(SQL.known_jobs, [newJobs.map(({ job }) => ownUuid('job', job.id))]),
      options.idempotency.holders(queries, newJobs.flatMap(entryOf)),
    ]);
    const known = new Set(rows.map(({ id }) => idOf('job', id)));
    const refused = new Map<NewJob, BrokenInvariant | StoreError>();
    for (const newJob of newJobs) {
      const { id } = newJob.job;
      if (known.has(id)) refused.set(newJob, new BrokenInvariant(`job ${id} is in the store already`));
      known.add(id);
    }
    const others = newJobs.filter((one) => !refused.has(one));
    const taken = options.idempotency.taken(others.flatMap(entryOf), holders);
    for (const newJob of others) {
      const [entry] = entryOf(newJob);
      if (entry && taken.refused.has(entry)) refused.set(newJob, new StoreError({ code: 'key_taken' }));
    }
    const counted = others.filter((one) => !refused.has(one));
    for (const [newJob, error] of await overQuota(queries, counted)) refused.set(newJob, error);
    return { refused, replaced: taken.replaced };
  }

  /** Ends the wait of jobs, which is as long as they have no outcome. Throws BrokenInvariant if one of these does not wait. */
  async function endWaiting(queries: Queries, jobIds: readonly string[]): Promise<void> {
    const ended = await queries.rows<{ job_id: string }>(SQL.end_waiting, [
      jobIds.map((id) => ownUuid('job', id)),
    ]);
    if (ended.length === jobIds.length) return;
    const found = new Set(ended.map(({ job_id }) => idOf('job', job_id)));
    const missing = jobIds.find((id) => !found.has(id));
    assert(false, `job ${missing} is unknown or has an outcome already`);
  }

  /** From now on, jobs that a front accepted count as accepted by this process: they were examined. */
  async function keepArrivals(queries: Queries, jobIds: readonly string[]): Promise<void> {
    await queries.rows(SQL.keep_arrivals, [jobIds.map((id) => ownUuid('job', id))]);
  }

  /**
   * Throws BrokenInvariant if the document of a job is still to be fetched. A source that a front added to a job without need is removed.
   */
  async function assertFetched(queries: Queries, jobIds: readonly string[]): Promise<void> {
    const ids = jobIds.map((id) => ownUuid('job', id));
    const sources = await queries.rows<JobRow & { is_received: boolean }>(SQL.end_sources, [ids]);
    for (const { id, is_received, record } of sources) {
      const jobId = idOf('job', id);
      assert(
        is_received || isReceived(parseJob(jobId, record)),
        `the document of job ${jobId} was not received`,
      );
    }
  }

  const store: JobStore = {
    async accept(job, acceptance = {}) {
      const newJob = { job, acceptance };
      assertAcceptable(newJob);
      current ??= acceptTogether();
      const { newJobs, refused } = current;
      newJobs.push(newJob);
      if (newJobs.length >= ACCEPTED_MAX) current = undefined;
      const refusal = (await refused).get(newJob);
      if (refusal !== undefined) throw refusal;
      options.onAccepted();
    },

    async receive(jobId, content, copy) {
      assertCopied(jobId, content, copy);
      const id = ownUuid('job', jobId);
      await writes.run(async (queries) => {
        const [waiting] = await queries.rows<{ mac: Buffer | null }>(SQL.lock_waiting, [id]);
        assert(waiting, `job ${jobId} is unknown or has an outcome already`);
        const [ended] = await queries.rows<SourceRow>(SQL.end_source, [id]);
        assert(ended, `job ${jobId} has its content already`);
        let mac: Buffer | null = null;
        if (keys !== undefined) {
          const accepted = acceptedOf(jobId, ended);
          const fault = keys.faultOf(accepted, waiting.mac);
          assert(fault === undefined, `job ${jobId}: ${fault}`);
          mac = keys.macOf({ job: { ...accepted.job, content } });
        }
        await together([
          queries.rows(SQL.set_mac, [id, mac]),
          queries.rows(SQL.receive, [id, encodeContent(content)]),
          copy && queries.rows(INSERT_COPIES, [[id], [encodeRecord(copy)]]),
        ]);
      });
    },

    async fail(jobId, failure) {
      const id = ownUuid('job', jobId);
      const told = await writes.run(async (queries) => {
        await endWaiting(queries, [jobId]);
        const [job] = await queries.rows<{ client_id: string }>(SQL.fail, [id, encodeRecord(failure)]);
        assert(job?.client_id, `job ${jobId} waits but is not in the store`);
        await queries.rows(SQL.end_source, [id]);
        return options.outbox.tell(queries, 'job.failed', failure.failedAt, [
          { id: jobId, clientId: job.client_id },
        ]);
      });
      options.outbox.wake(told);
      options.onEnded();
    },

    async get(jobId) {
      const id = uuidOf('job', jobId);
      if (id === undefined) return undefined;
      const [row] = await database.rows<JobRow>(SQL.get_job, [id]);
      return row && parseJobRow(row);
    },

    list: async (query) => findJobs(database, query),

    async *all() {
      for await (const row of database.pages<JobRow>(SQL.all_jobs, ({ id }) => id, LEAST_UUID))
        yield parseJobRow(row);
    },

    async waiting(limit, after) {
      const from = after === undefined ? LEAST_UUID : ownUuid('job', after);
      const rows = await database.rows<JobRow>(SQL.waiting_jobs, [from, limit]);
      // Another process can make a job wait again that has ended. It is sealed once.
      const open = rows.filter(({ leaf_index, failure }) => leaf_index === null && failure === null);
      return open.map((row) => parseJobRow(row).job);
    },

    async waitingCount() {
      const [row] = await database.rows<{ count: number }>(SQL.waiting_count);
      return row?.count ?? 0;
    },

    async sourceUrl(jobId) {
      const id = uuidOf('job', jobId);
      if (id === undefined) return undefined;
      const [row] = await database.rows<SourceRow & { mac: Buffer | null }>(SQL.get_source, [id]);
      if (row === undefined) return undefined;
      if (keys === undefined) return sourceOf(jobId, row);
      const accepted = acceptedOf(jobId, row);
      const fault = keys.faultOf(accepted, row.mac);
      if (fault !== undefined) throw new AlteredJob(jobId, fault);
      return accepted.sourceUrl;
    },

    idempotency: async (key) => options.idempotency.get(database, key),

    async sweepIdempotency(before, limit) {
      return writes.run((queries) => options.idempotency.sweep(queries, before, limit));
    },

    quotaCounts: async () => quotaCounts(database),
    sweepQuotas: async (epochMs, limit) => writes.run((queries) => sweepQuotas(queries, epochMs, limit)),

    async *references() {
      for (const [kind, table] of BESIDE) {
        const rows = database.pages<JobOf>(jobsOf(table, 'job_id'), (row) => row.job_id, LEAST_UUID);
        for await (const { job_id } of rows) yield { kind, jobId: idOf('job', job_id) };
      }
      const entries = database.pages<JobOf>(jobsOf('idempotency', 'key'), (row) => row.key, Buffer.alloc(0));
      for await (const { job_id } of entries) yield { kind: 'idempotency', jobId: idOf('job', job_id) };
    },
  };
  return { ...store, admit, endWaiting, keepArrivals, assertFetched };
}

/** Rolls back the transaction of a batch; {@link LogStore.commit} returns the conflicts. */
export class Conflicting extends Error {
  readonly conflicts: JobConflicts;

  constructor(conflicts: JobConflicts) {
    super('jobs of the batch conflict with those of other nodes');
    this.conflicts = conflicts;
  }
}

/** A source with the record of its job. */
interface SourceRow {
  source: Buffer;
  record: Buffer;
}

function sourceOf(jobId: string, { source }: SourceRow): string {
  return parseRecord<string>(source, `the source of ${jobId}`);
}

/** The job as it waits for its document. */
function acceptedOf(jobId: string, row: SourceRow) {
  return { job: parseJob(jobId, row.record), sourceUrl: sourceOf(jobId, row) };
}

/** A row that is about a job. */
interface JobOf {
  job_id: string;
  key: Buffer;
}

/** The jobs of a table's rows, in the order of its key. */
function jobsOf(table: string, key: string): Query {
  return {
    name: `jobs_of_${table}`,
    text: `SELECT * FROM ${table} WHERE ${key} > $1 ORDER BY ${key} LIMIT $2`,
  };
}

function entryOf({ acceptance: { idempotency } }: NewJob): IdempotencyEntry[] {
  return idempotency === undefined ? [] : [idempotency];
}
