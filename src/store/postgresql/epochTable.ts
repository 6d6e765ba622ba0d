import { assert } from '../../base/assert.ts';
import type { Epoch, Epochs } from '../../log/epochs.ts';
import type { Act } from '../../manifest/auditRecord.ts';
import { encodeRecord, parseRecord } from '../records.ts';
import type { EpochStore } from '../store.ts';
import { type Database, type Queries, statements } from './database.ts';
import type { Writes } from './writes.ts';

const SQL = statements({
  newest_epochs: `SELECT revision, record FROM revisions JOIN epochs USING (revision) WHERE name = 'epochs'`,
  raise_epochs: `UPDATE revisions SET revision = revision + 1 WHERE name = 'epochs' AND revision = $1 RETURNING revision`,
  insert_epochs: 'INSERT INTO epochs (revision, record) VALUES ($1, $2)',
});

/** Records an act in the transaction of what it changes, as the last thing of it. */
interface Recording {
  record(queries: Queries, act: Act | null): Promise<void>;
}

/** The epochs of the log. Each change is a record of its own, and all are kept: what was planned and what was cancelled. */
export class EpochTable implements EpochStore {
  readonly #database: Database;
  readonly #writes: Writes;
  readonly #trail: Recording;
  #newest: { record: Buffer; list: Epoch[] } | undefined;

  constructor(database: Database, writes: Writes, trail: Recording) {
    this.#database = database;
    this.#writes = writes;
    this.#trail = trail;
  }

  async newest(): Promise<Epochs> {
    const [row] = await this.#database.rows<{ revision: number; record: Buffer }>(SQL.newest_epochs);
    assert(row, 'the store has no epochs');
    const { revision, record } = row;
    // By its bytes: after a failover, a revision can be another one than before.
    if (this.#newest?.record.equals(record)) return { revision, list: this.#newest.list };
    const list = parseRecord<Epoch[]>(record, 'the list of epochs');
    this.#newest = { record, list };
    return { revision, list };
  }

  async change(list: readonly Epoch[], revision: number, act: Act | null): Promise<boolean> {
    return this.#writes.runAlone(async (queries) => {
      const [raised] = await queries.rows<{ revision: number }>(SQL.raise_epochs, [revision]);
      if (raised === undefined) return false;
      await queries.rows(SQL.insert_epochs, [raised.revision, encodeRecord(list)]);
      await this.#trail.record(queries, act);
      return true;
    });
  }
}
