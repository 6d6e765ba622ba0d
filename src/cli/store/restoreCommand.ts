import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Command } from 'commander';
import { OperatorError } from '../../base/errors.ts';
import { syncTree } from '../../base/folders.ts';
import { type Config, loadConfig } from '../../config/config.ts';
import type { ActObject } from '../../manifest/auditRecord.ts';
import { contradiction } from '../../prove/history.ts';
import { readLastCheckpoint } from '../../prove/lastCheckpoint.ts';
import { actOfProcess } from '../../store/acts.ts';
import { acquireLock } from '../../store/lock.ts';
import { explain } from '../help.ts';
import { configOption, withStoreAt } from '../options.ts';
import { note, print, printJson } from '../terminal.ts';
import {
  asOperatorError,
  type BackupFile,
  copyState,
  FOLDERS,
  readBackup,
  requireGoodState,
  requireUnchanged,
} from './backupFolder.ts';
import { noteChore } from './chores.ts';

export function restoreCommand(): Command {
  return explain(
    new Command('restore')
      .description(
        'Restores the state of an environment from a backup, after checking the backup. Stop the daemon first. Each replaced folder is ' +
          'kept beside the new one, with the time at the end of its name.\n\n' +
          'The command refuses a backup that is older than the last checkpoint in the last-checkpoint file: newer receipts would not be in the ' +
          'log, and a log that grows from this backup would contradict them. If you have no newer backup, --accept-rollback restores it ' +
          'anyway and sets the last-checkpoint file aside. Then begin a new log (a new log.origin and state_dir), and keep this one for what it ' +
          'still proves.',
      )
      .addOption(configOption())
      .requiredOption('--input <folder>', 'folder of the backup')
      .option(
        '--drill',
        'only try: restore into a temporary folder (TMPDIR), check the copy, and note the time; the daemon can keep running',
      )
      .option('--accept-rollback', 'restore a backup that is older than the last-checkpoint file')
      .action(restore),
    {
      formerly: { '--from': '--input' },
      examples: [
        'systemctl stop pdfseald@production',
        'pdfseal restore --config /etc/pdfseal/production.toml --input /var/backups/pdfseal/production/2026-11-20T023000.000Z',
        'pdfseal restore --drill --config /etc/pdfseal/production.toml --input /var/backups/pdfseal/production/2026-11-20T023000.000Z',
      ],
    },
  );
}

interface RestoreOptions {
  config: string;
  input: string;
  acceptRollback?: true;
  drill?: true;
  json?: true;
}

async function restore({
  config: file,
  input: from,
  acceptRollback = undefined,
  drill,
  json,
}: RestoreOptions): Promise<void> {
  const config = loadConfig(file, { files: 'unused' });
  if (drill) {
    const { tree_size } = await drillRestore(from, config);
    if (json) printJson({ drill: from, tree_size });
    else print(`${from}: ${tree_size} leaves, restored on trial and checked`);
    return;
  }
  const made = readBackup(from, config);
  await requireUnchanged(from, made);
  mkdirSync(config.stateDir, { recursive: true, mode: 0o750 });
  const lock = acquireLock(config.lockFile);
  try {
    const rollback = await rollbackOf(from, made, config);
    if (rollback !== undefined && !acceptRollback) {
      throw new OperatorError(
        `${from} is not the newest state: ${rollback}. Restore a newer backup, or see --accept-rollback`,
      );
    }
    const suffix = new Date().toISOString().replaceAll(':', '');
    const aside = await replaceState(from, config, suffix, {
      from: resolve(from),
      tree_size: made.tree_size,
      rollback: rollback ?? null,
    });
    if (rollback !== undefined)
      renameSync(config.log.lastCheckpointFile, `${config.log.lastCheckpointFile}.${suffix}`);
    if (json)
      printJson({ restored: from, tree_size: made.tree_size, kept: aside, rollback: rollback ?? null });
    else {
      if (rollback !== undefined) note(`pdfseal: rolled back: ${rollback}`);
      if (aside.length > 0) note(`the replaced folders are kept: ${aside.join(', ')}`);
      if (made.index_flaws > 0)
        note('this backup was made before a repair of indexes: run `pdfseal repair-index`');
      print(`${config.stateDir}: ${made.tree_size} leaves, from ${from}`);
    }
  } catch (error) {
    throw asOperatorError(error, `cannot restore ${from}`);
  } finally {
    lock.release();
  }
}

/** Checks the backup. Says what the last-checkpoint file has beyond it; undefined if nothing. */
async function rollbackOf(from: string, made: BackupFile, config: Config): Promise<string | undefined> {
  return withStoreAt({ path: join(from, 'store'), readOnly: true }, async (store) => {
    await requireGoodState(store, from, made, config);
    const noted = readLastCheckpoint(config.log.lastCheckpointFile);
    return noted && (await contradiction(store, noted.checkpoint));
  });
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
    await withStoreAt({ path: join(scratch, 'store'), expected }, (store) =>
      requireGoodState(store, scratch, made, config),
    );
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
  const names = ['store', ...FOLDERS];
  for (const name of names) rmSync(join(stateDir, `${name}.part`), { recursive: true, force: true });
  copyState(from, stateDir, '.part');
  await withStoreAt({ path: join(stateDir, 'store.part') }, ({ trail }) =>
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
