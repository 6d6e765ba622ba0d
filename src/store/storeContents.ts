import { createHash } from 'node:crypto';
import { assert } from '../base/assert.ts';
import type { StoreIdentity } from './store.ts';

/**
 * The contents of a store, except those that follow from others, each section in the order in which another store is filled. Keys and
 * values are the bytes of the embedded store; an engine that keeps a section in another form converts it.
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
  'revision', // `endpoints` → number of changes to endpoints
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

/** Raw access to a store, for moving a log from one engine to another. No other process uses the store meanwhile. */
export interface StoreContents {
  identity(): Promise<StoreIdentity>;

  setIdentity(identity: StoreIdentity): Promise<void>;

  /** Approximate number of entries. */
  count(section: Section): Promise<number>;

  /** All entries after `after`, in the order of their keys, in pages. */
  pages(section: Section, after?: Buffer): AsyncIterable<StoreEntry[]>;

  /** The key after which to continue after an interruption; undefined if starting from the beginning costs nothing. */
  last(section: Section): Promise<Buffer | undefined>;

  /** Adds a page, with everything that follows from it; durable once it resolves. */
  add(section: Section, entries: readonly StoreEntry[]): Promise<void>;

  /** Removes a section, so that it can be filled again. */
  clear(section: Section): Promise<void>;

  /** Writes the entries that follow from several sections, once these are filled. */
  finish(): Promise<void>;

  /**
   * From now on, writes of other processes are prevented or noticed. Throws OperatorError while another process has the store open, if that
   * is known.
   */
  freeze(): Promise<Frozen>;

  close(): Promise<void>;
}

export interface Frozen {
  /** Sets the identity of a store to which no process writes any more; or returns false, if a process has written since it was frozen. */
  leave(identity: StoreIdentity): Promise<boolean>;
  end(): Promise<void>;
}

/** Called for each page. */
export type OnEntries = (section: Section, entries: number) => void;

/** Fills a store with the entries of another one that it does not have yet. */
export async function copyContents(
  from: StoreContents,
  to: StoreContents,
  onEntries: OnEntries,
): Promise<void> {
  for (const section of SECTIONS) await copySection(from, to, section, onEntries, await to.last(section));
  await to.finish();
}

/**
 * Compares every byte. A section that differs is copied once more: another process changed it after it was copied, and before an
 * interruption. Throws BrokenInvariant if it still differs.
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
