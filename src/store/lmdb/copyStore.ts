import { makeFolder, syncTree } from '../../base/folders.ts';
import { openDatabases } from './databases.ts';

/**
 * Copies a store as it is at one moment, while a daemon goes on writing: LMDB reads one snapshot and leaves unused pages out. `to` must not
 * exist. All of `to` is on disk afterwards.
 */
export async function copyStore(from: string, to: string): Promise<void> {
  makeFolder(to, 0o700);
  const databases = await openDatabases(from, { readOnly: true });
  try {
    await databases.root.backup(to, true);
  } finally {
    await databases.close();
  }
  await syncTree(to);
}
