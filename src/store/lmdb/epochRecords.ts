import { assert } from '../../base/assert.ts';
import type { Epoch, Epochs } from '../../log/epochs.ts';
import { encodeRecord, parseRecord } from '../records.ts';
import type { EpochStore } from '../store.ts';
import type { Write } from './commits.ts';
import type { Databases } from './databases.ts';
import { counterKey, parseCounterKey } from './keyLayout.ts';
import type { TrailRecords } from './trailRecords.ts';

export type EpochRecords = ReturnType<typeof epochRecords>;

/** The epochs of the log. Each change is a record of its own, and all are kept: planned epochs and cancelled ones. */
export function epochRecords(databases: Databases, trail: TrailRecords) {
  let known: Epochs | undefined;

  /** The entry that exists once the epochs were changed after that revision. */
  function after(revision: number): NonNullable<Write['unless']>[number] {
    return { database: databases.epochs, key: counterKey(revision + 1) };
  }

  const store: EpochStore = {
    /** Costs almost nothing if nothing changed. */
    async newest() {
      const { epochs } = databases;
      for (const key of epochs.getKeys({ reverse: true, limit: 1 })) {
        const revision = parseCounterKey(key);
        if (known?.revision === revision) return known;
        const bytes = epochs.getBinary(key);
        assert(bytes, `revision ${revision} of the epochs is gone`);
        known = { revision, list: parseRecord<Epoch[]>(bytes, 'the list of epochs') };
        return known;
      }
      assert(false, 'the store has no epochs');
    },

    async change(list, revision, act) {
      const next = after(revision);
      const changes = [{ ...next, value: encodeRecord(list) }];
      return trail.write(act, { unless: [next], changes });
    },
  };
  return { ...store, after };
}
