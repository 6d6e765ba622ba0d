import { faultOfAccepted, faultOfDate } from '../../job/acceptedJob.ts';
import type { Job } from '../../job/job.ts';
import type { AcceptanceKeys } from '../acceptanceKeys.ts';
import type { Arrival, ArrivalStore } from '../arrivals.ts';
import { idOf, ownUuid } from '../ids.ts';
import { parseRecord } from '../records.ts';
import { type Database, statements } from './database.ts';
import { JOB_COLUMNS, type JobRow, parseJobRow, referenceSha256 } from './jobRows.ts';
import type { Notifier } from './notifier.ts';
import type { Writes } from './writes.ts';

const INTERNAL = statements(
  {
    /**
     * Jobs read from here are reported to clients only after a commit of this daemon, which reaches every standby after them: so this read
     * waits for no other commit. At most this many of each login, in turn: one front does not hold up another. The logins are found without
     * reading all rows.
     */
    arrivals: `WITH RECURSIVE logins AS (
    (SELECT accepted_by FROM arrivals ORDER BY accepted_by LIMIT 1)
    UNION ALL
    SELECT (SELECT accepted_by FROM arrivals WHERE accepted_by > logins.accepted_by ORDER BY accepted_by LIMIT 1)
      FROM logins WHERE accepted_by IS NOT NULL)
  SELECT job_id FROM logins CROSS JOIN LATERAL (
    SELECT job_id, row_number() OVER (ORDER BY job_id) AS place FROM arrivals
      WHERE accepted_by = logins.accepted_by ORDER BY job_id LIMIT $1) AS of_login
  ORDER BY place, job_id`,
    arrived_jobs: `SELECT ${JOB_COLUMNS}, (SELECT record FROM sources WHERE job_id = j.id) AS source,
    EXISTS (SELECT FROM waiting WHERE job_id = j.id) AS is_own, j.reference_sha256,
    (SELECT floor(extract(epoch FROM arrived_at) * 1000)::float8 FROM arrivals WHERE job_id = j.id) AS arrived_at,
    (SELECT mac FROM arrivals WHERE job_id = j.id) AS mac
  FROM unnest($1::uuid[]) WITH ORDINALITY AS found (id, place) JOIN jobs j USING (id) ORDER BY place`,
  },
  { isInternal: true },
);
const SQL = statements({
  forget_arrivals: 'DELETE FROM arrivals WHERE job_id = ANY ($1::uuid[])',
  tell_state: 'UPDATE sequencer SET obstacle = $1, scans = $2, acceptance_keys = $3',
});

/** Jobs that are examined in one go. */
const PAGE_JOBS = 500;

interface ArrivedRow extends JobRow {
  source: Buffer | null;
  /** Whether a sealing daemon, or a command, accepted it: then it is not an arrival. */
  is_own: boolean;
  /** Key by which the job is found. */
  reference_sha256: Buffer | null;
  /**
   * Time of arrival by the clock of the database, milliseconds since the epoch. Null for a row of an earlier layout, and after a repair.
   */
  arrived_at: number | null;
  mac: Buffer | null;
}

interface ArrivalOptions {
  database: Database;
  writes: Writes;
  notifier: Notifier;
  /** If there are any, only a node with one of them can have accepted a job. */
  keys: AcceptanceKeys | undefined;
}

/** The jobs that fronts accepted. A front is believed for what a client asked and which digests a document has, and for nothing else. */
export function arrivalTable({ database, writes, notifier, keys }: ArrivalOptions): ArrivalStore {
  return {
    async look(isKnown, max) {
      const ids = await database.rows<{ job_id: string }>(INTERNAL.arrivals, [max]);
      const unknown = ids.map(({ job_id }) => idOf('job', job_id)).filter((jobId) => !isKnown(jobId));
      if (unknown.length === 0) return [];
      const rows = await database.rows<ArrivedRow>(INTERNAL.arrived_jobs, [
        unknown.slice(0, PAGE_JOBS).map((jobId) => ownUuid('job', jobId)),
      ]);
      const isOver = ({ is_own, leaf_index, failure }: ArrivedRow) =>
        is_own || leaf_index !== null || failure !== null;
      const over = rows.filter(isOver).map(({ id }) => id);
      if (over.length > 0) await writes.run((queries) => queries.rows(SQL.forget_arrivals, [over]));
      return rows.filter((row) => !isOver(row)).map((row) => examine(row, keys));
    },

    async tell({ obstacle, scans }) {
      await writes.run((queries) =>
        queries.rows(SQL.tell_state, [obstacle ?? '', scans, keys?.names.join(' ') ?? '']),
      );
    },

    onNotice(listener) {
      notifier.onNotice(listener);
    },
  };
}

function examine(row: ArrivedRow, keys: AcceptanceKeys | undefined): Arrival {
  const jobId = idOf('job', row.id);
  try {
    const { job } = parseJobRow(row);
    const isFetched = job.content === undefined && row.source !== null;
    const sourceUrl = isFetched ? parseRecord<string>(row.source ?? Buffer.of()) : undefined;
    const fault =
      keys?.faultOf({ job, sourceUrl }, row.mac) ??
      faultOfAccepted(job, sourceUrl) ??
      faultOfReference(job, row) ??
      (row.arrived_at === null ? undefined : faultOfDate(job, row.arrived_at));
    return fault === undefined ? { jobId, job } : { jobId, fault };
  } catch (error) {
    return { jobId, fault: (error as Error).message };
  }
}

function faultOfReference({ customerReference }: Job, { reference_sha256 }: ArrivedRow): string | undefined {
  const expected = referenceSha256(customerReference);
  const isFound =
    expected === undefined ? reference_sha256 === null : reference_sha256?.equals(expected) === true;
  return isFound ? undefined : 'customerReference: the job would not be found by it';
}
