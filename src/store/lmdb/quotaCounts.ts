import { toHex } from '../../base/bytes.ts';
import type { QuotaWindow } from '../../job/job.ts';
import type { QuotaCount } from '../store.ts';
import type { Change } from './commits.ts';
import type { Database, Databases } from './databases.ts';
import { quotaKey, timeKey } from './keyLayout.ts';
import { encodeRecord, parseRecord } from './records.ts';

/** How long counts of windows that are over are kept: longer than a clock that is wrong is set back. */
export const QUOTA_RETENTION_MS = 48 * 3_600_000;

export function encodeCount({ clientId, name, startsAt, endsAt, jobs }: QuotaCount): Buffer {
  return encodeRecord({ clientId, name, startsAt, endsAt, jobs });
}

/** Counts of jobs by quota and window, each written together with the job that is counted. */
export class QuotaCounts {
  readonly #database: Database;
  /** What the counts will be when all writes on their way are on disk. */
  readonly #coming = new Map<string, number>();

  constructor({ quotas }: Databases) {
    this.#database = quotas;
  }

  /** What counts one job more, or one less. To be handed to the disk at once: writes go there in the order of their counts. */
  change(clientId: string, window: QuotaWindow, by: 1 | -1): Change {
    const key = quotaKey(clientId, window);
    const name = toHex(key);
    const jobs = Math.max(0, (this.#coming.get(name) ?? this.#stored(key)) + by);
    this.#coming.set(name, jobs);
    return { database: this.#database, key, value: encodeCount({ clientId, ...window, jobs }) };
  }

  all(): QuotaCount[] {
    return Array.from(this.#database.getRange({}), ({ value }) => parseRecord<QuotaCount>(value, 'a quota'));
  }

  /** What removes the counts of windows that ended before `epochMs`, the oldest `limit` of them at most. */
  ended(epochMs: number, limit: number): Change[] {
    return Array.from(this.#database.getKeys({ end: timeKey(epochMs), limit }), (key) => {
      this.#coming.delete(toHex(key));
      return { database: this.#database, key };
    });
  }

  #stored(key: Uint8Array): number {
    const bytes = this.#database.getBinary(key);
    return bytes === undefined ? 0 : parseRecord<QuotaCount>(bytes, 'a quota').jobs;
  }
}
