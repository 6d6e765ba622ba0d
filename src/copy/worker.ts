import { closeSync, constants, fsyncSync, openSync, readSync, rmSync, writeSync } from 'node:fs';
import type { Edit } from '../pdf/findings.ts';
import { NotStrippable } from '../pdf/notStrippable.ts';
import type { ByteSource } from '../pdf/window.ts';
import { applyEdits, findXmp } from '../pdf/xmp.ts';
import { Keystream, newKey } from './cipher.ts';
import { isStorageFull } from './storage.ts';

/** A {@link CipheredFile}, as a message carries it. */
export interface TaskFile {
  path: string;
  key: Uint8Array;
  bytes: number;
}

export interface StripTask {
  source: TaskFile;
  /** File for the copy, if one is needed. It must not exist. */
  targetPath: string;
}

export type StripResult =
  | { kind: 'nothing' } // to strip: there is no copy
  | { kind: 'copied'; key: Uint8Array }
  | { kind: 'refused'; why: string }
  | { kind: 'full' }; // the disk is full; an error would lose its code on its way to the main thread

const CHUNK_BYTES = 1 << 20;

/** The function that a Piscina worker runs: makes a copy of a document without XMP, and searches the copy again. */
export async function strip({ source, targetPath }: StripTask): Promise<StripResult> {
  try {
    const edits = await reading(source, findXmp);
    if (edits.length === 0) return { kind: 'nothing' };
    const key = await reading(source, (document) => copy(document, edits, targetPath));
    const left = await reading({ ...source, path: targetPath, key }, findXmp);
    if (left.length > 0) throw new NotStrippable('its copy would still have XMP');
    return { kind: 'copied', key };
  } catch (error) {
    rmSync(targetPath, { force: true });
    if (error instanceof NotStrippable) return { kind: 'refused', why: error.message };
    if (isStorageFull(error)) return { kind: 'full' };
    throw error;
  }
}

async function reading<T>(
  { path, key, bytes }: TaskFile,
  use: (document: ByteSource) => T | Promise<T>,
): Promise<T> {
  const file = openSync(path, 'r');
  const read = (position: number, length: number) => {
    const data = Buffer.allocUnsafe(Math.max(0, Math.min(length, bytes - position)));
    for (let filled = 0; filled < data.length; ) {
      const count = readSync(file, data, filled, data.length - filled, position + filled);
      if (count === 0) throw new Error('a document is shorter than when it was written');
      filled += count;
    }
    return new Keystream(key, position).apply(data);
  };
  try {
    return await use({ bytes, read });
  } finally {
    closeSync(file);
  }
}

/** The copy has its own key: two texts under one keystream would reveal their differences. */
function copy(document: ByteSource, edits: Edit[], path: string): Uint8Array {
  const key = newKey();
  const keystream = new Keystream(key);
  const file = openSync(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600);
  try {
    for (let position = 0; position < document.bytes; position += CHUNK_BYTES) {
      const data = document.read(position, CHUNK_BYTES);
      applyEdits(data, position, edits);
      writeWhole(file, keystream.apply(data));
    }
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  return key;
}

function writeWhole(file: number, data: Buffer): void {
  for (let written = 0; written < data.length; ) written += writeSync(file, data, written);
}
