import type { Failure } from '../../job/job.ts';
import { idOf, LEAST_UUID } from '../ids.ts';
import { type MendableFlaw, mendedMessage } from '../indexCheck.ts';
import type { OutboxEntry } from '../outboxEntry.ts';
import { readable } from '../records.ts';
import type { Batch } from '../store.ts';
import type { DeliveryFailure, WebhookEndpoint } from '../webhookStore.ts';
import { type Queries, statements } from './database.ts';
import { readRevision } from './revisions.ts';

export type TableFlaw = MendableFlaw<(queries: Queries) => Promise<unknown>>;

interface CheckedMessage {
  endpoint_id: string;
  at: number;
  message: string;
  record: Buffer;
  failure: Buffer | null;
  batch: Buffer | null;
}

interface CheckedTally {
  endpoint_id: string;
  is_there: boolean;
  is_right: boolean;
  failure: Buffer | null;
}

/** The two tables of messages, with the members that a repaired entry has in addition. */
const TABLES = [
  { table: 'outbox', afresh: {} },
  { table: 'dead_letters', afresh: { death: 'overdue' } },
] as const;

type MessageTable = (typeof TABLES)[number]['table'];

const PAGE_MESSAGES = 1000;

const SQL = statements({
  /** Includes removed endpoints: without a tally their messages would never be swept. */
  checked_tallies: `SELECT known.endpoint_id, t.endpoint_id IS NOT NULL AS is_there, t.failure,
      (t.pending, t.dead_letters) = (coalesce(o.n, 0), coalesce(d.n, 0)) AS is_right
    FROM (SELECT id AS endpoint_id FROM endpoints UNION SELECT endpoint_id FROM outbox
      UNION SELECT endpoint_id FROM dead_letters UNION SELECT endpoint_id FROM tallies) AS known
      LEFT JOIN tallies t USING (endpoint_id)
      LEFT JOIN (SELECT endpoint_id, count(*) AS n FROM outbox GROUP BY 1) AS o USING (endpoint_id)
      LEFT JOIN (SELECT endpoint_id, count(*) AS n FROM dead_letters GROUP BY 1) AS d USING (endpoint_id)`,
  mend_tally: `INSERT INTO tallies (endpoint_id, pending, dead_letters, failure)
    SELECT $1, (SELECT count(*) FROM outbox WHERE endpoint_id = $1), (SELECT count(*) FROM dead_letters WHERE endpoint_id = $1), $2
    ON CONFLICT (endpoint_id) DO UPDATE
      SET pending = excluded.pending, dead_letters = excluded.dead_letters, failure = excluded.failure`,
  checked_endpoints: 'SELECT record FROM endpoints',
  mend_endpoints_revision: `INSERT INTO revisions VALUES ('endpoints', $1)
    ON CONFLICT (name) DO UPDATE SET revision = greatest(revisions.revision, excluded.revision)`,
  checked_outbox: messagesOf('outbox'),
  checked_dead_letters: messagesOf('dead_letters'),
  mend_outbox: mendMessage('outbox'),
  mend_dead_letters: mendMessage('dead_letters'),
  remove_outbox: removeMessage('outbox', 'pending'),
  remove_dead_letters: removeMessage('dead_letters', 'dead_letters'),
});

function messagesOf(table: MessageTable): string {
  return `SELECT m.endpoint_id, m.at, m.message, m.record, f.record AS failure, b.record AS batch
    FROM ${table} m CROSS JOIN LATERAL (SELECT client_id FROM endpoints WHERE id = m.endpoint_id LIMIT 1) e
      LEFT JOIN LATERAL (SELECT id FROM jobs WHERE id = m.message AND client_id = e.client_id LIMIT 1) j ON true
      LEFT JOIN LATERAL (SELECT record FROM failures WHERE job_id = j.id LIMIT 1) f ON true
      LEFT JOIN LATERAL (SELECT leaf_index FROM leaves WHERE job_id = j.id LIMIT 1) l ON true
      LEFT JOIN LATERAL (SELECT record FROM batches WHERE tree_size > l.leaf_index ORDER BY tree_size LIMIT 1) b ON true
    WHERE (m.endpoint_id, m.at, m.message) > ($1, $2, $3)
    ORDER BY m.endpoint_id, m.at, m.message LIMIT ${PAGE_MESSAGES}`;
}

function mendMessage(table: MessageTable): string {
  return `UPDATE ${table} SET record = $4 WHERE endpoint_id = $1 AND at = $2 AND message = $3`;
}

function removeMessage(table: MessageTable, count: string): string {
  return `WITH removed AS (
      DELETE FROM ${table} WHERE endpoint_id = $1 AND at = $2 AND message = $3 RETURNING at
    ) UPDATE tallies SET ${count} = ${count} - (SELECT count(*) FROM removed) WHERE endpoint_id = $1`;
}

/**
 * Messages to clients are only about their own jobs, with the right outcome; and the counts of messages are right. Messages of removed
 * endpoints are left to the sweep.
 */
export async function* messageFlaws(queries: Queries): AsyncIterable<TableFlaw> {
  yield* revision(queries);
  for (const { table, afresh } of TABLES) yield* messages(queries, table, afresh);
  for (const tally of await queries.rows<CheckedTally>(SQL.checked_tallies)) {
    const isReadable = tally.failure === null || readable<DeliveryFailure>(tally.failure) !== undefined;
    if (tally.is_right && isReadable) continue;
    yield {
      index: 'tallies',
      kind: tally.is_there ? 'wrong' : 'missing',
      entry: idOf('we', tally.endpoint_id),
      mend: (queries) => queries.rows(SQL.mend_tally, [tally.endpoint_id, isReadable ? tally.failure : null]),
    };
  }
}

/** The revision of an endpoint must not be higher than the newest of the store. */
async function* revision(queries: Queries): AsyncIterable<TableFlaw> {
  const rows = await queries.rows<{ record: Buffer }>(SQL.checked_endpoints);
  const newest = Math.max(0, ...rows.map(({ record }) => readable<WebhookEndpoint>(record)?.revision ?? 0));
  if (newest <= (await readRevision(queries, 'endpoints'))) return;
  const mend = (queries: Queries) => queries.rows(SQL.mend_endpoints_revision, [newest]);
  yield { index: 'endpoint_revisions', kind: 'wrong', entry: `${newest}`, mend };
}

async function* messages(
  queries: Queries,
  table: MessageTable,
  afresh: Pick<OutboxEntry, 'death'>,
): AsyncIterable<TableFlaw> {
  for (let last: unknown[] = [LEAST_UUID, -1, LEAST_UUID]; ; ) {
    const rows = await queries.rows<CheckedMessage>(SQL[`checked_${table}`], last);
    for (const row of rows) {
      const entry = readable<OutboxEntry>(row.record);
      if (entry?.type === 'webhook.test') continue;
      const told = eventOf(row);
      const place = [row.endpoint_id, row.at, row.message];
      const about = { index: table, entry: idOf('msg', row.message) } as const;
      if (told === undefined) {
        const mend = (queries: Queries) => queries.rows(SQL[`remove_${table}`], place);
        yield { ...about, kind: 'superfluous', mend };
        continue;
      }
      const record = mendedMessage(entry, told, afresh);
      if (record !== undefined) {
        const mend = (queries: Queries) => queries.rows(SQL[`mend_${table}`], [...place, record]);
        yield { ...about, kind: 'wrong', mend };
      }
    }
    const end = rows.at(-1);
    if (end === undefined) return;
    last = [end.endpoint_id, end.at, end.message];
  }
}

/** The outcome of a message's job, as reported to its client; undefined for one that waits, or is another client's. */
function eventOf({ failure, batch }: CheckedMessage): Pick<OutboxEntry, 'type' | 'occurredAt'> | undefined {
  const failedAt = failure === null ? undefined : readable<Failure>(failure)?.failedAt;
  if (failedAt !== undefined) return { type: 'job.failed', occurredAt: failedAt };
  const sealedAt = batch === null ? undefined : readable<Batch>(batch)?.sealedAt;
  return sealedAt === undefined ? undefined : { type: 'job.completed', occurredAt: sealedAt };
}
