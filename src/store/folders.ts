import { closeSync, fsyncSync, openSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** A new name survives power loss only once its folder is on disk too. */
export function syncFolder(path: string): void {
  const folder = openSync(path, 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

/** Every file and folder in `path`, and its own name. */
export function syncTree(path: string): void {
  for (const entry of readdirSync(path, { recursive: true, encoding: 'utf8' })) syncFolder(join(path, entry));
  syncFolder(path);
  syncFolder(dirname(path));
}
