import { existsSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { assert } from '../../base/assert.ts';
import { OperatorError } from '../../base/errors.ts';
import { syncFolder } from '../../base/folders.ts';
import { systemReason } from '../../base/systemReason.ts';
import type { StoreIdentity } from '../store.ts';
import { type Change, Commits } from './commits.ts';
import { copyStore } from './copyStore.ts';
import { DATABASE_NAMES, type Databases, openDatabases } from './databases.ts';
import { identityChange } from './identity.ts';

/**
 * Brings a store from one layout to the next, in transactions of its own. It may be interrupted at any moment, and then runs again from its
 * beginning on the state it left. No other process has the store open.
 */
export type Migration = (databases: Databases, write: (changes: Change[]) => Promise<void>) => Promise<void>;

/** The first leads from layout 1 to 2, and so on; none is ever removed. */
export const MIGRATIONS: readonly Migration[] = [];

export function schemaAfter(migrations: readonly Migration[]): number {
  return 1 + migrations.length;
}

/**
 * Runs the migrations that a store has not had yet. First the store is copied to a folder next to it. It bears the number of the next
 * layout once all of that layout is on disk. Throws OperatorError if it cannot be copied.
 */
export async function migrateStore(
  path: string,
  identity: StoreIdentity,
  migrations: readonly Migration[],
): Promise<void> {
  await copyAside(path, `${path}.schema-${identity.schema}`);
  const databases = await openDatabases(path, { readOnly: false });
  try {
    const commits = new Commits(databases);
    const write = async (changes: Change[]) => void (await commits.write({ changes }));
    for (let { schema } = identity; schema < schemaAfter(migrations); schema++) {
      await migrations[schema - 1]?.(databases, write);
      await write([identityChange(databases, { ...identity, schema: schema + 1 })]);
    }
  } finally {
    await databases.close();
  }
}

/** A folder of that name is a whole copy from before the first change: an interrupted migration does not make another. */
async function copyAside(path: string, copy: string): Promise<void> {
  if (existsSync(copy)) return;
  const draft = `${copy}.part`;
  try {
    rmSync(draft, { recursive: true, force: true });
    await copyStore(path, draft);
    const [before, copied] = [await entryCounts(path), await entryCounts(draft)];
    assert(before === copied, `the copy of ${path} has not all of its entries`);
    renameSync(draft, copy);
    await syncFolder(dirname(copy));
  } catch (cause) {
    rmSync(draft, { recursive: true, force: true });
    throw new OperatorError(
      `the store in ${path} is of an older pdfseald, and cannot be copied before it is migrated (${systemReason(cause)}): free disk space, or check who owns the folder`,
      { cause },
    );
  }
}

async function entryCounts(path: string): Promise<string> {
  const databases = await openDatabases(path, { readOnly: true });
  const counts = DATABASE_NAMES.map((name) => databases[name].getStats().entryCount);
  await databases.close();
  return counts.join();
}
