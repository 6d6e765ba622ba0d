import { type BigIntStats, closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { systemReason } from '../base/systemReason.ts';
import { SignerFailure } from './signerFailure.ts';

/** More than any token's ulMaxPinLen; keeps a wrong path from being read whole. */
const PIN_FILE_BYTES_MAX = 1024;
/** How often a refused PIN's file is looked at (not read). */
const WATCH_INTERVAL_MS = 500;

export interface Pin {
  value: string;
  /** Version of the file it was read from. */
  version: string;
}

/**
 * The PIN in `path`, without its final line break; `source` names the file to administrators. Throws SignerFailure
 * `pin_file_unreadable`, `pin_file_exposed` (others than owner and group have any access) or `pin_file_invalid`. Only the signer
 * calls this: the PIN never enters the process that talks to the network.
 */
export function readPin(path: string, source = path): Pin {
  return withPinFile(path, source, (file, version) => {
    const value = readFileSync(file, 'utf8').replace(/\r?\n$/, '');
    if (value === '') throw emptyFile(source);
    return { value, version };
  });
}

/** Throws what {@link readPin} would, as far as that can be told without reading it. */
export function inspectPinFile(path: string, source = path): void {
  withPinFile(path, source, () => {});
}

function withPinFile<Result>(
  path: string,
  source: string,
  use: (file: number, version: string) => Result,
): Result {
  // Not blocking, so that a FIFO put there by mistake is refused instead of waited for.
  const file = openOrFail(path, source);
  try {
    const stats = fstatSync(file, { bigint: true });
    if (stats.size === 0n && stats.isFile()) throw emptyFile(source);
    if (!stats.isFile() || stats.size > PIN_FILE_BYTES_MAX) {
      throw new SignerFailure('pin_file_invalid', `the PIN file ${source} is not a small regular file`);
    }
    if ((stats.mode & 0o007n) !== 0n) {
      throw new SignerFailure('pin_file_exposed', `the PIN file ${source} is open to others`);
    }
    return use(file, versionOf(stats));
  } finally {
    closeSync(file);
  }
}

function emptyFile(source: string): SignerFailure {
  return new SignerFailure('pin_file_invalid', `the PIN file ${source} is empty`);
}

function openOrFail(path: string, source: string): number {
  try {
    return openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    throw new SignerFailure(
      'pin_file_unreadable',
      `cannot open the PIN file ${source} (${systemReason(error)})`,
    );
  }
}

/** Changes whenever the file is written or replaced; undefined while there is none. Does not read it. */
export async function pinFileVersion(path: string): Promise<string | undefined> {
  try {
    return versionOf(await stat(path, { bigint: true }));
  } catch {
    return undefined;
  }
}

/**
 * Resolves when the file has another version than that of the refused PIN, or when the signal aborts. A file that is missing for a moment
 * has not changed: it could return with the refused PIN in it.
 */
export async function pinFileChange(
  path: string,
  refused: string | undefined,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    await sleep(WATCH_INTERVAL_MS, undefined, { signal }).catch(() => {});
    const version = await pinFileVersion(path);
    if (version !== undefined && version !== refused) return;
  }
}

function versionOf(stats: BigIntStats): string {
  return `${stats.ino}:${stats.size}:${stats.mtimeNs}`;
}
