import { assert } from '../../base/assert.ts';
import { sha256 } from '../../base/crypto.ts';
import { OperatorError } from '../../base/errors.ts';
import { counterKey, parseCounterKey, quotaKey } from '../lmdb/keyLayout.ts';
import { encodeCount } from '../lmdb/quotaCounts.ts';
import { portableTally } from '../outboxEntry.ts';
import { encodeRecord, parseRecord } from '../records.ts';
import type { Batch, QuotaCount, StoreIdentity } from '../store.ts';
import type { Section, StoreContents, StoreEntry } from '../storeContents.ts';
import type { EndpointTally } from '../webhookStore.ts';
import { Database, type Queries, statements } from './database.ts';
import { NEWEST_BATCH } from './logTable.ts';
import { type NoteName, putNote, readNote } from './notes.ts';
import { AWAY_MS_MAX, begin, clientOf, commitForSure, type Location } from './pgSession.ts';
import { putQuota, quotaCounts } from './quotaRows.ts';
import { raiseRevision, readRevision } from './revisions.ts';
import { type Obstacle, takeTurn } from './sequencer.ts';
import { addToTable, lastOfTable, readTable, TABLES } from './tableContents.ts';
import { type TallyRow, tallyOf } from './tallyTable.ts';
import { Writes } from './writes.ts';

const PAGE_ENTRIES = 2000;
/** Time limit of one statement: a large table is counted, or emptied. */
const STATEMENT_MS_MAX = 600_000;

const SQL = statements({
  all_notes: `SELECT name, record FROM notes WHERE name <> 'identity'`,
  any_arrival: 'SELECT job_id FROM arrivals LIMIT 1',
  all_tallies: 'SELECT * FROM tallies ORDER BY endpoint_id',
  put_tally: `INSERT INTO tallies (endpoint_id, delivered, failures, dropped, dropped_from, dropped_to, delivered_at, failure)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
    ON CONFLICT (endpoint_id) DO UPDATE SET delivered = excluded.delivered, failures = excluded.failures,
      dropped = excluded.dropped, dropped_from = excluded.dropped_from, dropped_to = excluded.dropped_to,
      delivered_at = excluded.delivered_at, failure = excluded.failure`,
  count_messages: `UPDATE tallies SET
      pending = (SELECT count(*) FROM outbox WHERE endpoint_id = tallies.endpoint_id),
      dead_letters = (SELECT count(*) FROM dead_letters WHERE endpoint_id = tallies.endpoint_id)`,
  set_epochs_revision: `UPDATE revisions SET revision = (SELECT max(revision) FROM epochs) WHERE name = 'epochs'`,
  set_head: 'UPDATE log_head SET tree_size = $1, checkpoint_sha256 = $2',
});

/** Every table except that of the fence: a daemon that takes over reads the mark. */
const WRITTEN = [
  ...Object.values(TABLES).map(({ table }) => table),
  ...['notes', 'revisions', 'quotas', 'tallies', 'log_head', 'arrivals'],
];
/** A process that opened the store before, and still waits to write, must not believe that it has written. */
const REFUSE_WRITES = [
  `CREATE FUNCTION refuse_write() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'the log has moved to another store'; END $$`,
  ...WRITTEN.map(
    (table) =>
      `CREATE TRIGGER refuse_write BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON ${table} EXECUTE FUNCTION refuse_write()`,
  ),
].join(';');

const REVISED = 'endpoints';

/** Raw access to a store in PostgreSQL. Takes the turn of the daemon whose store it may be. Throws OperatorError while one is active. */
export async function postgresqlContents(location: Location): Promise<StoreContents> {
  const busy = new AbortController();
  const onWait = (obstacle: Obstacle) => busy.abort(inUse(obstacle));
  const turn = await takeTurn(location, {
    onWait,
    signal: busy.signal,
    onLost: () => {}, // The next write reports it.
    awayMsMax: AWAY_MS_MAX,
  });
  const database = new Database(location, { awayMsMax: AWAY_MS_MAX, fence: turn.fence });
  const writes = new Writes(database, turn);
  const arrived = await database.rows(SQL.any_arrival);
  if (arrived.length > 0) {
    await close();
    throw new OperatorError('jobs that fronts accepted are not sealed yet', {
      remedy: 'stop the fronts, start the daemon that seals, and stop it when no job waits',
    });
  }

  async function close(): Promise<void> {
    await writes.close();
    await turn.close();
    await database.close();
  }

  /** Entries of a section that is small, and kept in another form. */
  async function entriesOf(section: Section): Promise<StoreEntry[]> {
    if (section === 'notes') {
      const notes = await database.rows<{ name: string; record: Buffer }>(SQL.all_notes);
      return notes.map(({ name, record }) => ({ key: Buffer.from(name), value: record }));
    }
    if (section === 'revision') {
      const revision = await readRevision(database, REVISED);
      return [{ key: Buffer.from(REVISED), value: counterKey(revision) }];
    }
    if (section === 'quotas') {
      const counts = await quotaCounts(database);
      return counts.map((count) => ({ key: quotaKey(count.clientId, count), value: encodeCount(count) }));
    }
    const rows = await database.rows<TallyRow & { endpoint_id: string }>(SQL.all_tallies);
    return rows.map((row) => ({
      key: Buffer.from(row.endpoint_id.replaceAll('-', ''), 'hex'),
      value: portableTally(tallyOf(row)),
    }));
  }

  return {
    async identity() {
      const bytes = await readNote(database, 'identity');
      assert(bytes, 'the store has no identity');
      return parseRecord<StoreIdentity>(bytes, 'the identity of the store');
    },

    async setIdentity(identity) {
      await writes.run((queries) => putNote(queries, 'identity', encodeRecord(identity)));
    },

    async count(section) {
      const table = TABLES[section];
      if (table === undefined) return 0;
      const text = `SELECT greatest(reltuples, 0)::bigint AS n FROM pg_class WHERE oid = '${table.table}'::regclass`;
      const [row] = await database.rows<{ n: number }>({ name: `count_${table.table}`, text });
      return row?.n ?? 0;
    },

    async *pages(section, after) {
      const table = TABLES[section];
      if (table === undefined) {
        yield (await entriesOf(section)).toSorted((a, b) => Buffer.compare(a.key, b.key));
        return;
      }
      for (let last = after; ; ) {
        const query = readTable(table, last === undefined, PAGE_ENTRIES);
        const entries = await database.rows<StoreEntry>(query, last && [last]);
        if (entries.length > 0) yield entries;
        last = entries.at(-1)?.key;
        if (last === undefined || entries.length < PAGE_ENTRIES) return;
      }
    },

    async last(section) {
      const table = TABLES[section];
      const [row] = table ? await database.rows<{ key: Buffer }>(lastOfTable(table)) : [];
      return row?.key;
    },

    async add(section, entries) {
      const table = TABLES[section];
      await writes.run(async (queries) => {
        if (table === undefined) for (const entry of entries) await addOne(queries, section, entry);
        else await queries.rows(...addToTable(table, entries));
      });
    },

    async finish() {
      await writes.run(async (queries) => {
        await queries.rows(SQL.set_epochs_revision);
        await queries.rows(SQL.count_messages);
        const [newest] = await queries.rows<{ record: Buffer }>(NEWEST_BATCH);
        if (newest === undefined) return;
        const { treeSize, checkpoint } = parseRecord<Batch>(newest.record);
        await queries.rows(SQL.set_head, [treeSize, Buffer.from(sha256(Buffer.from(checkpoint)))]);
      });
    },

    async clear(section) {
      if (section === 'revision') return;
      const name = TABLES[section]?.table ?? section;
      const text =
        section === 'notes' ? `DELETE FROM notes WHERE name <> 'identity'` : `TRUNCATE ${name} CASCADE`;
      await writes.run((queries) => queries.rows({ name: `clear_${name}`, text }));
    },

    /** Writers wait until the end; and in a store that the log has left, their writes fail then. */
    async freeze() {
      const client = await database.retrying(async (server) => {
        const client = clientOf(location, server, STATEMENT_MS_MAX);
        await client.connect();
        await begin(client, { statementMsMax: 0 });
        return client;
      });
      await client.query('BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0');
      await client.query(`LOCK TABLE ${WRITTEN.join(', ')} IN SHARE MODE`);
      return {
        leave: async (identity) => {
          const { rows } = await client.query<{ fence: string }>('SELECT fence FROM sequencer FOR SHARE');
          if (rows[0]?.fence !== turn.fence) return false;
          await client.query(`UPDATE notes SET record = $1 WHERE name = 'identity'`, [
            encodeRecord(identity),
          ]);
          await client.query(REFUSE_WRITES);
          await commitForSure(client);
          return true;
        },
        end: async () => {
          await client.end().catch(() => {});
        },
      };
    },

    close,
  };
}

async function addOne(queries: Queries, section: Section, { key, value }: StoreEntry): Promise<void> {
  if (section === 'notes') await putNote(queries, key.toString() as NoteName, value);
  else if (section === 'revision') await raiseRevision(queries, REVISED, parseCounterKey(value));
  else if (section === 'quotas') await putQuota(queries, parseRecord<QuotaCount>(value));
  else {
    const tally = parseRecord<EndpointTally>(value);
    const { delivered, failures, dropped, droppedFrom, droppedTo, deliveredAt, failure } = tally;
    const counts = [delivered, failures, dropped, droppedFrom, droppedTo, deliveredAt];
    await queries.rows(SQL.put_tally, [key.toString('hex'), ...counts, failure && encodeRecord(failure)]);
  }
}

function inUse(obstacle: Obstacle): OperatorError {
  return 'holder' in obstacle
    ? new OperatorError(`${obstacle.holder} has the store open`, { remedy: 'stop every daemon of this log' })
    : new OperatorError(`the database does not answer (${obstacle.unreachable})`, {
        remedy: 'check store.url',
      });
}
