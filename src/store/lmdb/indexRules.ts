import { isReceived } from '../../job/job.ts';
import { HASH_BYTES, TILE_WIDTH, type Tile, tilePath, tileWidth } from '../../log/tiles.ts';
import { appendLeaves, emptyEdge, leafHash } from '../../log/tree.ts';
import { JobsInWindows, mendedMessage } from '../indexCheck.ts';
import type { IndexFlaw } from '../indexStore.ts';
import { emptyTally, type OutboxEntry } from '../outboxEntry.ts';
import { encodeRecord, readable } from '../records.ts';
import { IDEMPOTENCY_RETENTION_MS, type IdempotencyEntry } from '../store.ts';
import type { EndpointTally, WebhookEndpoint } from '../webhookStore.ts';
import type { DatabaseName, Databases } from './databases.ts';
import { REVISIONS_KEPT } from './endpointRecords.ts';
import { type Expected, type IndexView, inHex, type PostingCensus } from './indexView.ts';
import {
  COUNTER_BYTES,
  counterKey,
  DELIVERY_KEY_BYTES,
  ENDPOINT_KEY_BYTES,
  EXPIRY_KEY_BYTES,
  endOfWindow,
  expiryKey,
  JOB_KEY_BYTES,
  jobKeyAt,
  NOTHING,
  parseCounterKey,
  parseDeliveryKey,
  parseExpiryKey,
  parseJobKey,
  parseTileKey,
  QUOTA_KEY_BYTES,
  quotaKey,
  tileKey,
} from './keyLayout.ts';
import { batchOfLeaf, logSize, readLeaves } from './logRecords.ts';
import { encodeSealed, parseLeaf } from './outcomeRecords.ts';
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
} from './postings.ts';
import { encodeCount } from './quotaCounts.ts';
import { countEntries } from './tallies.ts';

/**
 * The rule by which one index follows from the rest of the store. It states, page by page, the expected values of keys. Between two pages
 * other processes may write; a page is made and compared at one moment, and related entries are written together, so a running daemon
 * causes no flaw.
 *
 * The rules use the functions that write the entries, but do not write a second store to compare with: half of the indexes depend on facts
 * that are not kept (deliveries made, keys used again, generations of lookups, source URLs), and the other half would need the store's disk
 * space again.
 */
export interface IndexRule {
  database: DatabaseName;
  /** The subject of the entry at that key. */
  entryOf(key: Uint8Array): string;
  tell(view: IndexView): Iterable<Expected[]>;
}

export const RULES: Record<IndexFlaw['index'], IndexRule> = {
  tiles: { database: 'tiles', entryOf: tileName, tell: tiles },
  outcomes: { database: 'outcomes', entryOf: parseJobKey, tell: outcomes },
  sources: { database: 'sources', entryOf: parseJobKey, tell: sources },
  waiting: { database: 'waiting', entryOf: parseJobKey, tell: waiting },
  scopes: { database: 'scopes', entryOf: jobNameAtEnd, tell: scopes },
  lookups: { database: 'lookups', entryOf: jobNameAtEnd, tell: lookups },
  expiry: { database: 'expiry', entryOf: inHex, tell: expiry },
  quotas: { database: 'quotas', entryOf: inHex, tell: quotas },
  endpoint_revisions: { database: 'endpointRevisions', entryOf: inHex, tell: revisions },
  outbox: { database: 'outbox', entryOf: messageName, tell: (view) => deliveries(view, 'outbox', {}) },
  // Repairing a damaged entry loses its number of attempts, and the reason why it was given up.
  dead_letters: {
    database: 'deadLetters',
    entryOf: messageName,
    tell: (view) => deliveries(view, 'deadLetters', { death: 'overdue' }),
  },
  tallies: { database: 'tallies', entryOf: (key) => `we_${inHex(key)}`, tell: tallies },
};

/** Leaves hashed in one go: some milliseconds. */
const PAGE_LEAVES = 4096;

/** The tiles of the tree that the leaves make (C2SP tlog-tiles), and no others. */
function* tiles(view: IndexView): Iterable<Expected[]> {
  const { databases } = view;
  yield* view.eachKey('tiles', (key) => {
    const tile = parseTileKey(key);
    return tile && tileWidth(tile.level, tile.index, logSize(databases)) > 0 ? [] : [[key, undefined]];
  });
  const expected = ({ level, index, hashes }: Tile): Expected => [tileKey(level, index), hashes];
  for (let edge = emptyEdge(); ; ) {
    const leaves = readLeaves(databases, edge.size, edge.size + PAGE_LEAVES);
    const hashes = leaves.map(({ data }) => leafHash(data));
    const grown = appendLeaves(edge, hashes);
    edge = grown.edge;
    const full = grown.tiles.filter((tile) => tile.hashes.length === TILE_WIDTH * HASH_BYTES);
    if (edge.size < logSize(databases)) {
      yield full.map(expected);
      continue;
    }
    const partial = edge.partial.flatMap((hashes, level) => {
      const index = Math.floor(edge.size / TILE_WIDTH ** (level + 1));
      return hashes.length === 0 ? [] : [{ level, index, hashes }];
    });
    yield [...full, ...partial].map(expected);
    return;
  }
}

/** The job of every leaf is sealed as that leaf, and no other job is sealed. Failures cannot be derived, and are left alone. */
function* outcomes(view: IndexView): Iterable<Expected[]> {
  const { leaves } = view.databases;
  yield* view.each('leaves', (key, leaf) => [
    [Buffer.from(leaf.subarray(0, JOB_KEY_BYTES)), encodeSealed(parseCounterKey(key))],
  ]);
  yield* view.each('outcomes', (key) => {
    const outcome = view.outcome(key);
    if (outcome?.kind !== 'sealed') return [];
    const leaf = Number.isSafeInteger(outcome.leafIndex) && leaves.getBinary(counterKey(outcome.leafIndex));
    return leaf && parseLeaf(leaf).jobId === parseJobKey(key) ? [] : [[key, undefined]];
  });
}

/** A source URL is kept while the document may still be fetched. */
function* sources(view: IndexView): Iterable<Expected[]> {
  yield* view.eachKey('sources', (key) => {
    const job = view.job(key);
    const hasContent = job === undefined || isReceived(job) || view.databases.contents.doesExist(key);
    return hasContent || view.get('outcomes', key) !== undefined ? [[key, undefined]] : [];
  });
}

/** A job waits exactly as long as it has no outcome. */
function* waiting(view: IndexView): Iterable<Expected[]> {
  const isUnfinished = (key: Uint8Array) =>
    view.get('outcomes', key) === undefined && view.databases.jobs.doesExist(key);
  yield* view.eachKey('waiting', (key) => (isUnfinished(key) ? [] : [[key, undefined]]));
  yield* view.eachKey('jobs', (key) => (isUnfinished(key) ? [[key, NOTHING]] : []));
}

/**
 * Whether the lists have an entry for everything that the jobs require, and not more entries: then they are right, and each job was read
 * once. Otherwise the rules judge every entry by itself, which reads a job for each of its entries. This also happens if a job was
 * committed meanwhile behind the page.
 */
function* census(view: IndexView): Generator<Expected[], PostingCensus> {
  if (view.census !== undefined) return view.census;
  const { databases } = view;
  const find = lookupFinder(databases);
  const counts = { scopes: 0, lookups: 0 };
  const isWrong = { scopes: false, lookups: false };
  const isWhole = (name: keyof PostingCensus) =>
    !isWrong[name] && databases[name].getStats().entryCount === counts[name];
  const count = (name: keyof PostingCensus, value: Uint8Array | undefined) => {
    if (value?.length === 0) counts[name] += 1;
    else isWrong[name] = true;
  };
  let found: PostingCensus = { scopes: false, lookups: false };
  for (const keys of view.pages('jobs')) {
    for (const key of keys) {
      const job = view.job(key);
      if (job === undefined) continue;
      for (const entry of scopeEntries(job, key)) count('scopes', databases.scopes.getBinary(entry));
      for (const lookup of lookupEntries(job, key)) count('lookups', find(lookup)?.value);
    }
    // The last page and the entries are counted at one moment.
    found = { scopes: isWhole('scopes'), lookups: isWhole('lookups') };
    yield [];
  }
  view.census = found;
  return found;
}

/** Every job is in the list of each circle that may see it. */
function* scopes(view: IndexView): Iterable<Expected[]> {
  if ((yield* census(view)).scopes) return;
  yield* view.eachKey('scopes', (key) => {
    if (key.length !== SCOPE_KEY_BYTES) return [[key, undefined]];
    const own = entriesOf(view, jobKeyAtEnd(key), scopeEntries);
    return own.some((entry) => entry.equals(key)) ? [] : [[key, undefined]];
  });
  yield* view.eachKey('jobs', (key) => entriesOf(view, key, scopeEntries).map((entry) => [entry, NOTHING]));
}

/** Every job is found by its document and its reference, in any generation. */
function* lookups(view: IndexView): Iterable<Expected[]> {
  if ((yield* census(view)).lookups) return;
  const { databases } = view;
  const last = () => generationsMax(databases.jobs.getStats().entryCount ?? 0);
  let known = last();
  /** Counts the jobs again only for a generation that did not exist when they were counted. */
  const isThere = (generation: number) => {
    if (generation > known) known = last();
    return generation <= known;
  };
  yield* view.eachKey('lookups', (key) => {
    if (key.length !== LOOKUP_KEY_BYTES) return [[key, undefined]];
    const { generation, lookup } = parseLookup(key);
    const own = isThere(generation) ? entriesOf(view, jobKeyAtEnd(lookup), lookupEntries) : [];
    return own.some((entry) => entry.equals(lookup)) ? [] : [[key, undefined]];
  });
  // A repair has removed superfluous entries by now; for a check, the place of missing entries does not matter.
  const postings = new Postings(databases);
  const find = lookupFinder(databases);
  yield* view.eachKey('jobs', (key) =>
    entriesOf(view, key, lookupEntries).map((lookup) => [
      find(lookup)?.key ?? postings.place(lookup),
      NOTHING,
    ]),
  );
}

/** Finds the entry of a lookup in any generation; undefined if it is in none. */
function lookupFinder({ jobs, lookups }: Databases) {
  let near = 0;
  const find = (generation: number, lookup: Uint8Array) => {
    const key = inGeneration(generation, lookup);
    const value = lookups.getBinary(key);
    return value && { key, value };
  };
  return (lookup: Uint8Array) => {
    const likely = find(near, lookup);
    if (likely !== undefined) return likely;
    const newest = Math.min(newestGeneration(lookups), generationsMax(jobs.getStats().entryCount ?? 0));
    for (const generation of outwards(near, newest)) {
      const found = find(generation, lookup);
      if (found === undefined) continue;
      near = generation; // Jobs come in the order of their ids, and their entries came in the same order.
      return found;
    }
    return undefined;
  };
}

/** The numbers from 0 to `last`, those near `start` first. */
function* outwards(start: number, last: number): Iterable<number> {
  for (let distance = 0; distance <= last; distance++) {
    if (start - distance >= 0 && start - distance <= last) yield start - distance;
    if (distance > 0 && start + distance <= last) yield start + distance;
  }
}

/** Every idempotency entry has its time, by which it is swept. A reused key has two until the first is swept. */
function* expiry(view: IndexView): Iterable<Expected[]> {
  yield* view.eachKey('expiry', (key) => {
    if (key.length !== EXPIRY_KEY_BYTES) return [[key, undefined]];
    const { acceptedAtMs, idempotency } = parseExpiryKey(key);
    const entry = readable<IdempotencyEntry>(view.get('idempotency', idempotency));
    const age = entry === undefined ? Number.NaN : entry.acceptedAt - acceptedAtMs;
    return age === 0 || age >= IDEMPOTENCY_RETENTION_MS ? [] : [[key, undefined]];
  });
  yield* view.each('idempotency', (key, value) => {
    const entry = readable<IdempotencyEntry>(value);
    return entry === undefined ? [] : [[expiryKey(entry.acceptedAt, key), NOTHING]];
  });
}

/** A job older than this was written at the time in its id; milliseconds. */
const SETTLED_MS = 600_000;
/** A job can be committed long after its id was made, during the count; then the rule counts again. */
const COUNTS_MAX = 3;

/** The count of a window is that of its jobs. Windows that ended long ago are left to the sweep. */
function* quotas(view: IndexView): Iterable<Expected[]> {
  const { jobs, quotas } = view.databases;
  for (let attempt = 1; ; attempt++) {
    const windows = new JobsInWindows(view.now);
    const add = (keys: Iterable<Uint8Array>) => {
      for (const key of keys) {
        const job = view.jobWithQuota(key);
        if (job !== undefined) windows.add(job);
      }
    };
    // Old jobs are counted page by page, new ones at the moment of the comparison.
    const settled = jobKeyAt(view.now - SETTLED_MS);
    for (const keys of view.pages('jobs')) {
      add(keys.filter((key) => Buffer.compare(key, settled) < 0));
      yield [];
    }
    add(jobs.getKeys({ start: settled }));
    const counted = Array.from(
      windows.counts.values(),
      (count): Expected => [quotaKey(count.clientId, count), encodeCount(count)],
    );
    const names = new Set(counted.map(([key]) => inHex(key)));
    const isKept = (key: Buffer) =>
      key.length === QUOTA_KEY_BYTES &&
      (names.has(inHex(key)) ||
        (windows.isOver(endOfWindow(key)) && readable(quotas.getBinary(key)) !== undefined));
    const keys = Array.from(quotas.getKeys({}), (key) => Buffer.from(key));
    const superfluous = keys.filter((key) => !isKept(key)).map((key): Expected => [key, undefined]);
    const page = [...superfluous, ...counted];
    if (attempt < COUNTS_MAX && !page.every((expected) => view.isAsExpected('quotas', expected))) continue;
    yield page;
    return;
  }
}

/** The last revisions without a gap, up to the newest of any endpoint at least. */
function* revisions({ databases: { endpoints, endpointRevisions } }: IndexView): Iterable<Expected[]> {
  const keys = Array.from(endpointRevisions.getKeys({}), (key) => Buffer.from(key));
  const used = Array.from(
    endpoints.getRange({}),
    ({ value }) => readable<WebhookEndpoint>(value)?.revision ?? 0,
  );
  let newest = Math.max(0, ...used);
  // A revision higher than can have been made since is damage.
  for (const revision of keys
    .filter(({ length }) => length === COUNTER_BYTES)
    .map((key) => parseCounterKey(key)))
    if (revision - newest <= REVISIONS_KEPT) newest = Math.max(newest, revision);
  const oldest = Math.max(1, newest - REVISIONS_KEPT + 1);
  const expected = Array.from({ length: newest - oldest + 1 }, (_, n) => counterKey(oldest + n));
  const names = new Set(expected.map(inHex));
  yield [
    ...keys.filter((key) => !names.has(inHex(key))).map((key): Expected => [key, undefined]),
    ...expected.map((key): Expected => [key, NOTHING]),
  ];
}

/** Messages to clients are only about their own jobs, with the right outcome. Messages of removed endpoints are left to the sweep. */
function* deliveries(
  view: IndexView,
  name: 'outbox' | 'deadLetters',
  afresh: Pick<OutboxEntry, 'death'>,
): Iterable<Expected[]> {
  yield* view.each(name, (key, value) => {
    if (key.length !== DELIVERY_KEY_BYTES) return [[key, undefined]];
    const endpoint = readable<WebhookEndpoint>(view.get('endpoints', key.subarray(0, ENDPOINT_KEY_BYTES)));
    const entry = readable<OutboxEntry>(value);
    if (endpoint === undefined || entry?.type === 'webhook.test') return [];
    const isOwn = view.job(jobKeyAtEnd(key))?.clientId === endpoint.clientId;
    const told = isOwn ? eventOf(view, jobKeyAtEnd(key)) : undefined;
    if (told === undefined) return [[key, undefined]];
    const mended = mendedMessage(entry, told, afresh);
    return mended === undefined ? [] : [[key, mended]];
  });
}

/** The outcome of that job, as reported to its client; undefined for a job that waits. */
function eventOf(view: IndexView, job: Uint8Array): Pick<OutboxEntry, 'type' | 'occurredAt'> | undefined {
  const outcome = view.outcome(job);
  if (outcome?.kind === 'failed') return { type: 'job.failed', occurredAt: outcome.failure.failedAt };
  const batch = outcome && batchOfLeaf(view.databases, outcome.leafIndex);
  return batch && { type: 'job.completed', occurredAt: batch.sealedAt };
}

/** Statistics cannot be derived; but an unreadable one would make every commit for its endpoint fail. */
function* tallies(view: IndexView): Iterable<Expected[]> {
  const { outbox, deadLetters } = view.databases;
  yield* view.each('tallies', (key, value) => {
    if (key.length !== ENDPOINT_KEY_BYTES) return [[key, undefined]];
    if (readable<EndpointTally>(value) !== undefined) return [];
    const counts = { pending: countEntries(outbox, key), deadLetters: countEntries(deadLetters, key) };
    return [[key, encodeRecord({ ...emptyTally(), ...counts })]];
  });
}

function entriesOf(view: IndexView, key: Uint8Array, entries: typeof scopeEntries): Buffer[] {
  const job = view.job(key);
  return job === undefined ? [] : entries(job, key);
}

function jobKeyAtEnd(key: Uint8Array): Uint8Array {
  return key.subarray(-JOB_KEY_BYTES);
}

function jobNameAtEnd(key: Uint8Array): string {
  return parseJobKey(jobKeyAtEnd(key));
}

function messageName(key: Uint8Array): string {
  return key.length === DELIVERY_KEY_BYTES ? parseDeliveryKey(key).webhookId : inHex(key);
}

function tileName(key: Uint8Array): string {
  const tile = parseTileKey(key);
  return tile === undefined ? inHex(key) : tilePath({ ...tile, width: TILE_WIDTH });
}
