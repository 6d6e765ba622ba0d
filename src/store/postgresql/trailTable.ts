import type { Clock } from '../../base/clock.ts';
import type { ReceivedJob } from '../../job/job.ts';
import { type Act, encodeAuditRecord } from '../../manifest/auditRecord.ts';
import { auditJob, encodeTrailEntry, parseTrailEntry } from '../auditJob.ts';
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

interface TrailOptions {
  environment: string;
  clock: Clock;
  /** Makes a job wait to be sealed. */
  accept(queries: Queries, job: ReceivedJob): Promise<void>;
}

/** The audit trail in PostgreSQL. */
export class TrailTable implements TrailStore {
  readonly #database: Database;
  readonly #writes: Writes;
  readonly #options: TrailOptions;

  constructor(database: Database, writes: Writes, options: TrailOptions) {
    this.#database = database;
    this.#writes = writes;
    this.#options = options;
  }

  async append(act: Act): Promise<number> {
    return this.#writes.runAlone((queries) => this.#add(queries, act));
  }

  /**
   * Records an act in the transaction of what it changes, which is one that {@link Writes.runAlone} began; `null` is nobody's act. Until that
   * transaction ends, no other process records any: so this comes last, after everything that can wait for others.
   */
  async record(queries: Queries, act: Act | null): Promise<void> {
    if (act !== null) await this.#add(queries, act);
  }

  async entry(number: number): Promise<TrailEntry | undefined> {
    return (await this.entries(number - 1, 1)).find((entry) => entry.number === number);
  }

  async entries(after: number, limit: number): Promise<TrailEntry[]> {
    return (await this.#database.rows<TrailRow>(SQL.trail_entries, [after, limit])).map(entryOf);
  }

  async newest(): Promise<number> {
    return (await newestEntry(this.#database))?.number ?? 0;
  }

  async #add(queries: Queries, act: Act): Promise<number> {
    const { environment, clock, accept } = this.#options;
    const [, previous] = await together([lockRevision(queries, 'trail'), newestEntry(queries)]);
    const number = (previous?.number ?? 0) + 1;
    const atMs = clock();
    const text = encodeAuditRecord(act, { number, previous: previous?.text, atMs, environment });
    const job = auditJob(number, text, atMs);
    await together([
      queries.rows(SQL.add_trail_entry, [number, encodeTrailEntry({ jobId: job.id, text })]),
      accept(queries, job),
    ]);
    return number;
  }
}

async function newestEntry(queries: Queries): Promise<TrailEntry | undefined> {
  const [row] = await queries.rows<TrailRow>(SQL.newest_trail_entry);
  return row && entryOf(row);
}

function entryOf({ number, record }: TrailRow): TrailEntry {
  return parseTrailEntry(number, record);
}
