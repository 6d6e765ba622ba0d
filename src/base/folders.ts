import { open, readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** Waits until a file, or the list of names in a folder, is on disk. A new name survives power loss only once its folder is. */
export async function syncFolder(path: string): Promise<void> {
  const file = await open(path, 'r');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}

/**
 * Waits until every file and folder in `path`, and its own name, is on disk. Sockets, which a killed process leaves behind, and links have no
 * content of their own.
 */
export async function syncTree(path: string): Promise<void> {
  for (const entry of await readdir(path, { recursive: true, withFileTypes: true }))
    if (entry.isFile() || entry.isDirectory()) await syncFolder(join(entry.parentPath, entry.name));
  await syncFolder(path);
  await syncFolder(dirname(path));
}
