import { isReceived, type Job } from '../../job/job.ts';
import type { AcceptanceKeys } from '../acceptanceKeys.ts';
import type { AcceptanceStore } from '../acceptances.ts';
import { idOf, LEAST_UUID, ownUuid } from '../ids.ts';
import { parseRecord } from '../records.ts';
import { type Database, type Queries, statements } from './database.ts';
import { JOB_COLUMNS, type JobRow, parseJobRow } from './jobRows.ts';
import type { TrailTable } from './trailTable.ts';

const PAGE_JOBS = 500;

const SOURCE = '(SELECT record FROM sources WHERE job_id = j.id) AS source';

const unmarked = (table: string) => `SELECT ${JOB_COLUMNS}, ${SOURCE}
  FROM ${table} w CROSS JOIN LATERAL (SELECT id, record FROM jobs WHERE id = w.job_id LIMIT 1) j
  WHERE w.job_id > $1 AND w.mac IS NULL ORDER BY w.job_id LIMIT ${PAGE_JOBS}`;
const mark = (table: string) => `UPDATE ${table} AS w SET mac = marked.mac
  FROM unnest($1::uuid[], $2::bytea[]) AS marked (id, mac) WHERE w.job_id = marked.id`;

const SQL = statements({
  unmarked_waiting: unmarked('waiting'),
  unmarked_arrivals: unmarked('arrivals'),
  mark_waiting: mark('waiting'),
  mark_arrivals: mark('arrivals'),
  demand_macs: 'UPDATE sequencer SET acceptance_keys = $1',
  macs: `SELECT j.id, (SELECT mac FROM waiting WHERE job_id = j.id) AS mac, ${SOURCE} FROM unnest($1::uuid[]) AS j (id)`,
});

interface UnmarkedRow extends JobRow {
  source: Buffer | null;
}

interface FoundRow {
  id: string;
  mac: Buffer | null;
  source: Buffer | null;
}

/** The MACs of jobs that wait. */
export function acceptanceTable(
  database: Database,
  trail: TrailTable,
  keys: AcceptanceKeys,
): AcceptanceStore {
  async function markAll(queries: Queries, table: 'waiting' | 'arrivals'): Promise<number> {
    let jobs = 0;
    for (let last: string | undefined = LEAST_UUID; last !== undefined; ) {
      const rows: UnmarkedRow[] = await queries.rows(SQL[`unmarked_${table}`], [last]);
      const marked = rows.flatMap((row) => markOf(row, keys) ?? []);
      await queries.rows(SQL[`mark_${table}`], [marked.map(({ id }) => id), marked.map(({ mac }) => mac)]);
      jobs += marked.length;
      last = rows.at(-1)?.id;
    }
    return jobs;
  }

  return {
    names: keys.names,

    async takeOver(act) {
      return trail.acting(null, async (queries) => {
        const jobs = (await markAll(queries, 'waiting')) + (await markAll(queries, 'arrivals'));
        await queries.rows(SQL.demand_macs, [keys.names.join(' ')]);
        await trail.record(queries, act(jobs));
        return jobs;
      });
    },

    async faults(jobs) {
      const found = new Map<string, string>();
      const examined = jobs.filter(needsMac);
      for (let at = 0; at < examined.length; at += PAGE_JOBS) {
        const page = examined.slice(at, at + PAGE_JOBS);
        const rows = await database.rows<FoundRow>(SQL.macs, [page.map(({ id }) => ownUuid('job', id))]);
        const byId = new Map(rows.map((row) => [idOf('job', row.id), row]));
        for (const job of page) {
          const fault = faultOf(job, byId.get(job.id), keys);
          if (fault !== undefined) found.set(job.id, fault);
        }
      }
      return found;
    },
  };
}

/** Jobs of the audit trail follow from its records, and commands write them too. */
function needsMac({ source }: Job): boolean {
  return source !== 'audit';
}

function faultOf(
  job: Job,
  { mac, source }: Omit<FoundRow, 'id'> = { mac: null, source: null },
  keys: AcceptanceKeys,
): string | undefined {
  try {
    return keys.faultOf({ job, sourceUrl: sourceOf(job, source) }, mac);
  } catch (error) {
    return (error as Error).message;
  }
}

/** Throws DamagedRecord. */
function sourceOf(job: Job, source: Buffer | null): string | undefined {
  return isReceived(job) || source === null
    ? undefined
    : parseRecord<string>(source, `the source of ${job.id}`);
}

/** Undefined for a job that needs none, has ended, or cannot be read: the start finds it damaged. */
function markOf(row: UnmarkedRow, keys: AcceptanceKeys): { id: string; mac: Buffer } | undefined {
  if (row.leaf_index !== null || row.failure !== null) return undefined;
  try {
    const { job } = parseJobRow(row);
    const mac = needsMac(job) && keys.macOf({ job, sourceUrl: sourceOf(job, row.source) });
    return mac ? { id: row.id, mac } : undefined;
  } catch {
    return undefined;
  }
}
