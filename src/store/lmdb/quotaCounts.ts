import { toHex } from '../../base/bytes.ts';
import type { QuotaWindow } from '../../job/job.ts';
import { encodeRecord, parseRecord } from '../records.ts';
import type { QuotaCount } from '../store.ts';
import type { Change } from './commits.ts';
import type { Databases } from './databases.ts';
import { quotaKey, timeKey } from './keyLayout.ts';

export function encodeCount({ clientId, name, startsAt, endsAt, jobs }: QuotaCount): Buffer {
  return encodeRecord({ clientId, name, startsAt, endsAt, jobs });
}

/** Counts of jobs by quota and window; each is written together with the job it counts. Only one process counts: a daemon that lost its fence writes none. */
export class QuotaCounts {
  readonly #databases: Databases;
  /** The counts once all writes under way are on disk. */
  readonly #coming = new Map<string, number>();

  constructor(databases: Databases) {
    this.#databases = databases;
  }

  /** The change that counts one more job. Write it at once: writes must reach the disk in the order of their counts. */
  count(clientId: string, window: QuotaWindow): Change {
    const key = quotaKey(clientId, window);
    const name = toHex(key);
    const jobs = (this.#coming.get(name) ?? this.#stored(key)) + 1;
    this.#coming.set(name, jobs);
    return { database: this.#databases.quotas, key, value: encodeCount({ clientId, ...window, jobs }) };
  }

  /** Reverts {@link count} after its write did not happen. The counts of writes under way may be too high; the next one is right again. */
  uncount(clientId: string, window: QuotaWindow): void {
    const name = toHex(quotaKey(clientId, window));
    const coming = this.#coming.get(name);
    if (coming !== undefined) this.#coming.set(name, coming - 1);
  }

  all(): QuotaCount[] {
    return Array.from(this.#databases.quotas.getRange({}), ({ value }) =>
      parseRecord<QuotaCount>(value, 'a quota'),
    );
  }

  /** The changes that remove counts of windows that ended before `epochMs`, at most the oldest `limit` of them. */
  ended(epochMs: number, limit: number): Change[] {
    return Array.from(this.#databases.quotas.getKeys({ end: timeKey(epochMs), limit }), (key) => {
      this.#coming.delete(toHex(key));
      return { database: this.#databases.quotas, key };
    });
  }

  #stored(key: Uint8Array): number {
    const bytes = this.#databases.quotas.getBinary(key);
    return bytes === undefined ? 0 : parseRecord<QuotaCount>(bytes, 'a quota').jobs;
  }
}
