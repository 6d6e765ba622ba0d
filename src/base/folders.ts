import { mkdirSync } from 'node:fs';
import { open, readdir, rename } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { syncName, unusable } from './atomicFile.ts';

/**
 * Makes a folder, and those above it that are missing; does nothing if it exists. The names of all that it makes are on disk afterwards:
 * without them, what is flushed into the folder is gone after a power cut. Throws OperatorError.
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

/** Waits until a file, or the list of names in a folder, is on disk. A new name survives power loss only once its folder is. */
export async function syncFolder(path: string): Promise<void> {
  await using file = await open(path, 'r');
  await file.sync();
}

/**
 * Makes or replaces a file. Once this resolves, it survives a power cut. If it rejects, the old file or the new one does. Nobody else may
 * write it at the same time.
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
 * Waits until every file and folder in `path`, and its own name, is on disk. Sockets, which a killed process leaves behind, and links have no
 * content of their own.
 */
export async function syncTree(path: string): Promise<void> {
  for (const entry of await readdir(path, { recursive: true, withFileTypes: true }))
    if (entry.isFile() || entry.isDirectory()) await syncFolder(join(entry.parentPath, entry.name));
  await syncFolder(path);
  await syncFolder(dirname(path));
}
