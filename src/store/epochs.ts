import { assert } from '../base/assert.ts';
import type { Epoch, Epochs } from '../log/epochs.ts';
import type { Commits, Write } from './commits.ts';
import type { Databases } from './databases.ts';
import { counterKey, parseCounterKey } from './keys.ts';
import { encodeRecord, parseRecord } from './records.ts';

type Entry = NonNullable<Write['unless']>[number];

/** The epochs of the log. Each change is a record of its own, and all are kept: what was planned and what was cancelled. */
export class EpochRecords {
  readonly #database: Databases['epochs'];
  readonly #commits: Commits;
  #newest: Epochs | undefined;

  constructor({ epochs }: Databases, commits: Commits) {
    this.#database = epochs;
    this.#commits = commits;
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
  change(list: readonly Epoch[], revision: number): Promise<boolean> {
    const { database, key } = this.after(revision);
    return this.#commits.write({
      unless: [{ database, key }],
      changes: [{ database, key, value: encodeRecord(list) }],
    });
  }

  /** What is there once they were changed after that revision. */
  after(revision: number): Entry {
    return { database: this.#database, key: counterKey(revision + 1) };
  }
}
