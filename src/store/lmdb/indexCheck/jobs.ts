import { isReceived, type Job } from '../../../job/job.ts';
import type { IdempotencyEntry } from '../../store.ts';
import {
  EXPIRY_KEY_BYTES,
  expiryKey,
  JOB_KEY_BYTES,
  NOTHING,
  parseExpiryKey,
  parseJobKey,
} from '../keyLayout.ts';
import {
  generationsMax,
  inGeneration,
  LOOKUP_KEY_BYTES,
  lookupEntries,
  newestGeneration,
  Postings,
  parseLookup,
  SCOPE_KEY_BYTES,
  scopeEntries,
} from '../postings.ts';
import { eachKey, type Facts, type Flaw, judge, readable } from './flaw.ts';

/** Where a document comes from is kept as long as it may still be fetched. */
export function* checkSources(facts: Facts): Iterable<Flaw[]> {
  const { sources: database, contents } = facts.databases;
  yield* eachKey(database, (key) => {
    const job = facts.job(key);
    const isNeeded = job && !isReceived(job) && !contents.doesExist(key) && facts.outcome(key) === undefined;
    if (isNeeded) return [];
    return judge({ index: 'sources', database, key, entry: parseJobKey(key) }, undefined);
  });
}

/** A job waits exactly as long as it has no outcome, and knows the idempotency entry that goes with its failure. */
export function* checkWaiting(facts: Facts): Iterable<Flaw[]> {
  const { waiting: database, jobs, idempotency } = facts.databases;
  const told = new Set<string>();
  const flawsOf = (key: Uint8Array, expected: Uint8Array | undefined) => {
    const entry = parseJobKey(key);
    if (told.has(entry)) return [];
    const flaws = judge({ index: 'waiting', database, key, entry }, expected);
    if (flaws.length > 0) told.add(entry);
    return flaws;
  };
  const isUnfinished = (key: Uint8Array) => facts.outcome(key) === undefined && jobs.doesExist(key);
  const entryAt = (key: Uint8Array) => readable<IdempotencyEntry>(idempotency, key);
  yield* eachKey(database, (key) => (isUnfinished(key) ? [] : flawsOf(key, undefined)));
  yield* eachKey(idempotency, (entryKey) => {
    const entry = entryAt(entryKey);
    const key = entry && Buffer.from(entry.jobId.replace(/^job_/, ''), 'hex');
    if (!key || !isUnfinished(key)) return [];
    return flawsOf(key, expiryKey(entry.acceptedAt, entryKey));
  });
  yield* eachKey(jobs, (key) => {
    if (!isUnfinished(key)) return [];
    const releaseKey = database.getBinary(key);
    return flawsOf(
      key,
      releaseKey && isHarmless(releaseKey, parseJobKey(key), entryAt) ? releaseKey : NOTHING,
    );
  });
}

/** Whether failing the job would free no entry of another one. Its own may be swept already, and the key may have passed on. */
function isHarmless(
  releaseKey: Buffer,
  jobId: string,
  entryAt: (key: Uint8Array) => IdempotencyEntry | undefined,
): boolean {
  if (releaseKey.length === 0) return true;
  if (releaseKey.length !== EXPIRY_KEY_BYTES) return false;
  const { acceptedAtMs, idempotency } = parseExpiryKey(releaseKey);
  const entry = entryAt(idempotency);
  return entry === undefined || entry.jobId === jobId || entry.acceptedAt !== acceptedAtMs;
}

/** Every job is in the list of each circle that may see it. */
export function* checkScopes(facts: Facts): Iterable<Flaw[]> {
  const { scopes: database, jobs } = facts.databases;
  const at = (key: Uint8Array) => ({ index: 'scopes', database, key, entry: ownerOf(key) }) as const;
  yield* eachKey(database, (key) => {
    const job = key.length === SCOPE_KEY_BYTES ? facts.job(key.subarray(-JOB_KEY_BYTES)) : undefined;
    return isAmong(key, job && scopeEntries(job, key.subarray(-JOB_KEY_BYTES)))
      ? []
      : judge(at(key), undefined);
  });
  yield* eachKey(jobs, (key) =>
    entriesOf(facts, key, scopeEntries).flatMap((entry) => judge(at(entry), NOTHING)),
  );
}

/** Every job is found by its document and its reference, in whichever generation. */
export function* checkLookups(facts: Facts): Iterable<Flaw[]> {
  const { lookups: database, jobs } = facts.databases;
  const at = (key: Uint8Array) => ({ index: 'lookups', database, key, entry: ownerOf(key) }) as const;
  const isPossible = (key: Uint8Array) => {
    if (key.length !== LOOKUP_KEY_BYTES) return false;
    const { generation, lookup } = parseLookup(key);
    if (generation > generationsMax(jobs.getStats().entryCount ?? 0)) return false;
    const job = facts.job(key.subarray(-JOB_KEY_BYTES));
    return isAmong(lookup, job && lookupEntries(job, key.subarray(-JOB_KEY_BYTES)));
  };
  yield* eachKey(database, (key) => (isPossible(key) ? [] : judge(at(key), undefined)));
  // What has no place in the index is out of it by now, unless somebody only looks: then it matters not where he would put things.
  const postings = new Postings(facts.databases);
  let near = 0;
  const place = (lookup: Uint8Array) => {
    const newest = Math.min(newestGeneration(database), generationsMax(jobs.getStats().entryCount ?? 0));
    for (const generation of outwards(near, newest)) {
      const key = inGeneration(generation, lookup);
      if (!database.doesExist(key)) continue;
      near = generation; // Jobs come in the order of their ids, and so came their entries.
      return key;
    }
    return postings.place(lookup);
  };
  yield* eachKey(jobs, (key) =>
    entriesOf(facts, key, lookupEntries).flatMap((lookup) => judge(at(place(lookup)), NOTHING)),
  );
}

function entriesOf(
  facts: Facts,
  key: Uint8Array,
  entries: (job: Job, key: Uint8Array) => Buffer[],
): Buffer[] {
  const job = facts.job(key);
  return job === undefined ? [] : entries(job, key);
}

function isAmong(entry: Uint8Array, entries: Buffer[] = []): boolean {
  return entries.some((other) => other.equals(entry));
}

function ownerOf(entry: Uint8Array): string {
  return parseJobKey(entry.subarray(-JOB_KEY_BYTES));
}

/** The numbers from 0 to `last`, those near `start` first. */
function* outwards(start: number, last: number): Iterable<number> {
  for (let distance = 0; distance <= last; distance++) {
    if (start - distance >= 0 && start - distance <= last) yield start - distance;
    if (distance > 0 && start + distance <= last) yield start + distance;
  }
}
