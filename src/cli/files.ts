import { createHash } from 'node:crypto';
import {
  closeSync,
  createReadStream,
  fsyncSync,
  linkSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, isAbsolute } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { OperatorError } from '../base/errors.ts';
import { systemReason } from '../base/systemReason.ts';
import type { DocumentDigests } from '../job/job.ts';
import { showProgress } from './terminal.ts';

const READ_BYTES = 1 << 18;

/** Both digests of a file in one pass, however large it is. Throws OperatorError when it cannot be read. */
export async function digestFile(
  path: string,
  progress = showProgress(`reading ${basename(path)}`, sizeOf(path), 'bytes'),
): Promise<DocumentDigests> {
  try {
    return await digest(createReadStream(path, { highWaterMark: READ_BYTES }), progress.update);
  } catch (cause) {
    throw unusable('read', path, cause);
  } finally {
    progress.stop();
  }
}

async function digest(
  chunks: AsyncIterable<Uint8Array>,
  onBytes: (bytes: number) => void,
): Promise<DocumentDigests> {
  const [sha256, sha512] = [createHash('sha256'), createHash('sha512')];
  let bytes = 0;
  for await (const chunk of chunks) {
    sha256.update(chunk);
    sha512.update(chunk);
    bytes += chunk.length;
    onBytes(bytes);
  }
  return { sha256: sha256.digest('hex'), sha512: sha512.digest('hex'), bytes };
}

/** Text of a small file. Throws OperatorError when it cannot be read, or has more than `bytesMax` bytes. */
export function readTextFile(path: string, bytesMax: number): string {
  return readSmallFile(path, bytesMax).toString('utf8');
}

/** Bytes of a small file. Throws OperatorError when it cannot be read, or has more than `bytesMax` bytes. */
export function readSmallFile(path: string, bytesMax: number): Buffer {
  if (sizeOf(path) > bytesMax) throw new OperatorError(`${path} is larger than ${bytesMax} bytes`);
  try {
    return readFileSync(path);
  } catch (cause) {
    throw unusable('read', path, cause);
  }
}

function sizeOf(path: string): number {
  try {
    return statSync(path).size;
  } catch (cause) {
    throw unusable('read', path, cause);
  }
}

/** Replaces a file by one that is complete and on disk. Throws OperatorError, and then leaves the old file. */
export function writeFileAtomically(path: string, content: string | Uint8Array): void {
  withDraft(path, content, (draft) => renameSync(draft, path));
}

/** Like {@link writeFileAtomically}, but returns false, and does nothing, if the file exists. */
export function createFileAtomically(path: string, text: string, mode?: number): boolean {
  return withDraft(path, text, (draft) => linkedAs(path, draft), mode);
}

/** Returns false, and does nothing, if the file exists. */
function linkedAs(path: string, draft: string): boolean {
  try {
    linkSync(draft, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw unusable('write', path, error);
  }
}

function openForUser(path: string): number {
  try {
    return openSync(path, 'wx', 0o644);
  } catch (cause) {
    throw unusable('write', path, cause);
  }
}

// Synchronous, so that an interrupt finds either no file or the whole one.
function withDraft<T>(
  path: string,
  content: string | Uint8Array,
  publish: (draft: string) => T,
  mode = 0o644,
): T {
  const draft = `${path}.${process.pid}.new`;
  try {
    const file = openSync(draft, 'wx', mode);
    try {
      writeFileSync(file, content);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    const published = publish(draft);
    syncName(path);
    return published;
  } catch (cause) {
    throw unusable('write', path, cause);
  } finally {
    rmSync(draft, { force: true });
  }
}

/** Waits until the name of a file is on disk: without it, the file is gone after a power cut. Some network shares cannot do this. */
function syncName(path: string): void {
  const folder = openSync(dirname(path), 'r');
  try {
    fsyncSync(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EINVAL') throw error;
  } finally {
    closeSync(folder);
  }
}

/**
 * Writes a document that must have these digests, completely and on disk, or not at all. Returns false, and does nothing, if the file
 * exists and `replace` is not set. Throws OperatorError; an Error if the bytes have other digests.
 */
export async function saveDocument(
  path: string,
  chunks: AsyncIterable<Uint8Array>,
  expected: DocumentDigests,
  replace: boolean,
): Promise<boolean> {
  const draft = `${path}.${process.pid}.new`;
  try {
    const file = openForUser(draft);
    try {
      const written = async function* () {
        for await (const chunk of chunks) {
          writeFileSync(file, chunk);
          yield chunk;
        }
      };
      const digests = await digest(written(), () => {});
      if (!isDeepStrictEqual(digests, expected)) throw new Error('the document was damaged on the way');
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    if (replace) renameSync(draft, path);
    const isSaved = replace || linkedAs(path, draft);
    syncName(path);
    return isSaved;
  } finally {
    rmSync(draft, { force: true });
  }
}

/** The error for a file that a user named, with the system's reason. Any other cause is a bug, and is thrown as it is. */
export function unusable(verb: 'read' | 'write', path: string, cause: unknown): OperatorError {
  if (cause instanceof Error && 'code' in cause) {
    // pdfseal-run changes to / if the daemon's user may not enter the caller's folder.
    const isAstray = !isAbsolute(path) && process.cwd() === '/';
    const remedy = isAstray
      ? { remedy: `the command looked for it in /: give the whole path, /…/${path}` }
      : {};
    return new OperatorError(`cannot ${verb} ${path} (${systemReason(cause)})`, { cause, ...remedy });
  }
  throw cause;
}
