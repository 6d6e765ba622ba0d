import { getSystemErrorMap } from 'node:util';

const REMEDIES: Readonly<Record<string, string>> = {
  EROFS: 'mount its file system for writing',
  ENOSPC: 'free space on its disk',
  EDQUOT: 'raise the disk quota of this user',
  EIO: 'repair or replace its disk: the log of the kernel (dmesg) says what failed',
  EMFILE: 'raise the number of files this process may open (LimitNOFILE=)',
};

/** The code of an error of the system, of Node.js or of OpenSSL; empty if the error has none. */
export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}

/** The remedy that makes the disk writable again; undefined for an error of another kind. */
export function diskRemedy(cause: unknown): string | undefined {
  return REMEDIES[codeOf(cause)];
}

/** The administrator's remedy for a file that cannot be opened. */
export function remedyFor(cause: unknown): string {
  return diskRemedy(cause) ?? 'run this as the user that owns the folder';
}

/** The system's own message, such as "permission denied", for messages to administrators. */
export function systemReason(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  const [, text] = ('errno' in cause && getSystemErrorMap().get(cause.errno as number)) || [];
  return text ?? cause.message;
}
