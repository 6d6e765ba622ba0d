import { chmodSync, existsSync, lstatSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { OperatorError } from '../../base/errors.ts';
import { makeFolder, syncTree } from '../../base/folders.ts';
import { acquireLock } from '../../base/lock.ts';
import { type Config, loadConfig } from '../../config/config.ts';
import type { Checkpoint } from '../../log/checkpoint.ts';
import { openCheckpoint } from '../../log/signedCheckpoint.ts';
import type { ActObject } from '../../manifest/auditRecord.ts';
import { contradiction } from '../../prove/trail/history.ts';
import { type Doubt, doubtOf, restartLastCheckpoint } from '../../prove/trail/lastCheckpoint.ts';
import { actOfProcess } from '../../store/acts.ts';
import { describeStore, requireFolder, type StoreLocation } from '../../store/engines.ts';
import { command, type Given, option } from '../command.ts';
import { forgetSigned, timeSuffix } from '../hsm/hsmResetSigners.ts';
import { CONFIG, parseSizeArgument, requireSize } from '../options.ts';
import { note, print, printResult } from '../terminal.ts';
import { withStoreAt } from '../withStore.ts';
import {
  asOperatorError,
  type BackupFile,
  copyFolder,
  copyState,
  FOLDERS,
  KEPT,
  readBackup,
  requireGoodState,
  requireUnchanged,
  storeIn,
  whyNotContinued,
} from './backupFolder.ts';
import { noteChore } from './chores.ts';
import { lockRenewals } from './renewRun.ts';

const RESTORE_OPTIONS = [
  CONFIG,
  option('--input <folder>', 'folder of the backup', { required: true }),
  option(
    '--drill',
    'only try: restore into a temporary folder (TMPDIR), check the copy, and note the time; the daemon can keep running',
  ),
  option(
    '--accept-rollback [leaves]',
    'restore a backup that is older than the last-checkpoint file; with a number: only if the backup has this number of leaves',
    parseSizeArgument,
  ),
] as const;

export const restoreCommand = command('restore', {
  description:
    'Restores the state of an environment from a backup, after checking the backup. Stop the daemon first. Each replaced folder is ' +
    'kept next to the new one, with the time at the end of its name.\n\n' +
    'The command refuses a backup that is older than the last checkpoint in the last-checkpoint file: newer receipts would not be in the ' +
    'log, and a log that grows from this backup would contradict them. If you have no newer backup, --accept-rollback restores it ' +
    'anyway, sets the last-checkpoint file aside and begins it anew. Then begin a new log (a new log.origin and state_dir), and keep ' +
    'this one for what it still proves.\n\n' +
    'If there is no last-checkpoint file, as on a new machine, the command restores the backup, but the daemon does not start before ' +
    'you accept the size of the log: see pdfseal last-checkpoint.',
  options: RESTORE_OPTIONS,
  formerly: { '--from': '--input' },
  examples: [
    'systemctl stop pdfseald@production.socket pdfseald@production.service',
    'pdfseal restore --config /etc/pdfseal/production.toml --input /var/backups/pdfseal/production/2026-11-20T023000.000Z',
    'pdfseal restore --drill --config /etc/pdfseal/production.toml --input /var/backups/pdfseal/production/2026-11-20T023000.000Z',
  ],
  run: restore,
});

const IN_DATABASE =
  'restore the database with its own tools, and then run `pdfseal check`; see "PostgreSQL" in the manual';

async function restore(options: Given<typeof RESTORE_OPTIONS>): Promise<void> {
  const { config: file, input: from, acceptRollback, drill } = options;
  const config = loadConfig(file, { files: 'unused' });
  if (drill) {
    const { tree_size } = await drillRestore(from, config);
    printResult({ drill: from, tree_size }, `${from}: ${tree_size} leaves, restored on trial and checked`);
    return;
  }
  requireFolder(config.store, IN_DATABASE);
  const made = readBackup(from, config);
  await requireUnchanged(from, made);
  makeFolder(config.stateDir, 0o750);
  using _lock = acquireLock(config.lockFile);
  try {
    // A renewal that continued in the replaced store would be lost, and its authority's answer with it.
    using _renewals = lockRenewals(config);
    if (typeof acceptRollback === 'number') requireSize(acceptRollback, made.tree_size);
    const doubt = await doubtAbout(from, made, config);
    const isAccepted = doubt !== undefined && acceptRollback !== undefined;
    if (doubt !== undefined && doubt.kind !== 'unknown' && !isAccepted) {
      throw new OperatorError(
        `${from} is not the newest state: ${doubt.reason}. Restore a newer backup, or see --accept-rollback`,
      );
    }
    const rollback = isAccepted ? doubt.reason : null;
    const suffix = timeSuffix();
    const aside = await replaceState(from, config, suffix, {
      from: resolve(from),
      tree_size: made.tree_size,
      rollback,
    });
    const { lastCheckpointFile } = config.log;
    if (isAccepted) {
      forgetSigned(config, suffix);
      await withStoreAt(config.store, { readOnly: true }, (store) =>
        restartLastCheckpoint(lastCheckpointFile, store, suffix),
      );
    }
    printResult({ restored: from, tree_size: made.tree_size, kept: aside, rollback }, () => {
      if (isAccepted) note(`pdfseal: rolled back: ${rollback}`);
      else if (doubt !== undefined) note(`pdfseal: ${doubt.reason}. ${doubt.remedy}`);
      if (aside.length > 0) note(`the replaced folders are kept: ${aside.join(', ')}`);
      if (made.index_flaws > 0)
        note('this backup was made before a repair of indexes: run `pdfseal repair-index`');
      print(`${config.stateDir}: ${made.tree_size} leaves, from ${from}`);
    });
  } catch (error) {
    throw asOperatorError(error, `cannot restore ${from}`);
  }
}

/** Checks the backup, and compares it with the last-checkpoint file; if that is missing, with the store that it will replace. */
async function doubtAbout(from: string, made: BackupFile, config: Config): Promise<Doubt | undefined> {
  return withStoreAt(storeIn(from), { readOnly: true }, async (store) => {
    await requireGoodState(store, from, made, config);
    const doubt = await doubtOf(store, config.log.lastCheckpointFile);
    const present = doubt?.kind === 'unknown' ? await headOf(config.store) : undefined;
    const found = present && (await contradiction(store, present, await store.log.head()));
    return doubt && found !== undefined
      ? {
          ...doubt,
          kind: 'rollback',
          reason: `the store in ${describeStore(config.store)} is newer: ${found}`,
        }
      : doubt;
  });
}

/** The newest checkpoint of a store; undefined if there is none, or no store that can be opened: that may be why another is restored. */
async function headOf(location: StoreLocation): Promise<Checkpoint | undefined> {
  try {
    const head = await withStoreAt(location, { readOnly: true }, ({ log }) => log.head());
    return head && openCheckpoint(head.checkpoint)?.checkpoint;
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return undefined;
  }
}

/**
 * Restores a backup into a temporary folder, and checks that as `pdfseal check` does. So everything that a restore needs is known to work,
 * apart from the HSM. Changes nothing in the environment, but notes the time. Throws OperatorError.
 */
async function drillRestore(from: string, config: Config): Promise<BackupFile> {
  const made = readBackup(from, config);
  await requireUnchanged(from, made);
  const scratch = mkdtempSync(join(tmpdir(), 'pdfseal-restore-drill-'));
  try {
    copyState(from, scratch);
    const expected = { environment: config.environment, logOrigin: config.log.origin };
    await withStoreAt(storeIn(scratch), { expected }, (store) =>
      requireGoodState(store, scratch, made, config),
    );
    const problem = await whyNotContinued(made, config);
    if (problem !== undefined) throw new OperatorError(problem);
    noteChore(config.stateDir, 'restore-drill', { good: true, tree_size: made.tree_size });
    return made;
  } catch (error) {
    throw asOperatorError(error, `cannot restore ${from} into ${scratch}`);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

/**
 * Writes the whole copy to disk, with the record of the restore in it, before it moves any old folder. Returns where the old folders are.
 */
async function replaceState(
  from: string,
  { stateDir }: Config,
  suffix: string,
  object: ActObject,
): Promise<string[]> {
  const missing = KEPT.filter((name) => !existsSync(join(stateDir, name)));
  const names = [...missing, 'store', ...FOLDERS];
  for (const name of names) rmSync(join(stateDir, `${name}.part`), { recursive: true, force: true });
  copyState(from, stateDir, '.part');
  for (const name of missing) copyFolder(join(from, name), join(stateDir, `${name}.part`));
  for (const name of names) closeToOthers(join(stateDir, `${name}.part`));
  await withStoreAt({ engine: 'lmdb', path: join(stateDir, 'store.part') }, {}, ({ trail }) =>
    trail.append(actOfProcess('command', 'restore', object)),
  );
  await syncTree(stateDir);
  const aside: string[] = [];
  for (const name of names) {
    const [place, draft] = [join(stateDir, name), join(stateDir, `${name}.part`)];
    if (existsSync(place)) {
      const kept = `${place}.${suffix}`;
      renameSync(place, kept);
      aside.push(kept);
    }
    if (existsSync(draft)) renameSync(draft, place);
  }
  await syncTree(stateDir);
  return aside;
}

/** A backup that was on another machine can have lost its modes on the way. */
function closeToOthers(path: string): void {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined || found.isSymbolicLink()) return;
  chmodSync(path, found.mode & 0o770);
  if (found.isDirectory()) for (const name of readdirSync(path)) closeToOthers(join(path, name));
}
