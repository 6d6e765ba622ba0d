import { assert } from '../../base/assert.ts';
import type { Clock } from '../../base/clock.ts';
import type { ReceivedJob } from '../../job/job.ts';
import { type Act, encodeAuditRecord } from '../../manifest/auditRecord.ts';
import { auditJob, encodeTrailEntry, parseTrailEntry } from '../auditJob.ts';
import type { TrailEntry, TrailStore } from '../trail.ts';
import type { Change, Commits, Write } from './commits.ts';
import type { Databases } from './databases.ts';
import { counterKey, parseCounterKey } from './keyLayout.ts';

export interface AuditOptions {
  environment: string;
  clock: Clock;
  /** The changes that make a job wait to be sealed. */
  accept(job: ReceivedJob): Change[];
}

/** The audit trail in the embedded store. The number of the next record makes writes of all processes take turns. */
export class TrailRecords implements TrailStore {
  readonly #databases: Databases;
  readonly #commits: Commits;
  readonly #options: AuditOptions;

  constructor(databases: Databases, commits: Commits, options: AuditOptions) {
    this.#databases = databases;
    this.#commits = commits;
    this.#options = options;
  }

  async append(act: Act): Promise<number> {
    const number = await this.decide(() => ({ act, write: { changes: [] } }));
    assert(number !== undefined, 'a record without a condition is always written');
    return number;
  }

  /** Writes an act and its record, or neither: false when the condition of the write forbade it. `null`: it is nobody's act. */
  async write(act: Act | null, write: Write): Promise<boolean> {
    if (act === null) return this.#commits.write(write);
    return (await this.decide(() => ({ act, write }))) !== undefined;
  }

  /**
   * Writes what `decide` returns, and the record of the act. `decide` is called again after every act of any process that came between
   * its decision and the write. Resolves with the number of the record; undefined when there was no decision, or when the condition of
   * the write forbade it.
   */
  async decide(decide: () => { act: Act; write: Write } | undefined): Promise<number | undefined> {
    const { trail } = this.#databases;
    for (;;) {
      const { number, previous } = await this.#place();
      const decided = decide();
      if (decided === undefined) return undefined;
      const { changes, unless = [] } = decided.write;
      const taken = { database: trail, key: counterKey(number) };
      const happened = await this.#commits.write({
        unless: [...unless, taken],
        changes: [...changes, ...this.#changes(decided.act, number, previous)],
      });
      if (happened) return number;
      // If another record took the number, try again with the next; otherwise the write's own condition forbade it.
      if ((await this.newest()) < number) return undefined;
    }
  }

  async entry(number: number): Promise<TrailEntry | undefined> {
    return (await this.entries(number - 1, 1)).find((entry) => entry.number === number);
  }

  async entries(after: number, limit: number): Promise<TrailEntry[]> {
    this.#refresh();
    const start = counterKey(Math.max(after, 0) + 1);
    return Array.from(this.#databases.trail.getRange({ start, limit }), ({ key, value }) =>
      parseTrailEntry(parseCounterKey(key), value),
    );
  }

  async newest(): Promise<number> {
    this.#refresh();
    for (const key of this.#databases.trail.getKeys({ reverse: true, limit: 1 })) return parseCounterKey(key);
    return 0;
  }

  async #place(): Promise<{ number: number; previous: string | undefined }> {
    const newest = await this.newest();
    const previous = newest === 0 ? undefined : await this.entry(newest);
    return { number: newest + 1, previous: previous?.text };
  }

  #changes(act: Act, number: number, previous: string | undefined): Change[] {
    const { environment, clock, accept } = this.#options;
    const atMs = clock();
    const text = encodeAuditRecord(act, { number, previous, atMs, environment });
    const job = auditJob(number, text, atMs);
    const value = encodeTrailEntry({ jobId: job.id, text });
    return [{ database: this.#databases.trail, key: counterKey(number), value }, ...accept(job)];
  }

  /** Other processes write here too. */
  #refresh(): void {
    this.#databases.root.resetReadTxn();
  }
}
