import type { QuotaWindow } from '../../../job/job.ts';
import type { IdempotencyEntry, QuotaCount } from '../../store.ts';
import type { Databases } from '../databases.ts';
import { IDEMPOTENCY_RETENTION_MS } from '../idempotencyEntries.ts';
import {
  EXPIRY_KEY_BYTES,
  endOfWindow,
  expiryKey,
  jobKeyAt,
  NOTHING,
  parseExpiryKey,
  QUOTA_KEY_BYTES,
  quotaKey,
} from '../keyLayout.ts';
import { encodeCount, QUOTA_RETENTION_MS } from '../quotaCounts.ts';
import { isReleased } from '../records.ts';
import { eachKey, type Facts, type Flaw, inHex, judge, keyPages, readable } from './flaw.ts';

/** Every idempotency entry has its time, by which it is swept. */
export function* checkExpiry({ databases }: Facts): Iterable<Flaw[]> {
  const { expiry: database, idempotency } = databases;
  const at = (key: Uint8Array) => ({ index: 'expiry', database, key, entry: inHex(key) }) as const;
  const isRight = (key: Uint8Array) => {
    if (key.length !== EXPIRY_KEY_BYTES) return false;
    const { acceptedAtMs, idempotency: entryKey } = parseExpiryKey(key);
    const entry = readable<IdempotencyEntry>(idempotency, entryKey);
    if (entry === undefined) return false;
    // A key that was used again after its time has two, until the first is swept.
    return entry.acceptedAt === acceptedAtMs || entry.acceptedAt - acceptedAtMs >= IDEMPOTENCY_RETENTION_MS;
  };
  yield* eachKey(database, (key) => (isRight(key) ? [] : judge(at(key), undefined)));
  yield* eachKey(idempotency, (entryKey) => {
    const entry = readable<IdempotencyEntry>(idempotency, entryKey);
    return entry === undefined ? [] : judge(at(expiryKey(entry.acceptedAt, entryKey)), NOTHING);
  });
}

/** A job that is older than this was written when its id says so; milliseconds. */
const SETTLED_MS = 600_000;
/** A job that was counted minutes ago can be released while we count: then we count again. */
const COUNTS_MAX = 3;

/** Each window's count is that of its jobs, but for those whose create was taken back. Windows that are long over go with the sweep. */
export function* checkQuotas(facts: Facts): Iterable<Flaw[]> {
  for (let counts = 1; ; counts++) {
    const counting = new Counting(facts);
    // What is old is counted page by page, what is new together with the judgement.
    const settled = jobKeyAt(facts.now - SETTLED_MS);
    for (const keys of keyPages(facts.databases.jobs)) {
      counting.add(keys.filter((key) => Buffer.compare(key, settled) < 0));
      yield [];
    }
    counting.add(facts.databases.jobs.getKeys({ start: settled }));
    const flaws = [...counting.flaws()];
    if (flaws.length > 0 && counts < COUNTS_MAX) continue;
    yield flaws;
    return;
  }
}

class Counting {
  readonly #facts: Facts;
  readonly #database: Databases['quotas'];
  readonly #counts = new Map<string, QuotaCount>();

  constructor(facts: Facts) {
    this.#facts = facts;
    this.#database = facts.databases.quotas;
  }

  add(jobs: Iterable<Uint8Array>): void {
    for (const key of jobs) {
      const job = this.#facts.job(key);
      if (job?.quota === undefined || this.#isOver(job.quota.endsAt)) continue;
      const outcome = this.#facts.databases.outcomes.getBinary(key);
      this.#count(job.clientId, job.quota, outcome !== undefined && isReleased(outcome) ? 0 : 1);
    }
  }

  *flaws(): Iterable<Flaw> {
    for (const key of this.#database.getKeys({})) {
      if (!this.#isKnown(key)) yield* judge(this.#at(key), undefined);
    }
    for (const [name, count] of this.#counts) {
      yield* judge(this.#at(Buffer.from(name, 'hex')), encodeCount(count));
    }
  }

  #count(clientId: string, window: QuotaWindow, jobs: number): void {
    const name = inHex(quotaKey(clientId, window));
    const known = this.#counts.get(name);
    if (known) known.jobs += jobs;
    else this.#counts.set(name, { clientId, ...window, jobs });
  }

  #isKnown(key: Uint8Array): boolean {
    if (key.length !== QUOTA_KEY_BYTES) return false;
    if (this.#counts.has(inHex(key))) return true;
    return this.#isOver(endOfWindow(key)) && readable(this.#database, key) !== undefined;
  }

  #isOver(endsAt: number): boolean {
    return endsAt < this.#facts.now - QUOTA_RETENTION_MS;
  }

  #at(key: Uint8Array) {
    return { index: 'quotas', database: this.#database, key: Buffer.from(key), entry: inHex(key) } as const;
  }
}
