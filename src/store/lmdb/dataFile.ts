import { closeSync, fstatSync, openSync } from 'node:fs';
import { OperatorError } from '../../base/errors.ts';
import { formatBytes } from '../../base/units.ts';
import { newestMeta, PageFault, walkPages } from './pageWalk.ts';

/** What an administrator does about a store that was damaged. */
export const RESTORE =
  'find the cause (the disk, or a copy that was interrupted), and restore the newest backup';

/** To look at all pages of a larger file would keep those who commit waiting. */
const WALKED_BYTES_MAX = 64 * 2 ** 20;

/**
 * Throws OperatorError if a data file has not all the pages that its newest transaction refers to; and if it is no larger than
 * 64 MiB, also if one of them is damaged. LMDB maps the file without looking: on a page that is not there or not in order, the process
 * ends (SIGBUS, SIGSEGV), and on a file without LMDB's meta pages lmdb-js crashes too. Nobody may commit meanwhile.
 */
export function assertWholeFile(path: string): void {
  const file = openSync(path, 'r');
  try {
    const fault = faultOfFile(file);
    if (fault !== undefined) throw new OperatorError(`${path} ${fault}: ${RESTORE}`);
  } finally {
    closeSync(file);
  }
}

function faultOfFile(file: number): string | undefined {
  const meta = newestMeta(file);
  if (meta === undefined) return 'is damaged or not of LMDB';
  const { pageBytes, lastPage } = meta;
  const { size } = fstatSync(file);
  const bytes = (lastPage + 1) * pageBytes;
  // A file may be shorter if its last pages are free, which is rare: then every page that is in use is looked at.
  if (size >= bytes && size > WALKED_BYTES_MAX) return undefined;
  try {
    walkPages(file, meta, Math.floor(size / pageBytes));
    return undefined;
  } catch (error) {
    // A page that is none has offsets beyond its end.
    if (!(error instanceof RangeError) && !(error instanceof PageFault)) throw error;
    if (error instanceof PageFault && error.isMissing)
      return `is cut short: it has ${formatBytes(size)} of ${formatBytes(bytes)}`;
    return `is damaged (${error instanceof PageFault ? error.message : 'a page refers beyond its end'})`;
  }
}
