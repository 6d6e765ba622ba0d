import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { open, type RootDatabase } from 'lmdb';
import { beginWalk } from './dataFile.ts';
import { FolderLock } from './folderLock.ts';

/** One B+ tree of the store: bytes to bytes, so that encoding a key or value cannot fail in the middle of a write. */
export interface NamedDatabase {
  getBinary(key: Uint8Array): Buffer | undefined;
  doesExist(key: Uint8Array): boolean;
  getRange(options: Range): Iterable<{ key: Uint8Array; value: Buffer }>;
  getKeys(options: Range): Iterable<Uint8Array>;
  getKeysCount(options: Range): number;
  getStats(): TreeStats;
  put(key: Uint8Array, value: Uint8Array): Promise<boolean>;
  remove(key: Uint8Array): Promise<boolean>;
  ifNoExists(key: Uint8Array, writes: () => void): Promise<boolean>;
  ifVersion(key: Uint8Array, version: number, writes: () => void): Promise<boolean>;
}

export interface TreeStats {
  entryCount?: number;
  lastTxnId?: number;
  treeBranchPageCount?: number;
  treeLeafPageCount?: number;
  overflowPages?: number;
}

/** Keys from `start` to `end` (exclusive); with `reverse` from `start` down to `end` (exclusive). */
export interface Range {
  start?: Uint8Array;
  end?: Uint8Array;
  exclusiveStart?: boolean;
  inclusiveEnd?: boolean;
  reverse?: boolean;
  limit?: number;
}

export const DATABASE_NAMES = [
  'identity', // → StoreIdentity, the last service time, the statements of witnesses, the batch that they may have seen, and the fence
  'epochs', // revision → Epoch[]; never changed
  'jobs', // job → Job; never changed
  'contents', // job → Content of a job from a URL, once it was fetched
  'sources', // job → its source URL; may hold secrets, and is removed once the content is there or the job failed
  'copies', // job → StoredCopy: the key of a copy without metadata, and so the copy, until its time is over
  'outcomes', // job → its outcome; a job without one waits
  'waiting', // job → nothing: it is in the store and has no outcome
  'scopes', // scope, job → nothing: the viewers who may see it
  'lookups', // generation, scope and value, job → nothing: the viewers who may find it, and by which value
  'idempotency', // key → IdempotencyEntry
  'expiry', // service time of acceptance, idempotency key → nothing
  'quotas', // end of the window, client and quota → QuotaCount
  'leaves', // leaf index → job, leaf data
  'tiles', // level, index → hashes
  'batches', // tree size → Batch
  'credentials', // key hash → Credential
  'salts', // key hash → the salt from which its next key is derived, until it has ended
  'trail', // number → job, the text of an audit record; never changed
  'endpoints', // endpoint → WebhookEndpoint
  'endpointRevisions', // revision → nothing: counts changes of endpoints; only the last ones
  'outbox', // endpoint, due at, message → the message to send
  'deadLetters', // endpoint, died at, message → a message that was given up
  'tallies', // endpoint → delivery statistics
  'renewals', // run → RenewalRun; run, row → its tiles; never changed; and the draft of the next run, and a survey
] as const;

export type DatabaseName = (typeof DATABASE_NAMES)[number];

/** Databases that stores of earlier versions lack. A process that opens such a store only for reading finds them empty. */
const LATER: readonly DatabaseName[] = ['salts'];

const READ_ONLY = new Error('the store is open for reading only');

const EMPTY: NamedDatabase = {
  getBinary: () => undefined,
  doesExist: () => false,
  getRange: () => [],
  getKeys: () => [],
  getKeysCount: () => 0,
  getStats: () => ({ entryCount: 0 }),
  put: () => Promise.reject(READ_ONLY),
  remove: () => Promise.reject(READ_ONLY),
  ifNoExists: () => Promise.reject(READ_ONLY),
  ifVersion: () => Promise.reject(READ_ONLY),
};

/** After {@link fail} every use of a database throws that error: memory may differ from the disk. */
export type Databases = Readonly<Record<DatabaseName, NamedDatabase>> & {
  readonly root: RootDatabase;
  /** Committers hold this lock in shared mode. */
  readonly lock: FolderLock;
  fail(error: Error): void;
  close(): Promise<void>;
};

export interface OpenDatabasesOptions {
  readOnly: boolean;
  /** Checks the pages of a file of any size before reading one, and not only of a small file. */
  isThorough?: boolean;
}

/** Opens the LMDB environment in folder `path`, and every database of it. Throws OperatorError if its file is damaged. */
export async function openDatabases(path: string, options: OpenDatabasesOptions): Promise<Databases> {
  const lock = new FolderLock(path);
  let root: RootDatabase | undefined;
  try {
    const opened = await lock.holding('exclusive', () => openRoot(path, options));
    root = opened.root;
    // Committers do not wait for this: the snapshot keeps the checked pages.
    try {
      opened.walk();
    } finally {
      opened.snapshot.done();
    }
    // A missing database is made with a commit.
    return await lock.holding('shared', () => openNamed(opened.root, options, lock));
  } catch (error) {
    await root?.close();
    lock.close();
    throw error;
  }
}

/** Reads only the meta pages. */
function openRoot(path: string, { readOnly, isThorough }: OpenDatabasesOptions) {
  const file = join(path, 'data.mdb');
  const walk = existsSync(file) ? beginWalk(file, isThorough) : () => {};
  const root = open({
    path,
    readOnly,
    noSubdir: false,
    maxDbs: 32,
    // So a commit writes pages, calls fdatasync, and writes the meta page through an O_DSYNC descriptor; only then readers see it and
    // promises resolve. With overlapping sync they would see it before it is on disk.
    overlappingSync: false,
    // Commits groups related changes; lmdb-js must not add to a transaction by itself.
    eventTurnBatching: false,
  });
  return { root, walk, snapshot: root.useReadTransaction() };
}

function openNamed(root: RootDatabase, { readOnly }: OpenDatabasesOptions, lock: FolderLock): Databases {
  const open1 = (name: DatabaseName): NamedDatabase => {
    const database = root.openDB<Buffer, Uint8Array>({ name, keyEncoding: 'binary', encoding: 'binary' });
    if (database === undefined && readOnly && LATER.includes(name)) return EMPTY;
    if (database === undefined) throw new Error(`database ${name} is missing`);
    return database as unknown as NamedDatabase;
  };
  let failure: Error | undefined;
  const properties: PropertyDescriptorMap = {
    fail: {
      value: (error: Error) => {
        failure ??= error;
      },
    },
    root: { value: root, enumerable: true },
    lock: { value: lock },
    close: {
      value: async () => {
        await root.close();
        lock.close();
      },
    },
  };
  for (const name of DATABASE_NAMES) {
    const database = open1(name);
    const get = () => {
      if (failure !== undefined) throw failure;
      return database;
    };
    properties[name] = { get, enumerable: true };
  }
  return Object.defineProperties({}, properties) as Databases;
}

/** Keys read in one go; then the event loop gets its turn. */
const PAGE_KEYS = 500;
/** Sorts before every key except an empty one. */
const START = Buffer.alloc(1);

/** All keys of a database, page by page: a long read would keep LMDB from reusing old pages of the store. */
export async function* scanKeys(databases: Databases, name: DatabaseName): AsyncIterable<Uint8Array> {
  let start: Uint8Array = START;
  for (;;) {
    const keys = Array.from(databases[name].getKeys({ start, exclusiveStart: true, limit: PAGE_KEYS }));
    yield* keys;
    start = keys.at(-1) ?? start;
    if (keys.length < PAGE_KEYS) return;
    await new Promise((resolve) => setImmediate(resolve));
  }
}
