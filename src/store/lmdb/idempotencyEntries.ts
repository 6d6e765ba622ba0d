import { toHex } from '../../base/bytes.ts';
import { encodeRecord, parseRecord } from '../records.ts';
import type { ServiceTime } from '../serviceTime.ts';
import { IDEMPOTENCY_RETENTION_MS, type IdempotencyEntry, type IdempotencyKey } from '../store.ts';
import type { Change } from './commits.ts';
import type { Databases } from './databases.ts';
import { expiryKey, idempotencyKey, NOTHING, parseExpiryKey, timeKey } from './keyLayout.ts';

/** Idempotency entries by key, and again by time, so that removing old entries needs no search. */
export class IdempotencyEntries {
  readonly #databases: Databases;
  readonly #serviceTime: ServiceTime;
  /** Keys of entries that are being written, which reads do not see yet. */
  readonly #claimed = new Set<string>();

  constructor(databases: Databases, serviceTime: ServiceTime) {
    this.#databases = databases;
    this.#serviceTime = serviceTime;
  }

  get(key: IdempotencyKey): IdempotencyEntry | undefined {
    const entry = this.#stored(idempotencyKey(key));
    return entry !== undefined && this.#isLive(entry) ? entry : undefined;
  }

  /** Whether another job has the key or is about to, unless that job failed. */
  isTaken(entry: IdempotencyEntry, hasFailed: (jobId: string) => boolean): boolean {
    const earlier = this.get(entry);
    return (
      this.#claimed.has(toHex(idempotencyKey(entry))) || (earlier !== undefined && !hasFailed(earlier.jobId))
    );
  }

  /** The changes that take a free key; call `written` once they are written. */
  take(entry: IdempotencyEntry): { changes: Change[]; written: () => void } {
    const key = idempotencyKey(entry);
    const claim = toHex(key);
    const earlier = this.get(entry);
    this.#claimed.add(claim);
    const { idempotency, expiry } = this.#databases;
    const changes: Change[] = [
      { database: idempotency, key, value: encodeRecord(entry) },
      { database: expiry, key: expiryKey(entry.acceptedAt, key), value: NOTHING },
    ];
    if (earlier !== undefined) changes.unshift({ database: expiry, key: expiryKey(earlier.acceptedAt, key) });
    return { changes, written: () => this.#claimed.delete(claim) };
  }

  /** The job of the entry at that key; undefined if the entry is gone. */
  jobOf(key: Uint8Array): string | undefined {
    return this.#stored(key)?.jobId;
  }

  /** The changes that remove entries accepted before that service time, at most the oldest `limit` of them. */
  *expired(before: number, limit: number): Iterable<Change[]> {
    const range = { end: timeKey(before), limit };
    for (const expired of this.#databases.expiry.getKeys(range)) {
      const { acceptedAtMs, idempotency: key } = parseExpiryKey(expired);
      const changes: Change[] = [{ database: this.#databases.expiry, key: expired }];
      // Another job can have taken the key meanwhile.
      const isOurs = this.#stored(key)?.acceptedAt === acceptedAtMs && !this.#claimed.has(toHex(key));
      if (isOurs) changes.push({ database: this.#databases.idempotency, key });
      yield changes;
    }
  }

  #isLive({ acceptedAt }: IdempotencyEntry): boolean {
    return this.#serviceTime.since(acceptedAt) < IDEMPOTENCY_RETENTION_MS;
  }

  #stored(key: Uint8Array): IdempotencyEntry | undefined {
    const bytes = this.#databases.idempotency.getBinary(key);
    return bytes === undefined ? undefined : parseRecord<IdempotencyEntry>(bytes);
  }
}
