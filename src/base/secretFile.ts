import { closeSync, constants, fstatSync, openSync } from 'node:fs';

/** The fault of a file that should hold a secret; `unreadable` has the error of the system as its cause. */
export type SecretFault = 'unreadable' | 'empty' | 'not_small' | 'exposed';

/**
 * Lets `use` read a small file with a secret from the open file: the file that was examined is the one that is read. For any other file it
 * throws what `fail` returns, without having read it. Others than owner and group must have no access.
 */
export function withSecretFile<Result>(
  path: string,
  bytesMax: number,
  fail: (fault: SecretFault, cause?: unknown) => Error,
  use: (file: number) => Result,
): Result {
  const file = open(path, fail);
  try {
    const stats = fstatSync(file);
    if (stats.size === 0 && stats.isFile()) throw fail('empty');
    if (!stats.isFile() || stats.size > bytesMax) throw fail('not_small');
    if ((stats.mode & 0o007) !== 0) throw fail('exposed');
    return use(file);
  } finally {
    closeSync(file);
  }
}

/** Not blocking, so that a FIFO put there by mistake is refused instead of waited for. */
function open(path: string, fail: (fault: SecretFault, cause: unknown) => Error): number {
  try {
    return openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (cause) {
    throw fail('unreadable', cause);
  }
}
