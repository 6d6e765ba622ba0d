import { closeSync, existsSync, mkdirSync, openSync, readSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type Clock, systemClock } from '../../base/clock.ts';
import { OperatorError } from '../../base/errors.ts';
import { syncFolder } from '../../base/folders.ts';
import type { Epoch } from '../../log/epochs.ts';
import type { Act } from '../../manifest/auditRecord.ts';
import type { DiskSpace } from '../diskSpace.ts';
import type { Store, StoreIdentity } from '../store.ts';
import { Commits } from './commits.ts';
import { type Databases, openDatabases } from './databases.ts';
import { assertNotUnderRepair, assertSame, identityChange, readIdentity } from './identity.ts';
import { counterKey } from './keyLayout.ts';
import { lmdbStore } from './lmdbStore.ts';
import { MIGRATIONS, type Migration, migrateStore, schemaAfter } from './migrations.ts';
import { assertIsThere, assertIsWritable } from './openable.ts';
import { encodeRecord } from './records.ts';

const BACKLOG_MAX_DEFAULT = 10_000;

/** LMDB's MDB_MAGIC in the first of the two meta pages a file begins with (mdb.c). */
const MAGIC = 0xbeefc0de;
const MAGIC_OFFSET = 24;
const META_PAGES_BYTES = 8192;

export interface CreateStoreOptions {
  /** Folder of the store; must not exist. */
  path: string;
  identity: Omit<StoreIdentity, 'schema'>;
  /** The first epoch of the log. */
  epoch: Epoch;
  /** Who makes it: the first record of the audit trail. */
  act?: Act;
}

export interface OpenStoreOptions {
  path: string;
  /** What the configuration says the store is for. */
  expected?: Partial<Pick<StoreIdentity, 'environment' | 'logOrigin'>>;
  /** Opens without the right to write, in a process that only looks. */
  readOnly?: boolean;
  /** Opens also what a repair left half-way. */
  repairing?: boolean;
  /** Migrates a store of an older program: for the daemon alone, which holds the lock. Told before it begins. */
  onMigration?: (schema: { from: number; to: number }) => void;
  /** Default: those of this program. */
  migrations?: readonly Migration[];
  clock?: Clock;
  /** For tests: milliseconds on a clock that nobody sets, by which service time goes on. */
  monotonicMs?: Clock;
  /** Writes wait while the disk is full. */
  diskSpace?: DiskSpace;
  /** What may wait to be sent to one webhook endpoint, and as many may be given up. */
  backlogMax?: number;
}

/** Makes an empty store: all of it, or nothing. Throws OperatorError when the folder exists already. */
export async function createStore({ path, identity, epoch, act }: CreateStoreOptions): Promise<void> {
  if (existsSync(path)) throw new OperatorError(`${path} exists already: a store is never overwritten`);
  const draft = `${path}.new`;
  rmSync(draft, { recursive: true, force: true });
  mkdirSync(draft, { recursive: true, mode: 0o700 });
  const databases = openDatabases(draft, { readOnly: false });
  const whole = { schema: schemaAfter(MIGRATIONS), ...identity };
  await new Commits(databases).write({
    changes: [
      identityChange(databases, whole),
      { database: databases.epochs, key: counterKey(0), value: encodeRecord([epoch]) },
    ],
  });
  const store = lmdbStore(databases, whole, {
    clock: systemClock,
    monotonicMs: () => performance.now(),
    backlogMax: 0,
  });
  if (act !== undefined) await store.trail.append(act);
  await store.close();
  await syncFolder(draft);
  renameSync(draft, path); // If we stop before this, there is no store; after it, a whole one.
  await syncFolder(dirname(path));
}

/**
 * Opens a store that {@link createStore} made. Throws OperatorError when there is none, when it belongs to another environment or log,
 * when a newer program made it, or an older one and nobody is told of its migration, or when a repair of it was interrupted.
 */
export async function openStore({
  path,
  expected = {},
  readOnly = false,
  repairing = false,
  onMigration,
  migrations = MIGRATIONS,
  clock = systemClock,
  monotonicMs = () => performance.now(),
  backlogMax = BACKLOG_MAX_DEFAULT,
  diskSpace,
}: OpenStoreOptions): Promise<Store> {
  assertIsThere(path);
  const schema = schemaAfter(migrations);
  const open = () => openAsExpected({ path, expected, readOnly, repairing, schema });
  let { databases, identity } = await open();
  if (identity.schema < schema) {
    await databases.root.close();
    if (onMigration === undefined) throw olderStore(path, identity.schema, schema);
    onMigration({ from: identity.schema, to: schema });
    await migrateStore(path, identity, migrations);
    ({ databases, identity } = await open());
  }
  return lmdbStore(databases, identity, { clock, monotonicMs, backlogMax, diskSpace });
}

interface Expectations
  extends Required<Pick<OpenStoreOptions, 'path' | 'expected' | 'readOnly' | 'repairing'>> {
  schema: number;
}

/** Throws OperatorError unless it is the store that is expected, of this layout or an older one. */
async function openAsExpected({ path, expected, readOnly, repairing, schema }: Expectations) {
  const databases = openExisting(path, readOnly);
  try {
    const identity = readIdentity(databases, path, schema);
    for (const [field, value] of Object.entries(expected)) assertSame(path, identity, field, value);
    if (!repairing) assertNotUnderRepair(path, identity);
    return { databases, identity };
  } catch (error) {
    await databases.root.close();
    throw error;
  }
}

function olderStore(path: string, schema: number, own: number): OperatorError {
  return new OperatorError(
    `${path} was made by an older pdfseald (store schema ${schema}, this program writes ${own}): start the daemon, which migrates it; a backup is restored by the version that made it`,
    { code: 'older_store' },
  );
}

function openExisting(path: string, readOnly: boolean): Databases {
  try {
    assertIsEnvironment(join(path, 'data.mdb'));
    if (!readOnly) assertIsWritable(path);
    return openDatabases(path, { readOnly });
  } catch (error) {
    if (error instanceof OperatorError) throw error;
    throw new OperatorError(`the store in ${path} cannot be opened: ${String(error)}`, { cause: error });
  }
}

/** lmdb-js crashes on a file that does not begin with LMDB's meta pages, and makes new ones in an empty file. */
function assertIsEnvironment(path: string): void {
  const file = openSync(path, 'r');
  try {
    const header = Buffer.alloc(META_PAGES_BYTES);
    const bytes = readSync(file, header, 0, header.length, 0);
    const isWhole = bytes === header.length && header.readUInt32LE(MAGIC_OFFSET) === MAGIC;
    if (!isWhole) throw new Error('data.mdb is damaged or not of LMDB');
  } finally {
    closeSync(file);
  }
}
