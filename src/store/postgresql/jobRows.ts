import { sha256 } from '../../base/crypto.ts';
import { documentSha256, isReceived, type Job, type JobRecord } from '../../job/job.ts';
import { idOf, ownUuid } from '../ids.ts';
import { encodeJob, parseContent, parseJob } from '../jobCodec.ts';
import { encodeRecord, parseRecord } from '../records.ts';
import type { NewJob } from '../store.ts';
import { type Queries, statements, together } from './database.ts';

/** A job with its outcome, as {@link JOB_COLUMNS} select it. */
export interface JobRow {
  id: string;
  record: Buffer;
  content: Buffer | null;
  leaf_index: number | null;
  failure: Buffer | null;
}

/** For use with `jobs AS j`. */
export const CONTENT = '(SELECT record FROM contents WHERE job_id = j.id) AS content';

/**
 * For use with `jobs AS j`. Data of other tables is looked up for each selected job: the plan of a join can read the other table from its
 * beginning, again with every page of a list.
 */
export const JOB_COLUMNS = `j.id, j.record, ${CONTENT},
  (SELECT leaf_index FROM leaves WHERE job_id = j.id) AS leaf_index,
  (SELECT record FROM failures WHERE job_id = j.id) AS failure`;

export function parseJobRow({ id, record, content, leaf_index, failure }: JobRow): JobRecord {
  const jobId = idOf('job', id);
  const parsed = parseJob(jobId, record);
  const job = content === null || isReceived(parsed) ? parsed : { ...parsed, content: parseContent(content) };
  if (leaf_index !== null) return { job, outcome: { kind: 'sealed', leafIndex: leaf_index } };
  if (failure === null) return { job };
  return { job, outcome: { kind: 'failed', failure: parseRecord(failure, `the failure of ${jobId}`) } };
}

const SQL = statements({
  insert_jobs: `INSERT INTO jobs (id, client_id, organization, visibility, document_sha256, reference_sha256, record)
    SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::bytea[], $7::bytea[])`,
  insert_waiting: 'INSERT INTO waiting (job_id, mac) SELECT * FROM unnest($1::uuid[], $2::bytea[])',
  insert_sources: 'INSERT INTO sources (job_id, record) SELECT * FROM unnest($1::uuid[], $2::bytea[])',
  insert_arrivals: 'INSERT INTO arrivals (job_id, mac) SELECT * FROM unnest($1::uuid[], $2::bytea[])',
  insert_copies: 'INSERT INTO copies (job_id, record) SELECT * FROM unnest($1::uuid[], $2::bytea[])',
  /** In the order of the key, as in all processes: so two that count the same quotas never wait for each other in a circle. */
  count_quotas: `INSERT INTO quotas (client_id, name, starts_at, ends_at, jobs)
    SELECT client_id, name, starts_at, ends_at, count(*)
    FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) AS counted (client_id, name, starts_at, ends_at)
    GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
    ON CONFLICT (client_id, name, starts_at, ends_at) DO UPDATE SET jobs = quotas.jobs + excluded.jobs`,
});
export const INSERT_COPIES = SQL.insert_copies;

/** Adds jobs with their sources, copies and counts. Their idempotency entries are in `idempotencyTable.ts`; the jobs do not wait yet. */
export async function insertJobs(queries: Queries, newJobs: readonly NewJob[]): Promise<void> {
  if (newJobs.length === 0) return;
  const jobs = newJobs.map(({ job }) => job);
  const inserted = queries.rows(SQL.insert_jobs, [
    jobs.map(({ id }) => ownUuid('job', id)),
    jobs.map(({ clientId }) => clientId),
    jobs.map(({ organization }) => organization),
    jobs.map(({ visibility }) => visibility),
    jobs.map((job) => Buffer.from(documentSha256(job), 'hex')),
    jobs.map(({ customerReference }) => referenceSha256(customerReference) ?? null),
    jobs.map((job: Job) => encodeJob(job)),
  ]);
  await together([
    inserted,
    insertBeside(queries, SQL.insert_sources, newJobs, ({ sourceUrl }) => sourceUrl),
    insertBeside(queries, INSERT_COPIES, newJobs, ({ copy }) => copy),
    countQuotas(queries, jobs),
  ]);
}

async function countQuotas(queries: Queries, jobs: readonly Job[]): Promise<void> {
  const counted = jobs.flatMap(({ clientId, quota }) => (quota ? [{ clientId, ...quota }] : []));
  if (counted.length === 0) return;
  await queries.rows(SQL.count_quotas, [
    counted.map(({ clientId }) => clientId),
    counted.map(({ name }) => name),
    counted.map(({ startsAt }) => startsAt),
    counted.map(({ endsAt }) => endsAt),
  ]);
}

/** A job, and the MAC of the node that accepts it. */
interface WithMac {
  id: string;
  mac: Buffer | null;
}

export async function insertWaiting(queries: Queries, jobs: readonly WithMac[]): Promise<void> {
  await queries.rows(SQL.insert_waiting, columnsOf(jobs));
}

/** The same for jobs that a front accepted: the daemon that seals examines them. */
export async function insertArrivals(queries: Queries, jobs: readonly WithMac[]): Promise<void> {
  await queries.rows(SQL.insert_arrivals, columnsOf(jobs));
}

function columnsOf(jobs: readonly WithMac[]): unknown[] {
  return [jobs.map(({ id }) => ownUuid('job', id)), jobs.map(({ mac }) => mac)];
}

async function insertBeside(
  queries: Queries,
  query: { name: string; text: string },
  newJobs: readonly NewJob[],
  of: (acceptance: NewJob['acceptance']) => unknown,
): Promise<void> {
  const kept = newJobs.filter(({ acceptance }) => of(acceptance) !== undefined);
  if (kept.length === 0) return;
  await queries.rows(query, [
    kept.map(({ job }) => ownUuid('job', job.id)),
    kept.map(({ acceptance }) => encodeRecord(of(acceptance))),
  ]);
}

/** The value by which a customer reference is found. JSON keeps every string distinct from every other. */
export function referenceSha256(reference: string | undefined): Buffer | undefined {
  return reference === undefined ? undefined : Buffer.from(sha256(Buffer.from(JSON.stringify(reference))));
}
