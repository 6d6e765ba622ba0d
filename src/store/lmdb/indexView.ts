import { bytesEqual } from '../../base/bytes.ts';
import type { Job, Outcome } from '../../job/job.ts';
import { parseJob, QUOTA_NAME } from '../jobCodec.ts';
import type { DatabaseName, Databases } from './databases.ts';
import { parseJobKey } from './keyLayout.ts';
import { parseOutcome } from './outcomeRecords.ts';

/** The expected value of a key in an index; undefined: no entry. */
export type Expected = [key: Uint8Array, value: Uint8Array | undefined];

/** The lists of jobs that have exactly the entries which the jobs require. */
export interface PostingCensus {
  scopes: boolean;
  lookups: boolean;
}

/** Number of keys examined in one go. */
const PAGE_KEYS = 500;

/**
 * The store as it is once the flaws found so far are mended, for a check that mends nothing. Only flaws that affect other expected entries
 * are remembered, so that memory does not grow with every lost entry.
 */
export class IndexView {
  readonly databases: Databases;
  readonly now: number;
  /** Taken once, for both lists. */
  census: PostingCensus | undefined;
  readonly #mended = {
    outcomes: new Map<string, Uint8Array | undefined>(),
    waiting: new Map<string, Uint8Array | undefined>(),
  };

  constructor(databases: Databases, now: number) {
    this.databases = databases;
    this.now = now;
  }

  get(name: DatabaseName, key: Uint8Array): Uint8Array | undefined {
    const mended = name === 'outcomes' || name === 'waiting' ? this.#mended[name] : undefined;
    if (mended !== undefined && mended.size > 0 && mended.has(inHex(key))) return mended.get(inHex(key));
    return this.databases[name].getBinary(key);
  }

  isAsExpected(name: DatabaseName, [key, value]: Expected): boolean {
    const actual = this.get(name, key);
    return actual === undefined || value === undefined ? actual === value : bytesEqual(actual, value);
  }

  mend(name: DatabaseName, [key, value]: Expected): void {
    if (name === 'outcomes' || name === 'waiting') this.#mended[name].set(inHex(key), value);
  }

  /** The keys of a database, page by page; keys written meanwhile behind the page are seen. */
  *pages(name: DatabaseName): Iterable<Buffer[]> {
    for (let last: Uint8Array | undefined; ; ) {
      const range = { ...(last && { start: last, exclusiveStart: true }), limit: PAGE_KEYS };
      const keys = Array.from(this.databases[name].getKeys(range), (key) => Buffer.from(key));
      yield keys;
      last = keys.at(-1);
      if (keys.length < PAGE_KEYS) return;
    }
  }

  /** The entries that each entry of a database requires elsewhere. */
  *each(name: DatabaseName, tell: (key: Buffer, value: Uint8Array) => Expected[]): Iterable<Expected[]> {
    for (const keys of this.pages(name)) {
      yield keys.flatMap((key) => {
        const value = this.get(name, key);
        return value === undefined ? [] : tell(key, value);
      });
    }
  }

  /** Like {@link each}, for entries that a key alone requires. */
  *eachKey(name: DatabaseName, tell: (key: Buffer) => Expected[]): Iterable<Expected[]> {
    for (const keys of this.pages(name)) yield keys.flatMap(tell);
  }

  /** The job as it was accepted. */
  job(key: Uint8Array): Job | undefined {
    const bytes = this.databases.jobs.getBinary(key);
    return bytes && parseJob(parseJobKey(key), bytes);
  }

  /** Like {@link job}, but does not parse the rest of a job that counts against no quota. */
  jobWithQuota(key: Uint8Array): Job | undefined {
    const bytes = this.databases.jobs.getBinary(key);
    return bytes?.includes(QUOTA_NAME) ? parseJob(parseJobKey(key), bytes) : undefined;
  }

  outcome(key: Uint8Array): Outcome | undefined {
    const bytes = this.get('outcomes', key);
    return bytes && parseOutcome(bytes);
  }
}

export function inHex(key: Uint8Array): string {
  return Buffer.from(key).toString('hex');
}
