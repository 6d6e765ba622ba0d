import { bytesEqual } from '../../../base/bytes.ts';
import type { Job, Outcome } from '../../../job/job.ts';
import type { IndexFlaw } from '../../indexStore.ts';
import type { Change } from '../commits.ts';
import type { Database, Databases } from '../databases.ts';
import { parseJobKey } from '../keyLayout.ts';
import { parseJob, parseOutcome, parseRecord } from '../records.ts';

/** A flaw, and what mends it. */
export interface Flaw extends IndexFlaw {
  change: Change;
}

/**
 * Looks through one index and says page by page what is wrong with it. Between two pages others may write; all that is read for one page
 * is read at the same moment, and what belongs together is written together, so that a daemon at work is no flaw.
 */
export type IndexCheck = (facts: Facts) => Iterable<Flaw[]>;

/** What indexes follow from. */
export class Facts {
  readonly databases: Databases;
  readonly now: number;
  /** How jobs ended whose entry in `outcomes` says something else, by key: whoever only looks does not mend it. */
  readonly #outcomes = new Map<string, Outcome | undefined>();

  constructor(databases: Databases, now: number) {
    this.databases = databases;
    this.now = now;
  }

  /** As it was when it was accepted. */
  job(key: Uint8Array): Job | undefined {
    const bytes = this.databases.jobs.getBinary(key);
    return bytes && parseJob(key, bytes);
  }

  outcome(key: Uint8Array): Outcome | undefined {
    const name = parseJobKey(key);
    if (this.#outcomes.has(name)) return this.#outcomes.get(name);
    const bytes = this.databases.outcomes.getBinary(key);
    return bytes && parseOutcome(bytes);
  }

  /** Whether {@link correct} was told of that job. */
  isCorrected(key: Uint8Array): boolean {
    return this.#outcomes.has(parseJobKey(key));
  }

  correct(key: Uint8Array, outcome: Outcome | undefined): void {
    this.#outcomes.set(parseJobKey(key), outcome);
  }
}

/** The entry at that key beside what belongs there, or nothing. Says none or one flaw. */
export function judge(
  { index, database, key, entry }: Pick<Flaw, 'index' | 'entry'> & { database: Database; key: Uint8Array },
  expected: Uint8Array | undefined,
): Flaw[] {
  const actual = database.getBinary(key);
  if (expected === undefined)
    return actual === undefined ? [] : [{ index, kind: 'superfluous', entry, change: { database, key } }];
  if (actual !== undefined && bytesEqual(actual, expected)) return [];
  const kind = actual === undefined ? 'missing' : 'wrong';
  return [{ index, kind, entry, change: { database, key, value: expected } }];
}

/** Entries looked at in one go. */
const PAGE_KEYS = 500;

/** The keys of a database, page by page; what is written meanwhile behind the page is seen. */
export function* keyPages(database: Database): Iterable<Uint8Array[]> {
  for (let last: Uint8Array | undefined; ; ) {
    const after = last && { start: last, exclusiveStart: true };
    const keys = Array.from(database.getKeys({ ...after, limit: PAGE_KEYS }), (key) => Buffer.from(key));
    yield keys;
    last = keys.at(-1);
    if (keys.length < PAGE_KEYS) return;
  }
}

/** What is wrong with a database, each of whose keys says by itself what belongs there. */
export function* eachKey(database: Database, flawsOf: (key: Uint8Array) => Flaw[]): Iterable<Flaw[]> {
  for (const keys of keyPages(database)) yield keys.flatMap(flawsOf);
}

/** The record at that key; undefined where there is none, or none that can be read. */
export function readable<T>(database: Database, key: Uint8Array): T | undefined {
  const bytes = database.getBinary(key);
  if (bytes === undefined) return undefined;
  try {
    return parseRecord<T>(bytes);
  } catch {
    return undefined;
  }
}

export function inHex(key: Uint8Array): string {
  return Buffer.from(key).toString('hex');
}
