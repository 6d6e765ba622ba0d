import { accessSync, constants, existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { OperatorError } from '../../base/errors.ts';
import { remedyFor, systemReason } from '../../base/systemReason.ts';
import { formatBytes } from '../../base/units.ts';

/** The map that follows the present one is twice its size, and both are there for a moment. */
const MAP_GROWTH = 4;
/** What Node takes itself. */
const MAP_BYTES_SPARE = 16 * 2 ** 30;

/** A store that is not ours to read is there all the same: nobody must be told to make another. */
export function assertIsThere(path: string): void {
  const file = join(path, 'data.mdb');
  try {
    accessSync(file, constants.R_OK);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT')
      throw new OperatorError(`there is no store in ${path}: make one with \`pdfseal init\``, { cause });
    throw cannotOpen(file, cause);
  }
}

/** Throws OperatorError, with the remedy, where files of LMDB would not let us write. */
export function assertIsWritable(path: string): void {
  for (const file of ['data.mdb', 'lock.mdb']
    .map((name) => join(path, name))
    .filter((name) => existsSync(name))) {
    try {
      accessSync(file, constants.R_OK | constants.W_OK);
    } catch (cause) {
      throw cannotOpen(file, cause);
    }
  }
  assertCanGrow(join(path, 'data.mdb'));
}

/** LMDB maps the whole file, and doubles the map as the file grows. Where that fails, it ends the process without a word. */
function assertCanGrow(file: string): void {
  const limit = addressSpaceBytesMax();
  if (limit >= statSync(file).size * MAP_GROWTH + MAP_BYTES_SPARE) return;
  throw new OperatorError(
    `this process may have ${formatBytes(limit)} of address space, too little for ${file} to grow: lift that limit (LimitAS=infinity, ulimit -v unlimited)`,
  );
}

/** The soft limit RLIMIT_AS (getrlimit(2)), which Node does not tell. */
function addressSpaceBytesMax(): number {
  const [, limit] = /^Max address space +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1')) ?? [];
  return limit === undefined ? Number.POSITIVE_INFINITY : Number(limit);
}

function cannotOpen(file: string, cause: unknown): OperatorError {
  return new OperatorError(`cannot open ${file} (${systemReason(cause)}): ${remedyFor(cause)}`, { cause });
}
