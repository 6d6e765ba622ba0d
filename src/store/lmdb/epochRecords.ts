import { assert } from '../../base/assert.ts';
import type { Epoch, Epochs } from '../../log/epochs.ts';
import type { Act } from '../../manifest/auditRecord.ts';
import type { Write } from './commits.ts';
import type { Databases } from './databases.ts';
import { counterKey, parseCounterKey } from './keyLayout.ts';
import { encodeRecord, parseRecord } from './records.ts';
import type { TrailRecords } from './trailRecords.ts';

type Entry = NonNullable<Write['unless']>[number];

/** The epochs of the log. Each change is a record of its own, and all are kept: what was planned and what was cancelled. */
export class EpochRecords {
  readonly #database: Databases['epochs'];
  readonly #trail: TrailRecords;
  #newest: Epochs | undefined;

  constructor({ epochs }: Databases, trail: TrailRecords) {
    this.#database = epochs;
    this.#trail = trail;
  }

  /** As of the newest change, by whatever process. Costs next to nothing where nothing changed. */
  newest(): Epochs {
    for (const key of this.#database.getKeys({ reverse: true, limit: 1 })) {
      const revision = parseCounterKey(key);
      if (this.#newest?.revision === revision) return this.#newest;
      const bytes = this.#database.getBinary(key);
      assert(bytes, `revision ${revision} of the epochs is gone`);
      this.#newest = { revision, list: parseRecord<Epoch[]>(bytes, 'the list of epochs') };
      return this.#newest;
    }
    assert(false, 'the store has no epochs');
  }

  /** False, and nothing written, when somebody else changed them since `revision`. */
  change(list: readonly Epoch[], revision: number, act: Act | null): Promise<boolean> {
    const { database, key } = this.after(revision);
    return this.#trail.write(act, {
      unless: [{ database, key }],
      changes: [{ database, key, value: encodeRecord(list) }],
    });
  }

  /** What is there once they were changed after that revision. */
  after(revision: number): Entry {
    return { database: this.#database, key: counterKey(revision + 1) };
  }
}
