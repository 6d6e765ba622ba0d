import { closeSync, fstatSync, openSync } from 'node:fs';
import { OperatorError } from '../../base/errors.ts';
import { formatBytes } from '../../base/units.ts';
import { newestMeta, PageFault, walkPages } from './pageWalk.ts';

/** The remedy for a damaged store. */
export const RESTORE =
  'find the cause (the disk, or a copy that was interrupted), and restore the newest backup';

/** A start checks all pages only up to this size, which takes 0.15 s. */
const WALKED_BYTES_MAX = 64 * 2 ** 20;

/**
 * Reads the newest transaction of a data file; no process may commit meanwhile. The returned function checks the pages to which it refers,
 * while a read transaction that is not newer is open: so these pages cannot be reused. It throws OperatorError if the file lacks any of
 * them; and if the file is no larger than 64 MiB, or `isThorough`, also if one of them is damaged. LMDB maps the file without checks: on a
 * missing or invalid page, the process ends (SIGBUS, SIGSEGV). Throws OperatorError for a file without LMDB's meta pages, on which lmdb-js
 * crashes.
 */
export function beginWalk(path: string, isThorough = false): () => void {
  const { meta, size } = reading(path, (file) => ({ meta: newestMeta(file), size: fstatSync(file).size }));
  if (meta === undefined) throw damaged(path, 'is damaged or not of LMDB');
  const bytes = (meta.lastPage + 1) * meta.pageBytes;
  // A file may be shorter if its last pages are free, which is rare: then every page that is in use is checked.
  if (size >= bytes && size > WALKED_BYTES_MAX && !isThorough) return () => {};
  return () => {
    try {
      reading(path, (file) => walkPages(file, meta, Math.floor(size / meta.pageBytes)));
    } catch (error) {
      // An invalid page has offsets beyond its end.
      if (!(error instanceof RangeError) && !(error instanceof PageFault)) throw error;
      if (error instanceof PageFault && error.isMissing)
        throw damaged(path, `is cut short: it has ${formatBytes(size)} of ${formatBytes(bytes)}`);
      throw damaged(
        path,
        `is damaged (${error instanceof PageFault ? error.message : 'a page refers beyond its end'})`,
      );
    }
  };
}

function reading<T>(path: string, use: (file: number) => T): T {
  const file = openSync(path, 'r');
  try {
    return use(file);
  } finally {
    closeSync(file);
  }
}

function damaged(path: string, fault: string): OperatorError {
  return new OperatorError(`${path} ${fault}: ${RESTORE}`);
}
