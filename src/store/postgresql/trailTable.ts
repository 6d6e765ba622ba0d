import type { ReceivedJob } from '../../job/job.ts';
import type { Act } from '../../manifest/auditRecord.ts';
import { isRefusable } from '../acts.ts';
import { parseTrailEntry, recordAfter, type TrailRecordOptions } from '../auditJob.ts';
import type { TrailEntry, TrailStore } from '../trail.ts';
import { type Database, type Queries, statements, together } from './database.ts';
import { lockRevision } from './revisions.ts';
import type { Writes } from './writes.ts';

interface TrailRow {
  number: number;
  record: Buffer;
}

const SQL = statements({
  newest_trail_entry: 'SELECT number, record FROM trail ORDER BY number DESC LIMIT 1',
  trail_entries: 'SELECT number, record FROM trail WHERE number > $1 ORDER BY number LIMIT $2',
  add_trail_entry: 'INSERT INTO trail VALUES ($1, $2)',
});

interface TrailTableOptions extends TrailRecordOptions {
  /** Makes a job wait to be sealed. */
  accept(queries: Queries, job: ReceivedJob): Promise<void>;
}

export type TrailTable = ReturnType<typeof trailTable>;

export function trailTable(database: Database, writes: Writes, options: TrailTableOptions) {
  /**
   * Runs the work that writes an act, alone. Throws StoreError `disk_full` for an act that {@link isRefusable}, if the daemon itself would wait for
   * space.
   */
  function acting<T>(
    act: Act | null,
    work: (queries: Queries) => Promise<T>,
    isRefused = isRefusable(act),
  ): Promise<T> {
    return writes.run(work, { isAlone: true, isRefusable: isRefused });
  }

  /**
   * Records an act in the transaction of its change, which {@link acting} began; `null` is an act without an actor. Until that transaction
   * ends, no other process records any: so this comes last, after everything that can wait for others.
   */
  async function record(queries: Queries, act: Act | null): Promise<void> {
    if (act !== null) await add(queries, act);
  }

  async function entries(after: number, limit: number): Promise<TrailEntry[]> {
    return (await database.rows<TrailRow>(SQL.trail_entries, [after, limit])).map(entryOf);
  }

  async function add(queries: Queries, act: Act): Promise<number> {
    const [, newest] = await together([lockRevision(queries, 'trail'), newestEntry(queries)]);
    const { number, record, job } = recordAfter(newest, act, options);
    await together([queries.rows(SQL.add_trail_entry, [number, record]), options.accept(queries, job)]);
    return number;
  }

  const store: TrailStore = {
    append: async (act) => acting(act, (queries) => add(queries, act)),
    entry: async (number) => (await entries(number - 1, 1)).find((entry) => entry.number === number),
    entries,

    newest: async () => (await newestEntry(database))?.number ?? 0,
  };
  return { ...store, acting, record };
}

async function newestEntry(queries: Queries): Promise<TrailEntry | undefined> {
  const [row] = await queries.rows<TrailRow>(SQL.newest_trail_entry);
  return row && entryOf(row);
}

function entryOf({ number, record }: TrailRow): TrailEntry {
  return parseTrailEntry(number, record);
}
