import { mkdirSync } from 'node:fs';
import { open, readdir, rename } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { syncName, unusable } from './atomicFile.ts';

/**
 * Creates a folder and its missing parents; does nothing if it exists. All new names are on disk afterwards: otherwise, files flushed into
 * the folder would be lost in a power failure. Throws OperatorError.
 */
export function makeFolder(path: string, mode = 0o777): void {
  try {
    const first = mkdirSync(path, { recursive: true, mode });
    if (first === undefined) return;
    for (let made = resolve(path); made.length >= resolve(first).length; made = dirname(made)) syncName(made);
  } catch (cause) {
    throw unusable('write', path, cause);
  }
}

/** Waits until a file, or the list of names in a folder, is on disk. A new name survives power loss only once its folder is on disk. */
export async function syncFolder(path: string): Promise<void> {
  await using file = await open(path, 'r');
  await file.sync();
}

/**
 * Creates or replaces a file. Once this resolves, it survives a power failure. If it rejects, either the old or the new file does. No other
 * process may write it at the same time.
 */
export async function replaceFile(path: string, content: string | Uint8Array, mode: number): Promise<void> {
  const draft = `${path}.new`;
  {
    await using file = await open(draft, 'w', mode);
    await file.writeFile(content);
    await file.sync();
  }
  await rename(draft, path);
  await syncFolder(dirname(path));
}

/**
 * Waits until every file and folder in `path`, and its own name, is on disk. Sockets, which a killed process leaves behind, and links lack
 * content of their own.
 */
export async function syncTree(path: string): Promise<void> {
  for (const entry of await readdir(path, { recursive: true, withFileTypes: true }))
    if (entry.isFile() || entry.isDirectory()) await syncFolder(join(entry.parentPath, entry.name));
  await syncFolder(path);
  await syncFolder(dirname(path));
}
