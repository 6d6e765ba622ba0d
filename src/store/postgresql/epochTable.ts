import { assert } from '../../base/assert.ts';
import type { Epoch } from '../../log/epochs.ts';
import { encodeRecord, parseRecord } from '../records.ts';
import type { EpochStore } from '../store.ts';
import { type Database, statements } from './database.ts';
import type { TrailTable } from './trailTable.ts';

const SQL = statements({
  newest_epochs: `SELECT revision, record FROM revisions JOIN epochs USING (revision) WHERE name = 'epochs'`,
  raise_epochs: `UPDATE revisions SET revision = revision + 1 WHERE name = 'epochs' AND revision = $1 RETURNING revision`,
  insert_epochs: 'INSERT INTO epochs (revision, record) VALUES ($1, $2)',
});

/** The epochs of the log. Each change is a record of its own, and all are kept: planned epochs and cancelled ones. */
export function epochTable(database: Database, trail: TrailTable): EpochStore {
  let known: { record: Buffer; list: Epoch[] } | undefined;

  return {
    async newest() {
      const [row] = await database.rows<{ revision: number; record: Buffer }>(SQL.newest_epochs);
      assert(row, 'the store has no epochs');
      const { revision, record } = row;
      // Compared by its bytes: after a failover, a revision can be another one than before.
      if (known?.record.equals(record)) return { revision, list: known.list };
      const list = parseRecord<Epoch[]>(record, 'the list of epochs');
      known = { record, list };
      return { revision, list };
    },

    async change(list, revision, act) {
      return trail.acting(act, async (queries) => {
        const [raised] = await queries.rows<{ revision: number }>(SQL.raise_epochs, [revision]);
        if (raised === undefined) return false;
        await queries.rows(SQL.insert_epochs, [raised.revision, encodeRecord(list)]);
        await trail.record(queries, act);
        return true;
      });
    },
  };
}
