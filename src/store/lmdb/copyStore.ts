import { OperatorError } from '../../base/errors.ts';
import { makeFolder, syncTree } from '../../base/folders.ts';
import { systemReason } from '../../base/systemReason.ts';
import { openDatabases } from './databases.ts';

/**
 * Copies a store as it is at one moment, while a daemon continues to write: LMDB reads one snapshot and leaves unused pages out. `to` must
 * not exist. All of `to` is on disk afterwards. Throws OperatorError if it cannot be written.
 */
export async function copyStore(from: string, to: string): Promise<void> {
  makeFolder(to, 0o700);
  const databases = await openDatabases(from, { readOnly: true });
  try {
    await databases.root.backup(to, true);
  } catch (cause) {
    // LMDB passes on the system's words, but no code.
    throw new OperatorError(`cannot copy the store in ${from} to ${to} (${systemReason(cause)})`, {
      cause,
      remedy: 'free space on the disk of the copy, or name a folder on another disk',
    });
  } finally {
    await databases.close();
  }
  await syncTree(to);
}
