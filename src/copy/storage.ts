import { statfsSync } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { ServiceError } from '../base/errors.ts';
import { codeOf } from '../base/systemReason.ts';

const RETRY_AFTER_SECONDS = 60;
const FULL = new Set(['ENOSPC', 'EDQUOT']);

/**
 * Throws ServiceError `storage_full` unless the folder's disk has this many bytes free. The call takes a microsecond; its turn in the thread
 * pool of a busy daemon would take milliseconds.
 */
export function requireDiskSpace(folder: string, bytes: number): void {
  const { bavail, bsize } = statfsSync(folder);
  if (bavail * bsize < bytes) throw storageFull();
}

/** Writes all of the chunks, one after the other, from that position of the file on. */
export async function writeChunks(
  file: FileHandle,
  chunks: readonly Buffer[],
  position: number,
): Promise<void> {
  let [rest, at] = [chunks, position];
  while (rest.length > 0) {
    const { bytesWritten } = await file.writev(rest, at);
    at += bytesWritten;
    rest = after(rest, bytesWritten);
  }
}

/** What follows so many bytes. */
function after(chunks: readonly Buffer[], bytes: number): readonly Buffer[] {
  let left = bytes;
  const first = chunks.findIndex(({ length }) => {
    left -= length;
    return left < 0;
  });
  const [partly, ...others] = first === -1 ? [] : chunks.slice(first);
  return partly === undefined ? [] : [partly.subarray(partly.length + left), ...others];
}

/** The error to throw for an error of the file system: `storage_full`, or the error itself. */
export function storageFailure(error: unknown): unknown {
  return isStorageFull(error) ? storageFull(error) : error;
}

export function isStorageFull(error: unknown): boolean {
  return FULL.has(codeOf(error));
}

export function storageFull(cause?: unknown): ServiceError {
  const message = 'The service has no room for a copy of the document at the moment. Nothing was recorded.';
  return new ServiceError('storage_full', message, { retryAfterSeconds: RETRY_AFTER_SECONDS, cause });
}
