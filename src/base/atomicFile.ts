/** Files that exist either completely or not at all. */
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

/** The bytes of a file. Throws OperatorError if it cannot be read. */
export function readWholeFile(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (cause) {
    throw unusable('read', path, cause);
  }
}

/** Replaces a file with one that is complete and on disk. If it throws OperatorError, the old file is unchanged. */
export function writeFileAtomically(path: string, content: string | Uint8Array): void {
  withDraft(path, content, (draft) => renameSync(draft, path));
}

/** Like {@link writeFileAtomically}, but if the file exists, it does nothing and returns false. */
export function createFileAtomically(path: string, text: string, mode?: number): boolean {
  return withDraft(path, text, (draft) => linkedAs(path, draft), mode);
}

/** If the file exists, does nothing and returns false. */
export function linkedAs(path: string, draft: string): boolean {
  try {
    linkSync(draft, path);
    return true;
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false;
    throw unusable('write', path, error);
  }
}

// Synchronous, so that an interruption leaves either no file or a complete one.
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

/** Waits until the name of a file is on disk: otherwise the file is lost in a power failure. Some network shares do not support this. */
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

/** The error for a file named by the user, with the system's reason. Any other cause is a bug, and is rethrown. */
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
