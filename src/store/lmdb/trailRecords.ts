import { assert } from '../../base/assert.ts';
import type { ReceivedJob } from '../../job/job.ts';
import type { Act } from '../../manifest/auditRecord.ts';
import { isRefusable } from '../acts.ts';
import { parseTrailEntry, recordAfter, type TrailRecordOptions } from '../auditJob.ts';
import type { TrailEntry, TrailStore } from '../trail.ts';
import type { Change, Commits, Write } from './commits.ts';
import type { Databases } from './databases.ts';
import { counterKey, parseCounterKey } from './keyLayout.ts';

interface TrailRecordsOptions extends TrailRecordOptions {
  /** The changes that make a job wait to be sealed. */
  accept(job: ReceivedJob): Change[];
}

export type TrailRecords = ReturnType<typeof trailRecords>;

/** The audit trail in the embedded store. The number of the next record makes writes of all processes take turns. */
export function trailRecords(databases: Databases, commits: Commits, options: TrailRecordsOptions) {
  /**
   * Writes an act and its record, or neither: false if the condition of the write forbade it. `null`: an act without an actor. Throws
   * StoreError `disk_full` for a write that {@link isRefusable}, if the daemon itself would wait for space.
   */
  async function write(act: Act | null, write: Write): Promise<boolean> {
    if (act === null) return commits.write(write);
    return (await decide(() => ({ act, write }))) !== undefined;
  }

  /**
   * Writes the result of `decide`, and the record of the act. `decide` is called again after every act of any process that came between its
   * decision and the write. Resolves with the number of the record; undefined if there was no decision, or if the condition of the write
   * forbade it.
   */
  async function decide(decide: () => { act: Act; write: Write } | undefined): Promise<number | undefined> {
    const { trail } = databases;
    for (;;) {
      const newest = await entry(await newestNumber());
      const number = (newest?.number ?? 0) + 1;
      const decided = decide();
      if (decided === undefined) return undefined;
      const { act, write } = decided;
      const { changes, unless = [] } = write;
      const taken = { database: trail, key: counterKey(number) };
      const happened = await commits.write({
        unless: [...unless, taken],
        changes: [...changes, ...changesFor(act, newest)],
        isRefusable: isRefusable(act),
      });
      if (happened) return number;
      // If another record took the number, try again with the next; otherwise the write's own condition forbade it.
      if ((await newestNumber()) < number) return undefined;
    }
  }

  async function entry(number: number): Promise<TrailEntry | undefined> {
    return (await entries(number - 1, 1)).find((entry) => entry.number === number);
  }

  async function entries(after: number, limit: number): Promise<TrailEntry[]> {
    refresh();
    const start = counterKey(Math.max(after, 0) + 1);
    return Array.from(databases.trail.getRange({ start, limit }), ({ key, value }) =>
      parseTrailEntry(parseCounterKey(key), value),
    );
  }

  async function newestNumber(): Promise<number> {
    refresh();
    for (const key of databases.trail.getKeys({ reverse: true, limit: 1 })) return parseCounterKey(key);
    return 0;
  }

  function changesFor(act: Act, newest: TrailEntry | undefined): Change[] {
    const { number, record, job } = recordAfter(newest, act, options);
    return [{ database: databases.trail, key: counterKey(number), value: record }, ...options.accept(job)];
  }

  /** Other processes write here too. */
  function refresh(): void {
    databases.root.resetReadTxn();
  }

  const store: TrailStore = {
    async append(act) {
      const number = await decide(() => ({ act, write: { changes: [] } }));
      assert(number !== undefined, 'a record without a condition is always written');
      return number;
    },

    entry,
    entries,
    newest: newestNumber,
  };
  return { ...store, write, decide, admit: () => commits.admit() };
}
