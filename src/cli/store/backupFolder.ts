import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import * as z from 'zod';
import { OperatorError } from '../../base/errors.ts';
import { diskRemedy, systemReason } from '../../base/systemReason.ts';
import type { Config } from '../../config/config.ts';
import { readForCopy } from '../../kms/treeFile.ts';
import { openCheckpoint } from '../../log/signedCheckpoint.ts';
import { contradiction, type EarlierState } from '../../prove/trail/history.ts';
import { describeStore, type StoreLocation, storeExists } from '../../store/engines.ts';
import type { Store } from '../../store/store.ts';
import { digestFile } from '../files.ts';
import { note } from '../terminal.ts';
import { withStoreAt } from '../withStore.ts';
import { runCheck, withProblems } from './runCheck.ts';
import { flawCount, type StoreReport } from './storeReport.ts';

/** Folders of the state in addition to the store. */
export const FOLDERS = ['certificates', 'documents'];
/** The trust file that was handed out, and the folder of what the daemon's signers remember. */
export const TRUST_FILE = 'trust.json';
export const SIGNERS = 'signers';
/**
 * Files that a restore brings back only if they are missing: the trust file that was handed out, and the trees that signers remember, which
 * must never become older. A backup copies the trees before the store, so that the store contains them.
 */
export const KEPT = [TRUST_FILE, SIGNERS];
/** The file that describes a backup. */
export const DESCRIPTION = 'backup.json';
/** Locks belong to one place: LMDB's table of readers, and the lock of the process that signs. */
const LOCK = /^lock\.mdb$|\.lock$/;

const backupSchema = z.object({
  environment: z.string(),
  log_origin: z.string(),
  tree_size: z.int(),
  /** Wrong entries of indexes: a copy made before a repair has some. */
  index_flaws: z.int(),
  /** The newest checkpoint in the copy; null for an empty log. */
  checkpoint: z.string().nullable(),
  created_at: z.iso.datetime(),
  version: z.string(),
  /** SHA-256 of every file of the copy: LMDB crashes on some damaged pages, so files are compared before it opens them. */
  files: z.record(z.string(), z.string()),
});
export type BackupFile = z.infer<typeof backupSchema>;

/** Reads the description of a backup. Throws OperatorError if it is not a backup, or is of another environment or log. */
export function readBackup(from: string, { environment, log }: Config): BackupFile {
  let made: BackupFile;
  try {
    made = backupSchema.parse(JSON.parse(readFileSync(join(from, DESCRIPTION), 'utf8')));
  } catch (cause) {
    throw new OperatorError(`${from} is not a backup of pdfseal: its backup.json cannot be read`, { cause });
  }
  if (made.environment !== environment || made.log_origin !== log.origin) {
    throw new OperatorError(
      `${from} is a backup of ${made.environment}, ${made.log_origin}; the configuration is of ${environment}, ${log.origin}`,
    );
  }
  return made;
}

/**
 * Throws OperatorError unless `pdfseal check` finds the store good. Returns the number of wrong index entries; up to `flawsMax` are
 * accepted.
 */
export async function requireGood(
  store: Store,
  config: Config,
  { flawsMax = 0 } = {},
  noted?: EarlierState,
): Promise<number> {
  const { problems, problemCount, indexes, flaws } = await runCheck(store, config, noted);
  const count = indexes === undefined ? 0 : flawCount(indexes);
  if (problemCount > 0) throw new OperatorError(`the copy is bad:\n${problems.join('\n')}`);
  if (count > flawsMax)
    throw new OperatorError(
      `the indexes of the copy are wrong; repair those of the store with \`pdfseal repair-index\`:\n${flaws.join('\n')}`,
    );
  return count;
}

/** Copies the store and the folders next to it, each to `<to>/<name><ending>`. */
export function copyState(from: string, to: string, ending = ''): void {
  for (const name of ['store', ...FOLDERS]) copyFolder(join(from, name), join(to, `${name}${ending}`));
}

/** Copies a file or a folder, if it exists. */
export function copyFolder(from: string, to: string): void {
  if (!existsSync(from)) return;
  cpSync(from, to, {
    recursive: true,
    preserveTimestamps: true,
    filter: (path) => !LOCK.test(basename(path)),
  });
}

/** Copies what signers remember, if there is something, while they may write it. */
export function copySigners(from: string, to: string): void {
  if (!existsSync(from)) return;
  mkdirSync(to, { mode: 0o700 });
  for (const name of readdirSync(from).filter((name) => !LOCK.test(name)))
    writeFileSync(join(to, name), readForCopy(join(from, name)), { mode: 0o600 });
}

/**
 * Throws OperatorError unless the store of a backup is good, with the certificates in the backup: after the loss of a machine there are no
 * others.
 */
export function requireGoodState(store: Store, folder: string, made: BackupFile, config: Config) {
  return requireGood(store, broughtBy(folder, config), { flawsMax: made.index_flaws }, notedIn(folder, made));
}

/**
 * Checks a backup in its place. Its log is compared with the checkpoint that the backup itself noted, and must be the beginning of the log
 * in the store, if there is one: so every backup of a log is good, however far the log has grown since. Throws OperatorError.
 */
export async function checkBackup(folder: string, config: Config): Promise<StoreReport> {
  const made = readBackup(folder, config);
  await requireUnchanged(folder, made);
  const report = await withStoreAt(storeIn(folder), { readOnly: true }, (store) =>
    runCheck(store, broughtBy(folder, config), notedIn(folder, made)),
  );
  const problem = await whyNotContinued(made, config);
  return problem === undefined ? report : withProblems(report, [problem]);
}

/**
 * The reason why the log in the store does not continue the log in a backup; undefined if it does, or if there is no store that can be
 * opened.
 */
export async function whyNotContinued(
  { checkpoint }: BackupFile,
  config: Config,
): Promise<string | undefined> {
  const noted = checkpoint === null ? undefined : openCheckpoint(checkpoint)?.checkpoint;
  if (noted === undefined || !(await storeExists(config.store))) return undefined;
  try {
    const found = await withStoreAt(config.store, { readOnly: true }, async (store) =>
      contradiction(store, noted, await store.log.head()),
    );
    return (
      found &&
      `the store in ${describeStore(config.store)} does not continue the log of this backup: ${found}`
    );
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    note(`pdfseal: the backup was not compared with the store: ${error.message}`);
    return undefined;
  }
}

/** The configuration with the files that a backup contains. */
function broughtBy(folder: string, config: Config): Config {
  return { ...config, certificatesDir: join(folder, 'certificates') };
}

/** The last checkpoint of the log when the backup was made; undefined for an empty log. */
function notedIn(folder: string, { checkpoint }: BackupFile): EarlierState | undefined {
  return checkpoint === null ? undefined : { text: checkpoint, from: join(folder, DESCRIPTION) };
}

/** Turns a system error into one that an administrator can correct. */
export function asOperatorError(error: unknown, what: string): unknown {
  if (error instanceof OperatorError || !(error instanceof Error && 'code' in error)) return error;
  const remedy = diskRemedy(error);
  return new OperatorError(`${what} (${systemReason(error)})`, {
    cause: error,
    remedy,
  });
}

export function storeIn(folder: string): StoreLocation {
  return { engine: 'lmdb', path: join(folder, 'store') };
}

/** SHA-256 of every file in a folder, by its path in it. */
export async function digestTree(folder: string): Promise<BackupFile['files']> {
  const paths = readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort();
  const digests: BackupFile['files'] = {};
  for (const path of paths) {
    const isPart =
      path !== DESCRIPTION && !LOCK.test(basename(path)) && statSync(join(folder, path)).isFile();
    if (isPart) digests[path] = (await digestFile(join(folder, path))).sha256;
  }
  return digests;
}

/** Throws OperatorError, with the name of the file, if a backup has changed since it was made. */
export async function requireUnchanged(folder: string, { files }: BackupFile): Promise<void> {
  const found = await digestTree(folder);
  for (const path of new Set([...Object.keys(files), ...Object.keys(found)])) {
    if (found[path] !== files[path])
      throw new OperatorError(
        `${join(folder, path)} has changed since the backup was made: restore another backup`,
      );
  }
}
