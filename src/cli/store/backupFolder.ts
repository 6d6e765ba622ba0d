import { cpSync, existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { z } from 'zod';
import { OperatorError } from '../../base/errors.ts';
import { systemReason } from '../../base/systemReason.ts';
import type { Config } from '../../config/config.ts';
import type { Store } from '../../store/store.ts';
import { digestFile } from '../files.ts';
import { runCheck } from './checkCommand.ts';
import { flawCount } from './storeCheck.ts';

/** Folders of the state beside the store that belong to it; the trust file is exported anew whenever it is wanted. */
export const FOLDERS = ['certificates', 'documents'];
/** What a backup says of itself. */
export const DESCRIPTION = 'backup.json';
/** LMDB's table of readers is of one place, and made anew. */
const LOCK = 'lock.mdb';

const backupSchema = z.object({
  environment: z.string(),
  log_origin: z.string(),
  tree_size: z.int(),
  /** Entries of indexes that are to be mended: a copy that is made before a repair has some. */
  index_flaws: z.int(),
  /** The newest checkpoint in the copy; null for an empty log. */
  checkpoint: z.string().nullable(),
  created_at: z.iso.datetime(),
  version: z.string(),
  /** SHA-256 of every file of the copy: LMDB itself does not survive the reading of some damaged pages. */
  files: z.record(z.string(), z.string()),
});
export type BackupFile = z.infer<typeof backupSchema>;

/** What a backup says of itself. Throws OperatorError when it is of another environment or log, or no backup at all. */
export function readBackup(from: string, { environment, log }: Config): BackupFile {
  let made: BackupFile;
  try {
    made = backupSchema.parse(JSON.parse(readFileSync(join(from, DESCRIPTION), 'utf8')));
  } catch (cause) {
    throw new OperatorError(`${from} is not a backup of pdfseal: its backup.json cannot be read`, { cause });
  }
  if (made.environment !== environment || made.log_origin !== log.origin) {
    throw new OperatorError(
      `${from} is of ${made.environment}, ${made.log_origin}; the configuration is of ${environment}, ${log.origin}`,
    );
  }
  return made;
}

/**
 * Throws OperatorError unless everything in the store holds together, as a check has it. Returns how many entries of indexes are to be
 * mended; with `flawsMax` so many are let pass.
 */
export async function requireGood(store: Store, config: Config, { flawsMax = 0 } = {}): Promise<number> {
  const { problems, problemCount, indexes, flaws } = await runCheck(store, config);
  const count = indexes === undefined ? 0 : flawCount(indexes);
  if (problemCount > 0) throw new OperatorError(`the copy does not hold together:\n${problems.join('\n')}`);
  if (count > flawsMax)
    throw new OperatorError(
      `the indexes of the copy are not as they follow; \`pdfseal repair-index\` mends those of the store:\n${flaws.join('\n')}`,
    );
  return count;
}

export function copyFolder(from: string, to: string): void {
  if (!existsSync(from)) return;
  cpSync(from, to, {
    recursive: true,
    preserveTimestamps: true,
    filter: (path) => basename(path) !== LOCK,
  });
}

/** What an administrator can mend, of what the system said. */
export function asOperatorError(error: unknown, what: string): unknown {
  if (error instanceof OperatorError || !(error instanceof Error && 'code' in error)) return error;
  return new OperatorError(`${what} (${systemReason(error)})`, { cause: error });
}

/** SHA-256 of every file in a folder, by its path in it. */
export async function digestTree(folder: string): Promise<BackupFile['files']> {
  const paths = readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort();
  const digests: BackupFile['files'] = {};
  for (const path of paths) {
    const isPart = path !== DESCRIPTION && basename(path) !== LOCK && statSync(join(folder, path)).isFile();
    if (isPart) digests[path] = (await digestFile(join(folder, path))).sha256;
  }
  return digests;
}

/** Throws OperatorError, naming the file, when a backup is not as it was made. */
export async function requireUnchanged(folder: string, { files }: BackupFile): Promise<void> {
  const found = await digestTree(folder);
  for (const path of new Set([...Object.keys(files), ...Object.keys(found)])) {
    if (found[path] !== files[path])
      throw new OperatorError(
        `${join(folder, path)} is not as it was when the backup was made: restore another one`,
      );
  }
}
