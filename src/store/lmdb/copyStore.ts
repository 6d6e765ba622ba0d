import { mkdirSync } from 'node:fs';
import { syncTree } from '../../base/folders.ts';
import { openDatabases } from './databases.ts';

/**
 * Copies a store as it is at one moment, beside a daemon that goes on writing: LMDB reads one snapshot and writes what it
 * holds, unused pages left out. `to` must not exist. What is in `to` afterwards is on disk.
 */
export async function copyStore(from: string, to: string): Promise<void> {
  mkdirSync(to, { recursive: true, mode: 0o700 });
  const { root } = openDatabases(from, { readOnly: true });
  try {
    await root.backup(to, true);
  } finally {
    await root.close();
  }
  await syncTree(to);
}
