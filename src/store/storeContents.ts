import { createHash } from 'node:crypto';
import { assert } from '../base/assert.ts';
import type { StoreIdentity } from './store.ts';

/**
 * What a store consists of, apart from what follows from it, each section in the order in which another store is filled. Keys and values are
 * the bytes of the embedded store; where an engine keeps something in another form, it makes them.
 */
export const SECTIONS = [
  'notes', // name → record; without the identity
  'epochs', // revision → record
  'credentials', // hash of the key → record
  'salts', // hash of the key → record
  'jobs', // job → record
  'contents', // job → record
  'sources', // job → record
  'copies', // job → record
  'failures', // job → record
  'waiting', // job → nothing
  'idempotency', // the first 16 bytes of the key → record
  'quotas', // end of the window, client and quota → record
  'trail', // number → record
  'leaves', // leaf index → job, leaf data
  'tiles', // level, index → hashes
  'batches', // tree size → record
  'revision', // `endpoints` → how often they were changed
  'endpoints', // endpoint → record
  'outbox', // endpoint, time, message → record
  'dead_letters', // endpoint, time, message → record
  'tallies', // endpoint → record, without the counts of messages
  'renewals', // run → record
  'renewal_rows', // run, row → record
] as const;

export type Section = (typeof SECTIONS)[number];

export interface StoreEntry {
  key: Buffer;
  value: Buffer;
}

/** The inside of a store, for whoever moves a log from one engine to another. Nobody else uses the store meanwhile. */
export interface StoreContents {
  identity(): Promise<StoreIdentity>;

  setIdentity(identity: StoreIdentity): Promise<void>;

  /** About how many entries there are. */
  count(section: Section): Promise<number>;

  /** All entries after `after`, in the order of their keys, in pages. */
  pages(section: Section, after?: Buffer): AsyncIterable<StoreEntry[]>;

  /** Where to go on after an interruption; undefined where that costs nothing from the beginning. */
  last(section: Section): Promise<Buffer | undefined>;

  /** Adds a page, with all that follows from it; durable once it resolves. */
  add(section: Section, entries: readonly StoreEntry[]): Promise<void>;

  /** Removes a section, to be filled anew. */
  clear(section: Section): Promise<void>;

  /** Writes what follows from several sections, once they are filled. */
  finish(): Promise<void>;

  /** From now on nobody else writes, or it is noticed. Throws OperatorError while another process has the store open, where that is known. */
  freeze(): Promise<Frozen>;

  close(): Promise<void>;
}

export interface Frozen {
  /** Sets the identity of a store that nobody writes to any more; or returns false, where somebody wrote since it was frozen. */
  leave(identity: StoreIdentity): Promise<boolean>;
  end(): Promise<void>;
}

/** Called for each page. */
export type OnEntries = (section: Section, entries: number) => void;

/** Fills a store with what it does not have yet of another one. */
export async function copyContents(
  from: StoreContents,
  to: StoreContents,
  onEntries: OnEntries,
): Promise<void> {
  for (const section of SECTIONS) await copySection(from, to, section, onEntries, await to.last(section));
  await to.finish();
}

/**
 * Compares every byte. A section that differs is copied once more: somebody changed it after it was copied, and before an interruption.
 * Throws BrokenInvariant where it differs still.
 */
export async function compareContents(
  from: StoreContents,
  to: StoreContents,
  onEntries: OnEntries,
): Promise<void> {
  for (const section of SECTIONS) {
    const digest = await digestOf(from, section, onEntries);
    if ((await digestOf(to, section)) === digest) continue;
    await to.clear(section);
    await copySection(from, to, section, () => {});
    await to.finish();
    assert((await digestOf(to, section)) === digest, `the copy differs from the store in its ${section}`);
  }
}

async function copySection(
  from: StoreContents,
  to: StoreContents,
  section: Section,
  onEntries: OnEntries,
  after?: Buffer,
): Promise<void> {
  for await (const entries of from.pages(section, after)) {
    await to.add(section, entries);
    onEntries(section, entries.length);
  }
}

async function digestOf(store: StoreContents, section: Section, onEntries?: OnEntries): Promise<string> {
  const hash = createHash('sha256');
  const bytes = Buffer.alloc(8);
  for await (const entries of store.pages(section)) {
    for (const { key, value } of entries) {
      bytes.writeUInt32BE(key.length, 0);
      bytes.writeUInt32BE(value.length, 4);
      hash.update(bytes).update(key).update(value);
    }
    onEntries?.(section, entries.length);
  }
  return hash.digest('hex');
}
