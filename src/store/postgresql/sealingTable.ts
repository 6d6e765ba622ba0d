import type { ErrorCode } from '../../base/errors.ts';
import type { Outcome } from '../../job/job.ts';
import type { AcceptanceKeys } from '../acceptanceKeys.ts';
import type { SealingView } from '../arrivals.ts';
import { idOf, ownUuid } from '../ids.ts';
import { parseRecord } from '../records.ts';
import type { Batch } from '../store.ts';
import { type Database, statements } from './database.ts';
import { JOB_COLUMNS, type JobRow, parseJobRow } from './jobRows.ts';
import type { Notifier } from './notifier.ts';
import { IS_ACTIVE } from './sequencer.ts';

const INTERNAL = statements(
  {
    sealing_node: `SELECT holder, obstacle, scans, acceptance_keys, has_table_privilege('leaves', 'INSERT') AS is_privileged, (${IS_ACTIVE}) AS is_active,
    (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS date,
    (SELECT count(*) FROM waiting) + (SELECT count(*) FROM arrivals WHERE accepted_by = session_user::text) AS waiting
  FROM sequencer`,
  },
  { isInternal: true },
);
const SQL = statements({
  ended_jobs: `SELECT ${JOB_COLUMNS}, (SELECT b.record FROM batches b
      WHERE b.tree_size > (SELECT leaf_index FROM leaves WHERE job_id = j.id) ORDER BY b.tree_size LIMIT 1) AS batch
    FROM jobs j WHERE j.id = ANY ($1::uuid[])
    AND ((SELECT leaf_index FROM leaves WHERE job_id = j.id) IS NOT NULL
      OR (SELECT record FROM failures WHERE job_id = j.id) IS NOT NULL)`,
});

/** With the batch of a sealed job: waiting clients get its time. */
interface EndedRow extends JobRow {
  batch: Buffer | null;
}

interface NodeRow {
  holder: string;
  obstacle: ErrorCode | '';
  scans: boolean;
  acceptance_keys: string;
  is_active: boolean;
  is_privileged: boolean;
  date: number;
  waiting: number;
}

/** A front's view of sealing in PostgreSQL. `keys`: those of the front. */
export function sealingTable(
  database: Database,
  notifier: Notifier,
  keys: AcceptanceKeys | undefined,
): SealingView {
  const [own = ''] = keys?.names ?? [];

  return {
    async node() {
      const [row] = await database.rows<NodeRow>(INTERNAL.sealing_node);
      const demanded = row?.acceptance_keys ?? '';
      return {
        isActive: row?.is_active === true,
        scans: row?.scans === true,
        lacksAcceptanceKey: demanded !== '' && !demanded.split(' ').includes(own),
        holder: row?.holder ?? '',
        waiting: row?.waiting ?? 0,
        isPrivileged: row?.is_privileged === true,
        aheadMs: row === undefined ? 0 : Date.now() - row.date,
        ...(row?.obstacle && { obstacle: row.obstacle }),
      };
    },

    async outcomes(jobIds) {
      const ids = jobIds.map((jobId) => ownUuid('job', jobId));
      const rows = await database.rows<EndedRow>(SQL.ended_jobs, [ids]);
      return new Map(
        rows.flatMap((row): [string, Outcome][] => {
          const { outcome } = parseJobRow(row);
          if (outcome === undefined) return [];
          const sealedAt = row.batch && parseRecord<Batch>(row.batch).sealedAt;
          const told = outcome.kind === 'sealed' && sealedAt !== null ? { ...outcome, sealedAt } : outcome;
          return [[idOf('job', row.id), told]];
        }),
      );
    },

    onNotice(listener) {
      notifier.onNotice(listener);
    },
  };
}
