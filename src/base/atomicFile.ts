/** Files that are there whole, or not at all. */
import {
  closeSync,
  fsyncSync,
  linkSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, isAbsolute } from 'node:path';
import { OperatorError } from './errors.ts';
import { codeOf, systemReason } from './systemReason.ts';

/** The bytes of a file. Throws OperatorError where it cannot be read. */
export function readWholeFile(path: string): Buffer {
  try {
    return readFileSync(path);
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
export function linkedAs(path: string, draft: string): boolean {
  try {
    linkSync(draft, path);
    return true;
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false;
    throw unusable('write', path, error);
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
    writeFileSync(draft, content, { flag: 'wx', mode, flush: true });
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
export function syncName(path: string): void {
  const folder = openSync(dirname(path), 'r');
  try {
    fsyncSync(folder);
  } catch (error) {
    if (codeOf(error) !== 'EINVAL') throw error;
  } finally {
    closeSync(folder);
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
