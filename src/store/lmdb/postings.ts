import { documentSha256, type Job } from '../../job/job.ts';
import { ID_SKEW_MS } from '../jobRules.ts';
import type { JobQuery, Viewer } from '../store.ts';
import type { Change } from './commits.ts';
import type { Databases, NamedDatabase } from './databases.ts';
import { idKey, JOB_KEY_BYTES, JOB_KEY_END, jobKeyAt, NOTHING, TERM_BYTES, termKey } from './keyLayout.ts';

/**
 * The indexes behind listing. A posting list is a range of keys that begin with one term and end with job keys, so it is sorted by time of
 * acceptance. Each term begins with a scope, one per circle of viewers: a reader of a list may see every job in it, and learns nothing
 * about other jobs from how long a search takes or where its pages end.
 *
 * `scopes` has one list per scope, written at its end. Each digest or reference would change a random page, so a large store would write a
 * page per job and term. Therefore `lookups` has generations: only the newest is written, and stays as small as in a new store; a search
 * reads all of them.
 */
const GENERATION_ENTRIES = 131_072;
const GENERATION_BYTES = 4;
/** Lookups by document and by reference, in three circles. */
const LOOKUPS_PER_JOB_MAX = 6;
export const SCOPE_KEY_BYTES = TERM_BYTES + JOB_KEY_BYTES;
export const LOOKUP_KEY_BYTES = GENERATION_BYTES + SCOPE_KEY_BYTES;

export class Postings {
  readonly #databases: Databases;
  #generation: number;
  #entries: number;

  constructor(databases: Databases) {
    const { lookups } = databases;
    this.#databases = databases;
    this.#generation = newestGeneration(lookups);
    this.#entries = lookups.getKeysCount({ start: generationKey(this.#generation) });
  }

  /** The entries under which a new job is found later. */
  changesFor(job: Job, key: Uint8Array): Change[] {
    return [
      ...scopeEntries(job, key).map((entry) => posting(this.#databases.scopes, entry)),
      ...lookupEntries(job, key).map((entry) => posting(this.#databases.lookups, this.place(entry))),
    ];
  }

  /** The key under which a new lookup is written. */
  place(lookup: Uint8Array): Buffer {
    return inGeneration(this.#currentGeneration(), lookup);
  }

  /** Keys of the jobs that match viewer, digest or reference, and times, newest first; other filters are not applied. */
  *find(query: JobQuery): Iterable<Uint8Array> {
    const [from, below] = keyBounds(query);
    const searches = this.#prefixes(query).map(({ database, prefix }) =>
      database
        .getKeys({
          start: Buffer.concat([prefix, below]),
          exclusiveStart: true,
          end: Buffer.concat([prefix, from]),
          inclusiveEnd: true,
          reverse: true,
        })
        [Symbol.iterator](),
    );
    yield* newestFirst(searches);
  }

  #prefixes(query: JobQuery): { database: NamedDatabase; prefix: Uint8Array }[] {
    const lookup = lookupIn(query);
    const scopes = scopesFor(query.viewer);
    if (lookup === undefined) {
      return scopes.map((scope) => ({ database: this.#databases.scopes, prefix: termKey(...scope) }));
    }
    const terms = scopes.map((scope) => termKey(...scope, ...lookup));
    const generations = Array.from({ length: newestGeneration(this.#databases.lookups) + 1 }, (_, n) =>
      generationKey(n),
    );
    return generations.flatMap((generation) =>
      terms.map((term) => ({ database: this.#databases.lookups, prefix: Buffer.concat([generation, term]) })),
    );
  }

  #currentGeneration(): number {
    if (this.#entries >= GENERATION_ENTRIES) {
      this.#generation += 1;
      this.#entries = 0;
    }
    this.#entries += 1;
    return this.#generation;
  }
}

/** Keys in `scopes` of a job. */
export function scopeEntries(job: Job, key: Uint8Array): Buffer[] {
  return scopesOf(job).map((scope) => Buffer.concat([termKey(...scope), key]));
}

/** Keys in `lookups` of a job, each without its leading generation. */
export function lookupEntries(job: Job, key: Uint8Array): Buffer[] {
  return scopesOf(job).flatMap((scope) =>
    lookupsOf(job).map((lookup) => Buffer.concat([termKey(...scope, ...lookup), key])),
  );
}

export function inGeneration(generation: number, lookup: Uint8Array): Buffer {
  return Buffer.concat([generationKey(generation), lookup]);
}

/** The generation of a key in `lookups`, and the lookup in it. */
export function parseLookup(key: Uint8Array): { generation: number; lookup: Uint8Array } {
  return { generation: Buffer.from(key).readUInt32BE(), lookup: key.subarray(GENERATION_BYTES) };
}

/** The maximum number of generations that this many jobs can have filled. */
export function generationsMax(jobs: number): number {
  return Math.ceil((jobs * LOOKUPS_PER_JOB_MAX) / GENERATION_ENTRIES) + 1;
}

type Term = [string, string];

/** The circles of viewers a job belongs to (decisions on visibility): each sees it by its own list. */
function scopesOf(job: Job): Term[] {
  const scopes: Term[] = [['client', job.clientId]];
  if (job.visibility !== 'private') scopes.push(['organization', job.organization]);
  if (job.visibility === 'partner') scopes.push(['partners', job.organization]);
  return scopes;
}

function scopesFor({ clientId, organization, partnerOf }: Viewer): Term[] {
  return [
    ['client', clientId],
    ['organization', organization],
    ...[...new Set(partnerOf)].map((partner): Term => ['partners', partner]),
  ];
}

function lookupsOf(job: Job): Term[] {
  const lookups: Term[] = [['document_sha256', documentSha256(job)]];
  if (job.customerReference !== undefined) lookups.push(['customer_reference', job.customerReference]);
  return lookups;
}

function lookupIn({ documentSha256, customerReference }: JobQuery): Term | undefined {
  if (documentSha256 !== undefined) return ['document_sha256', documentSha256];
  if (customerReference !== undefined) return ['customer_reference', customerReference];
  return undefined;
}

/** The smallest job key requested, and the one that all must be below. */
function keyBounds({ before, createdFrom = 0, createdTo }: JobQuery): [Buffer, Buffer] {
  const bounds: Buffer[] = [JOB_KEY_END];
  if (before !== undefined) bounds.push(idKey('job', before) ?? Buffer.alloc(0));
  if (createdTo !== undefined) bounds.push(jobKeyAt(createdTo + ID_SKEW_MS));
  const below = bounds.reduce((a, b) => (Buffer.compare(a, b) < 0 ? a : b));
  return [jobKeyAt(createdFrom - ID_SKEW_MS), below];
}

/** Merges searches, each newest first, without duplicates. A page reads hundreds of keys: only those that it returns become views. */
function* newestFirst(searches: Iterator<Uint8Array>[]): Iterable<Uint8Array> {
  const heads = searches.map((search) => ({ search, key: nextKey(search) }));
  try {
    for (;;) {
      let newest: Uint8Array | undefined;
      for (const { key } of heads) {
        if (key !== undefined && (newest === undefined || compareJobs(key, newest) > 0)) newest = key;
      }
      if (newest === undefined) return;
      yield newest.subarray(-JOB_KEY_BYTES);
      for (const head of heads) {
        if (head.key !== undefined && compareJobs(head.key, newest) === 0) head.key = nextKey(head.search);
      }
    }
  } finally {
    for (const { search } of heads) search.return?.();
  }
}

function nextKey(search: Iterator<Uint8Array>): Uint8Array | undefined {
  const { done, value } = search.next();
  return done ? undefined : value;
}

/** Negative, zero or positive: compares the jobs at the ends of two keys of one length. */
function compareJobs(one: Uint8Array, other: Uint8Array): number {
  for (let at = one.length - JOB_KEY_BYTES; at < one.length; at += 1) {
    const difference = (one[at] ?? 0) - (other[at] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

function posting(database: NamedDatabase, key: Uint8Array): Change {
  return { database, key, value: NOTHING };
}

function generationKey(generation: number): Buffer {
  const key = Buffer.alloc(GENERATION_BYTES);
  key.writeUInt32BE(generation);
  return key;
}

export function newestGeneration(lookups: NamedDatabase): number {
  for (const key of lookups.getKeys({ reverse: true })) {
    // A damaged key must not prevent the store from being opened and mended.
    if (key.length === LOOKUP_KEY_BYTES) return parseLookup(key).generation;
  }
  return 0;
}
