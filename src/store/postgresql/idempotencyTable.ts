import { sha256 } from '../../base/crypto.ts';
import { ownUuid } from '../ids.ts';
import { encodeRecord, parseRecord } from '../records.ts';
import type { ServiceTime } from '../serviceTime.ts';
import { IDEMPOTENCY_RETENTION_MS, type IdempotencyEntry, type IdempotencyKey } from '../store.ts';
import { type Database, type Queries, statements } from './database.ts';

const INTERNAL = statements(
  {
    /** Internal: everything reported about the job that holds the key is read after it. */
    get_idempotency: 'SELECT record FROM idempotency WHERE key = $1',
  },
  { isInternal: true },
);
const SQL = statements({
  idempotency_holders: `SELECT i.key, i.record, f.job_id IS NOT NULL AS has_failed
    FROM idempotency i LEFT JOIN failures f USING (job_id) WHERE i.key = ANY ($1::bytea[]) ORDER BY i.key FOR UPDATE OF i`,
  /** Replaces only an entry that was seen to be free: its job is named. */
  take_idempotency: `INSERT INTO idempotency (key, job_id, accepted_at, record)
    SELECT * FROM unnest($1::bytea[], $2::uuid[], $3::bigint[], $4::bytea[]) AS taken ORDER BY 1
    ON CONFLICT (key) DO UPDATE SET job_id = excluded.job_id, accepted_at = excluded.accepted_at, record = excluded.record
      WHERE idempotency.job_id = ANY ($5::uuid[])
    RETURNING key`,
  sweep_idempotency: `DELETE FROM idempotency WHERE key IN (
      SELECT key FROM idempotency WHERE accepted_at < $1 ORDER BY accepted_at LIMIT $2 FOR UPDATE SKIP LOCKED)
    RETURNING key`,
});

/** The code with which the server itself requests a repeat (serialization_failure). */
const REPEAT = '40001';

/** Idempotency entries by key. A later job replaces an entry once the job of the entry failed or its time is over. */
export class IdempotencyTable {
  readonly #serviceTime: ServiceTime | undefined;

  /** Without service time, an entry is valid until it is swept: the sealing daemon sweeps. */
  constructor(serviceTime: ServiceTime | undefined) {
    this.#serviceTime = serviceTime;
  }

  async get(database: Database, key: IdempotencyKey): Promise<IdempotencyEntry | undefined> {
    const [row] = await database.rows<{ record: Buffer }>(INTERNAL.get_idempotency, [idempotencyBytes(key)]);
    const entry = row && parse(row.record);
    return entry && this.#isLive(entry) ? entry : undefined;
  }

  /** The rows that hold the keys of these entries, locked. */
  async holders(queries: Queries, entries: readonly IdempotencyEntry[]): Promise<KeyHolder[]> {
    return entries.length === 0
      ? []
      : queries.rows<KeyHolder>(SQL.idempotency_holders, [entries.map(idempotencyBytes)]);
  }

  /** Refuses those entries whose key is held by a job that did not fail, or by an earlier one of them. */
  taken(entries: readonly IdempotencyEntry[], rows: readonly KeyHolder[]): Taking {
    const taking: Taking = { refused: new Set(), replaced: [] };
    const holders = new Map(rows.map((row) => [row.key.toString('hex'), row]));
    const claimed = new Set<string>();
    for (const entry of entries) {
      const key = idempotencyBytes(entry).toString('hex');
      const row = holders.get(key);
      const holder = row && parse(row.record);
      if (claimed.has(key) || (holder && !row.has_failed && this.#isLive(holder))) taking.refused.add(entry);
      else if (holder) taking.replaced.push(holder.jobId);
      claimed.add(key);
    }
    return taking;
  }

  /** Writes entries whose keys are free; `replaced` as {@link taken} returned it. */
  async take(
    queries: Queries,
    entries: readonly IdempotencyEntry[],
    replaced: readonly string[],
  ): Promise<void> {
    if (entries.length === 0) return;
    const written = await queries.rows(SQL.take_idempotency, [
      entries.map(idempotencyBytes),
      entries.map(({ jobId }) => ownUuid('job', jobId)),
      entries.map(({ acceptedAt }) => acceptedAt),
      entries.map((entry) => encodeRecord(entry)),
      replaced.map((jobId) => ownUuid('job', jobId)),
    ]);
    // Another node took one of them after they were looked up: the transaction is repeated, and finds it.
    if (written.length !== entries.length)
      throw Object.assign(new Error('a key was taken'), { code: REPEAT });
  }

  async sweep(queries: Queries, before: number, limit: number): Promise<number> {
    return (await queries.rows(SQL.sweep_idempotency, [before, limit])).length;
  }

  #isLive({ acceptedAt }: IdempotencyEntry): boolean {
    return (this.#serviceTime?.since(acceptedAt) ?? 0) < IDEMPOTENCY_RETENTION_MS;
  }
}

export interface KeyHolder {
  key: Buffer;
  record: Buffer;
  has_failed: boolean;
}

interface Taking {
  refused: Set<IdempotencyEntry>;
  /** Jobs whose entries will be replaced. */
  replaced: string[];
}

export function idempotencyBytes({ clientId, operation, key }: IdempotencyKey): Buffer {
  return Buffer.from(sha256(Buffer.from(JSON.stringify([clientId, operation, key]))));
}

function parse(record: Buffer): IdempotencyEntry {
  return parseRecord<IdempotencyEntry>(record, 'an idempotency entry');
}
