import type { NewJob, QuotaCount } from '../store.ts';
import { StoreError } from '../storeError.ts';
import { type Queries, statements } from './database.ts';

const INTERNAL = statements(
  {
    quotas: 'SELECT client_id, name, starts_at, ends_at, jobs FROM quotas',
  },
  { isInternal: true },
);
const SQL = statements({
  /** Locks the counts, in the order that all processes use, and begins missing ones. */
  lock_quotas: `INSERT INTO quotas (client_id, name, starts_at, ends_at, jobs)
    SELECT DISTINCT client_id, name, starts_at, ends_at, 0
    FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) AS counted (client_id, name, starts_at, ends_at)
    ORDER BY 1, 2, 3, 4
    ON CONFLICT (client_id, name, starts_at, ends_at) DO UPDATE SET jobs = quotas.jobs
    RETURNING client_id, name, starts_at, ends_at, jobs`,
  sweep_quotas: `DELETE FROM quotas WHERE (client_id, name, starts_at, ends_at) IN (
      SELECT client_id, name, starts_at, ends_at FROM quotas WHERE ends_at < $1 ORDER BY ends_at LIMIT $2
      FOR UPDATE SKIP LOCKED)
    RETURNING jobs`,
  put_quota: `INSERT INTO quotas VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (client_id, name, starts_at, ends_at) DO UPDATE SET jobs = excluded.jobs`,
});

interface Row {
  client_id: string;
  name: string;
  starts_at: number;
  ends_at: number;
  jobs: number;
}

/** The jobs among these that would exceed their quota, counted over all nodes. Until the transaction ends no other process counts. */
export async function overQuota(
  queries: Queries,
  newJobs: readonly NewJob[],
): Promise<Map<NewJob, StoreError>> {
  const limited = newJobs.flatMap((newJob) => {
    const { job, acceptance } = newJob;
    const { quotaJobsMax: max } = acceptance;
    return job.quota && max !== undefined ? [{ newJob, max, clientId: job.clientId, quota: job.quota }] : [];
  });
  const over = new Map<NewJob, StoreError>();
  if (limited.length === 0) return over;
  const rows = await queries.rows<Row>(SQL.lock_quotas, [
    limited.map(({ clientId }) => clientId),
    limited.map(({ quota }) => quota.name),
    limited.map(({ quota }) => quota.startsAt),
    limited.map(({ quota }) => quota.endsAt),
  ]);
  const counts = new Map(
    rows.map((row) => [nameOf(row.client_id, row.name, row.starts_at, row.ends_at), row.jobs]),
  );
  for (const { newJob, max, clientId, quota } of limited) {
    const name = nameOf(clientId, quota.name, quota.startsAt, quota.endsAt);
    const jobs = counts.get(name) ?? 0;
    if (jobs >= max) over.set(newJob, new StoreError({ code: 'quota_used_up', quota }));
    else counts.set(name, jobs + 1);
  }
  return over;
}

export async function quotaCounts(queries: Queries): Promise<QuotaCount[]> {
  const rows = await queries.rows<Row>(INTERNAL.quotas);
  return rows.map(({ client_id, name, starts_at, ends_at, jobs }) => ({
    clientId: client_id,
    name,
    startsAt: starts_at,
    endsAt: ends_at,
    jobs,
  }));
}

/** Replaces the count of its window. */
export async function putQuota(queries: Queries, count: QuotaCount): Promise<void> {
  const { clientId, name, startsAt, endsAt, jobs } = count;
  await queries.rows(SQL.put_quota, [clientId, name, startsAt, endsAt, jobs]);
}

export async function sweepQuotas(queries: Queries, epochMs: number, limit: number): Promise<number> {
  return (await queries.rows(SQL.sweep_quotas, [epochMs, limit])).length;
}

function nameOf(...columns: unknown[]): string {
  return JSON.stringify(columns);
}
