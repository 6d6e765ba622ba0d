import { createHash } from 'node:crypto';
import {
  closeSync,
  createReadStream,
  fsyncSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { linkedAs, readWholeFile, syncName, unusable } from '../base/atomicFile.ts';
import { OperatorError } from '../base/errors.ts';
import type { DocumentDigests } from '../job/job.ts';
import { RECEIPT_BYTES_MAX } from '../prove/verify/receiptText.ts';
import { showProgress } from './terminal.ts';

const READ_BYTES = 1 << 18;

/** Computes both digests of a file, or of its first bytes, in one pass, however large it is. Throws OperatorError if it cannot be read. */
export async function digestFile(
  path: string,
  progress = showProgress(`reading ${basename(path)}`, sizeOf(path), 'bytes'),
  bytes = Infinity,
): Promise<DocumentDigests> {
  try {
    return await digest(firstBytes(path, bytes), progress.update);
  } catch (cause) {
    throw unusable('read', path, cause);
  } finally {
    progress.stop();
  }
}

/** The first bytes of a file, or all. */
export function firstBytes(path: string, bytes = Infinity): AsyncIterable<Uint8Array> {
  return createReadStream(path, { highWaterMark: READ_BYTES, end: bytes - 1 });
}

/** A file that is read at any place. Closed with the result. Throws OperatorError if it cannot be read. */
export function openAnyPlace(path: string) {
  const size = sizeOf(path);
  const whileReading = <T>(act: () => T): T => {
    try {
      return act();
    } catch (cause) {
      throw unusable('read', path, cause);
    }
  };
  const file = whileReading(() => openSync(path, 'r'));
  const read = (offset: number, length: number) => {
    const data = Buffer.alloc(Math.max(0, Math.min(length, size - offset)));
    return data.subarray(
      0,
      whileReading(() => readSync(file, data, 0, data.length, offset)),
    );
  };
  return { size, read, [Symbol.dispose]: () => closeSync(file) };
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

/** Reads the text of a small file. Throws OperatorError if it cannot be read, or has more than `bytesMax` bytes. */
export function readTextFile(path: string, bytesMax: number): string {
  return readSmallFile(path, bytesMax).toString('utf8');
}

/** Reads the bytes of a small file. Throws OperatorError if it cannot be read, or has more than `bytesMax` bytes. */
export function readSmallFile(path: string, bytesMax: number): Buffer {
  if (sizeOf(path) > bytesMax) throw new OperatorError(`${path} is larger than ${bytesMax} bytes`);
  return readWholeFile(path);
}

export function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

/** All files below a folder, each folder in the order of the names. Links to folders are not followed. Throws OperatorError. */
export function filesBelow(folder: string): string[] {
  try {
    const entries = readdirSync(folder, { withFileTypes: true });
    return entries
      .sort((a, b) => (a.name < b.name ? -1 : 1))
      .flatMap((entry) => {
        const path = join(folder, entry.name);
        if (entry.isDirectory()) return filesBelow(path);
        return entry.isFile() || isFileBehind(path) ? [path] : [];
      });
  } catch (cause) {
    throw unusable('read', folder, cause);
  }
}

function isFileBehind(link: string): boolean {
  return statSync(link, { throwIfNoEntry: false })?.isFile() ?? false;
}

function sizeOf(path: string): number {
  try {
    return statSync(path).size;
  } catch (cause) {
    throw unusable('read', path, cause);
  }
}

function openForUser(path: string): number {
  try {
    return openSync(path, 'wx', 0o644);
  } catch (cause) {
    throw unusable('write', path, cause);
  }
}

/** Reads a document to its end. Returns whether it is the expected one. */
export type DocumentCheck = (chunks: AsyncIterable<Uint8Array>) => Promise<boolean>;

/** Whether the document has these digests. */
export function hasDigests(expected: DocumentDigests): DocumentCheck {
  return async (chunks) => isDeepStrictEqual(await digest(chunks, () => {}), expected);
}

/** Whether it begins with this document, and has the receipt behind it. That nothing else is behind it is what `pdfseal verify` finds out. */
export function isSealed(beginning: DocumentDigests, receipt: string): DocumentCheck {
  return async (chunks) => {
    const suffix: Uint8Array[] = [];
    let suffixBytes = 0;
    async function* beginningOf(): AsyncGenerator<Uint8Array> {
      let bytes = 0;
      for await (const chunk of chunks) {
        const part = chunk.subarray(0, beginning.bytes - bytes);
        if (part.length > 0) yield part;
        bytes += part.length;
        if (part.length === chunk.length) continue;
        suffixBytes += chunk.length - part.length;
        if (suffixBytes > 3 * RECEIPT_BYTES_MAX) return; // two digits for each byte, and the rest
        suffix.push(chunk.subarray(part.length));
      }
    }
    return (
      (await hasDigests(beginning)(beginningOf())) &&
      Buffer.concat(suffix).includes(Buffer.from(receipt).toString('hex'))
    );
  };
}

/**
 * Writes a document that must pass the check, completely and on disk, or not at all. Returns false, and does nothing, if the file exists
 * and `replace` is not set. Throws OperatorError; an Error if the bytes do not pass.
 */
export async function saveDocument(
  path: string,
  chunks: AsyncIterable<Uint8Array>,
  isExpected: DocumentCheck,
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
      if (!(await isExpected(written()))) throw new Error('the document was damaged on the way');
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
