import { createHash } from 'node:crypto';
import {
  closeSync,
  createReadStream,
  fsyncSync,
  linkSync,
  openSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { OperatorError } from '../base/errors.ts';
import type { DocumentDigests } from '../job/job.ts';

const READ_BYTES = 1 << 18;

/** Both digests of a file in one pass, however large it is. Throws OperatorError when it cannot be read. */
export async function digestFile(
  path: string,
  onBytes: (bytes: number) => void = () => {},
): Promise<DocumentDigests> {
  const [sha256, sha512] = [createHash('sha256'), createHash('sha512')];
  let bytes = 0;
  try {
    for await (const chunk of createReadStream(path, { highWaterMark: READ_BYTES })) {
      sha256.update(chunk);
      sha512.update(chunk);
      bytes += chunk.length;
      onBytes(bytes);
    }
  } catch (cause) {
    throw unusable('read', path, cause);
  }
  return { sha256: sha256.digest('hex'), sha512: sha512.digest('hex'), bytes };
}

/** Replaces a file by one that is whole and on disk. Throws OperatorError, and then leaves what was there. */
export function writeFileAtomically(path: string, text: string): void {
  withDraft(path, text, (draft) => renameSync(draft, path));
}

/** Like {@link writeFileAtomically}, but false, and nothing done, when there is such a file already. */
export function createFileAtomically(path: string, text: string): boolean {
  return withDraft(path, text, (draft) => {
    try {
      linkSync(draft, path);
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
      throw error;
    }
  });
}

// Without a break for the event loop, so that an interrupt finds either nothing or the file.
function withDraft<T>(path: string, text: string, publish: (draft: string) => T): T {
  const draft = `${path}.${process.pid}.new`;
  try {
    const file = openSync(draft, 'wx', 0o644);
    try {
      writeFileSync(file, text);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    return publish(draft);
  } catch (cause) {
    throw unusable('write', path, cause);
  } finally {
    rmSync(draft, { force: true });
  }
}

/** The error for a file an administrator or a user named. */
export function unusable(verb: 'read' | 'write', path: string, cause: unknown): OperatorError {
  const why = cause instanceof Error && 'code' in cause ? cause.code : cause;
  return new OperatorError(`cannot ${verb} ${path} (${why})`, { cause });
}
