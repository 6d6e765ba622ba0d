import { assert } from '../../base/assert.ts';
import type { Epoch, Epochs } from '../../log/epochs.ts';
import type { Act } from '../../manifest/auditRecord.ts';
import { encodeRecord, parseRecord } from '../records.ts';
import type { EpochStore } from '../store.ts';
import type { Write } from './commits.ts';
import type { Databases } from './databases.ts';
import { counterKey, parseCounterKey } from './keyLayout.ts';
import type { TrailRecords } from './trailRecords.ts';

/** The epochs of the log. Each change is a record of its own, and all are kept: what was planned and what was cancelled. */
export class EpochRecords implements EpochStore {
  readonly #databases: Databases;
  readonly #trail: TrailRecords;
  #newest: Epochs | undefined;

  constructor(databases: Databases, trail: TrailRecords) {
    this.#databases = databases;
    this.#trail = trail;
  }

  /** Costs next to nothing where nothing changed. */
  async newest(): Promise<Epochs> {
    const { epochs } = this.#databases;
    for (const key of epochs.getKeys({ reverse: true, limit: 1 })) {
      const revision = parseCounterKey(key);
      if (this.#newest?.revision === revision) return this.#newest;
      const bytes = epochs.getBinary(key);
      assert(bytes, `revision ${revision} of the epochs is gone`);
      this.#newest = { revision, list: parseRecord<Epoch[]>(bytes, 'the list of epochs') };
      return this.#newest;
    }
    assert(false, 'the store has no epochs');
  }

  async change(list: readonly Epoch[], revision: number, act: Act | null): Promise<boolean> {
    const next = this.after(revision);
    const changes = [{ ...next, value: encodeRecord(list) }];
    return this.#trail.write(act, { unless: [next], changes });
  }

  /** The entry that exists once the epochs were changed after that revision. */
  after(revision: number): NonNullable<Write['unless']>[number] {
    return { database: this.#databases.epochs, key: counterKey(revision + 1) };
  }
}
