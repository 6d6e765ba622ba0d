import { closeSync, constants, fsyncSync, openSync, readSync, rmSync, writeSync } from 'node:fs';
import type { Edit } from '../pdf/findings.ts';
import { NotStrippable } from '../pdf/notStrippable.ts';
import type { ByteSource } from '../pdf/window.ts';
import { applyEdits } from '../pdf/xmp.ts';
import { keystream, newKey } from './cipher.ts';
import { isStorageFull } from './storage.ts';
import { StripperLost, StripperProcess } from './stripperProcess.ts';
import { endTask, requireWanted, type TaskState, watchTask } from './taskState.ts';

/** A {@link CipheredFile}, as part of a message. */
export interface TaskFile {
  path: string;
  at: number;
  key: Uint8Array;
  bytes: number;
}

export interface StripTask {
  /** The client whose document it is: a stripper compromised by a document never sees documents of another client. */
  clientId: string;
  /** Socket of the strippers' unit; if undefined, strippers are children. */
  socket: string | undefined;
  source: TaskFile;
  /** File for the copy, if one is needed. It must not exist. */
  targetPath: string;
  state: TaskState;
}

export type StripResult =
  | { kind: 'nothing' } // nothing to strip: there is no copy
  | { kind: 'copied'; key: Uint8Array }
  | { kind: 'refused'; why: string }
  | { kind: 'full' }; // the disk is full; an error would lose its code on its way to the main thread

const CHUNK_BYTES = 1 << 20;

/** Enough that clients that take turns do not wait for a new stripper each time. */
const STRIPPERS_MAX = 3;

/** The strippers of this thread, by the client whose documents they have seen; the most recently used is last. */
const strippers = new Map<string, StripperProcess>();

/**
 * The function that a Piscina worker runs: makes a copy of a document without XMP, and has the copy searched again. It reads and writes the
 * encrypted files; a stripper parses the document. If the task is abandoned, it fails: at most the client's stripper ends, and other
 * clients keep theirs.
 */
export async function strip({ source, targetPath, ...by }: StripTask): Promise<StripResult> {
  const search = (document: ByteSource) => searched(document, by);
  const { clientId, state } = by;
  void watchTask(state, () => end(clientId));
  try {
    const edits = await reading(source, search);
    if (edits.length === 0) return { kind: 'nothing' };
    const key = await reading(source, (document) => copy(document, edits, { targetPath, state }));
    const left = await reading({ ...source, path: targetPath, at: 0, key }, search);
    if (left.length > 0) throw new NotStrippable('its copy would still have XMP');
    return { kind: 'copied', key };
  } catch (error) {
    rmSync(targetPath, { force: true });
    if (error instanceof NotStrippable) return { kind: 'refused', why: error.message };
    if (isStorageFull(error)) return { kind: 'full' };
    throw error;
  } finally {
    endTask(state);
  }
}

type By = Pick<StripTask, 'clientId' | 'socket' | 'state'>;

/**
 * A stripper can be lost for unrelated reasons, such as a restart of its unit; if two are lost with this document, the document is the
 * cause.
 */
async function searched(document: ByteSource, by: By): Promise<Edit[]> {
  for (let lost = 0; lost < 2; lost += 1) {
    requireWanted(by.state);
    try {
      return await stripperFor(by).search(document);
    } catch (error) {
      if (error instanceof NotStrippable) throw error;
      end(by.clientId);
      if (!(error instanceof StripperLost)) throw error;
    }
  }
  throw new NotStrippable('the search for metadata fails, or needs too much memory');
}

function stripperFor({ clientId, socket }: By): StripperProcess {
  const stripper = strippers.get(clientId) ?? new StripperProcess(socket);
  strippers.delete(clientId);
  strippers.set(clientId, stripper);
  const [longestUnused] = strippers.keys();
  if (strippers.size > STRIPPERS_MAX && longestUnused !== undefined) end(longestUnused);
  return stripper;
}

function end(clientId: string): void {
  strippers.get(clientId)?.kill();
  strippers.delete(clientId);
}

async function reading<T>(
  { path, at, key, bytes }: TaskFile,
  use: (document: ByteSource) => T | Promise<T>,
): Promise<T> {
  const file = openSync(path, 'r');
  const read = (position: number, length: number) => {
    const data = Buffer.allocUnsafe(Math.max(0, Math.min(length, bytes - position)));
    for (let filled = 0; filled < data.length; ) {
      const count = readSync(file, data, filled, data.length - filled, at + position + filled);
      if (count === 0) throw new Error('a document is shorter than when it was written');
      filled += count;
    }
    return keystream(key, position)(data);
  };
  try {
    return await use({ bytes, read });
  } finally {
    closeSync(file);
  }
}

/** The copy has its own key: two texts under one keystream would reveal their differences. */
function copy(
  document: ByteSource,
  edits: Edit[],
  { targetPath, state }: Pick<StripTask, 'targetPath' | 'state'>,
): Uint8Array {
  const key = newKey();
  const encrypt = keystream(key);
  const file = openSync(targetPath, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600);
  try {
    for (let position = 0; position < document.bytes; position += CHUNK_BYTES) {
      requireWanted(state);
      const data = document.read(position, CHUNK_BYTES);
      applyEdits(data, position, edits);
      const encrypted = encrypt(data);
      for (let written = 0; written < data.length; ) written += writeSync(file, encrypted, written);
    }
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  return key;
}
