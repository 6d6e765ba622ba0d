import { accessSync, constants, existsSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { BrokenInvariant } from '../../base/assert.ts';
import { systemClock } from '../../base/clock.ts';
import { OperatorError } from '../../base/errors.ts';
import { makeFolder, syncFolder } from '../../base/folders.ts';
import { remedyFor, systemReason } from '../../base/systemReason.ts';
import { formatBytes } from '../../base/units.ts';
import type { DiskSpace } from '../diskSpace.ts';
import { assertNotUnderRepair } from '../indexStore.ts';
import { assertNotMoving } from '../move.ts';
import { encodeRecord } from '../records.ts';
import type { Store } from '../store.ts';
import { assertExpected, BACKLOG_MAX_DEFAULT, type NewStore, type OpenOptions } from '../storeOptions.ts';
import { Commits } from './commits.ts';
import { moveSalts } from './credentialRecords.ts';
import { type Databases, type OpenDatabasesOptions, openDatabases } from './databases.ts';
import { RESTORE } from './dataFile.ts';
import { raiseFence } from './fence.ts';
import { identityChange, readIdentity } from './identity.ts';
import { counterKey } from './keyLayout.ts';
import { lmdbStore } from './lmdbStore.ts';
import { MIGRATIONS, type Migration, migrateStore, schemaAfter } from './migrations.ts';

/** The next map is twice as large as this one, and for a moment both exist. */
const MAP_GROWTH = 4;
/** Address space for Node itself. */
const MAP_BYTES_SPARE = 16 * 2 ** 30;

export interface OpenStoreOptions extends OpenOptions {
  path: string;
  readOnly?: boolean;
  /** Checks the pages of a file of any size before reading one, and not only of a small file. */
  isThorough?: boolean;
  /**
   * Called before a store of an older program is migrated. Only for the daemon, which holds the lock; without it such a store is refused.
   */
  onMigration?: (schema: { from: number; to: number }) => void;
  /** Default: those of this program. */
  migrations?: readonly Migration[];
  /** A daemon takes its turn, and so does a command that needs the store for itself: an earlier daemon cannot write any more then. */
  takesTurn?: boolean;
  /** Writes wait while the disk is full. */
  diskSpace?: Pick<DiskSpace, 'forCommit'>;
}

/** Makes an empty store, whole or not at all, in the folder `path`. Throws OperatorError if the folder exists already. */
export async function createStore({
  path,
  identity,
  epoch,
  act,
}: NewStore & { path: string }): Promise<void> {
  if (existsSync(path)) throw new OperatorError(`${path} exists already: a store is never overwritten`);
  const draft = `${path}.new`;
  rmSync(draft, { recursive: true, force: true });
  makeFolder(draft, 0o700);
  const databases = await openDatabases(draft, { readOnly: false });
  const whole = { schema: schemaAfter(MIGRATIONS), ...identity };
  await new Commits(databases).write({
    changes: [
      identityChange(databases, whole),
      { database: databases.epochs, key: counterKey(0), value: encodeRecord([epoch]) },
    ],
  });
  const store = await lmdbStore(databases, whole, {
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
 * Opens a store that {@link createStore} made. Throws OperatorError if there is none, if it belongs to another environment or log, if a
 * newer program made it or an older one that may not be migrated, or if a repair of it was interrupted.
 */
export async function openStore(options: OpenStoreOptions): Promise<Store> {
  const {
    path,
    onMigration,
    takesTurn = false,
    migrations = MIGRATIONS,
    clock = systemClock,
    monotonicMs = () => performance.now(),
    backlogMax = BACKLOG_MAX_DEFAULT,
    diskSpace,
  } = options;
  assertIsThere(path);
  const schema = schemaAfter(migrations);
  const open = () => openAsExpected(options, schema);
  let { databases, identity } = await open();
  if (identity.schema < schema) {
    await databases.close();
    if (onMigration === undefined)
      throw new OperatorError(
        `${path} was made by an older pdfseald (store schema ${identity.schema}, this program writes ${schema}): start the daemon, which migrates it; a backup is restored by the version that made it`,
        { code: 'older_store' },
      );
    onMigration({ from: identity.schema, to: schema });
    await migrateStore(path, identity, migrations);
    ({ databases, identity } = await open());
  }
  // Raised before the daemon reads any state on which it builds.
  const fence = takesTurn ? await raiseFence(databases, path) : undefined;
  const store = await lmdbStore(databases, identity, { clock, monotonicMs, backlogMax, diskSpace, fence });
  try {
    if (onMigration !== undefined) await moveSalts(databases, new Commits(databases));
    // Nothing can be signed, verified or exported without the epochs.
    await store.epochs.newest();
    return store;
  } catch (error) {
    await store.close();
    throw asDamage(path, error);
  }
}

/** Reports a broken invariant, found before any operation on a store, as damage. */
function asDamage(path: string, error: unknown): unknown {
  if (!(error instanceof BrokenInvariant)) return error;
  return new OperatorError(`the store in ${path} is damaged (${error.message}): ${RESTORE}`, {
    cause: error,
  });
}

/** Throws OperatorError unless it is the expected store, of this layout or an older one. */
async function openAsExpected(options: OpenStoreOptions, schema: number) {
  const { path, expected = {}, repairing, moving, readOnly = false, isThorough } = options;
  const databases = await openExisting(path, { readOnly, isThorough });
  try {
    const identity = readIdentity(databases, path, schema);
    assertExpected(identity, expected, { place: path, remedy: 'correct that key, or state_dir' });
    if (!repairing) assertNotUnderRepair(path, identity);
    if (!moving) assertNotMoving(path, identity);
    return { databases, identity };
  } catch (error) {
    await databases.close();
    throw asDamage(path, error);
  }
}

async function openExisting(path: string, options: OpenDatabasesOptions): Promise<Databases> {
  try {
    if (!options.readOnly) assertIsWritable(path);
    return await openDatabases(path, options);
  } catch (error) {
    if (error instanceof OperatorError) throw error;
    const remedy = /MDB_(?:CORRUPTED|INVALID|PAGE_NOTFOUND)/.test(String(error)) ? `: ${RESTORE}` : '';
    throw new OperatorError(`the store in ${path} cannot be opened: ${String(error)}${remedy}`, {
      cause: error,
    });
  }
}

/** A store that this user cannot read exists all the same: the remedy must not be to make another. */
function assertIsThere(path: string): void {
  const file = join(path, 'data.mdb');
  try {
    accessSync(file, constants.R_OK);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT')
      throw new OperatorError(`there is no store in ${path}: make one with \`pdfseal init\``, { cause });
    throw cannotOpen(file, cause);
  }
}

/** Throws OperatorError, with the remedy, if the files of LMDB cannot be written. */
function assertIsWritable(path: string): void {
  for (const file of ['data.mdb', 'lock.mdb']
    .map((name) => join(path, name))
    .filter((name) => existsSync(name))) {
    try {
      accessSync(file, constants.R_OK | constants.W_OK);
    } catch (cause) {
      throw cannotOpen(file, cause);
    }
  }
  assertCanGrow(join(path, 'data.mdb'));
}

/** LMDB maps the whole file, and doubles the map as the file grows. If that fails, it ends the process without a message. */
function assertCanGrow(file: string): void {
  const limit = addressSpaceBytesMax();
  if (limit >= statSync(file).size * MAP_GROWTH + MAP_BYTES_SPARE) return;
  throw new OperatorError(
    `this process may have ${formatBytes(limit)} of address space, too little for ${file} to grow: lift that limit (LimitAS=infinity, ulimit -v unlimited)`,
  );
}

/** The soft limit RLIMIT_AS (getrlimit(2)), which Node does not expose. */
function addressSpaceBytesMax(): number {
  const [, limit] = /^Max address space +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1')) ?? [];
  return limit === undefined ? Number.POSITIVE_INFINITY : Number(limit);
}

function cannotOpen(file: string, cause: unknown): OperatorError {
  return new OperatorError(`cannot open ${file} (${systemReason(cause)}): ${remedyFor(cause)}`, { cause });
}
