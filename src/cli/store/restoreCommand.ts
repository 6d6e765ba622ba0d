import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { Command } from 'commander';
import { OperatorError } from '../../base/errors.ts';
import { syncTree } from '../../base/folders.ts';
import { type Config, loadConfig } from '../../config/config.ts';
import type { ActObject } from '../../manifest/auditRecord.ts';
import { contradiction } from '../../prove/history.ts';
import { newestCheckpoint } from '../../prove/witnessFile.ts';
import { actOfProcess } from '../../store/acts.ts';
import { openStore } from '../../store/lmdb/open.ts';
import { acquireLock } from '../../store/lock.ts';
import { explain } from '../help.ts';
import { configOption, jsonOption } from '../options.ts';
import { note, print, printJson } from '../terminal.ts';
import {
  asOperatorError,
  type BackupFile,
  copyFolder,
  FOLDERS,
  readBackup,
  requireGood,
  requireUnchanged,
} from './backupFolder.ts';
import { drillRestore } from './restoreDrill.ts';

export function restoreCommand(): Command {
  return explain(
    new Command('restore')
      .description(
        'Puts a backup in the place of the state of an environment, while its daemon is stopped. The backup is checked first. What was there is ' +
          'kept beside it, under the name state_dir.<time>.\n\n' +
          'A backup that is older than what the witness file has noted is refused: receipts made since would not be in the log, and ' +
          'the log that goes on from here would contradict them. When no newer copy exists, --accept-rollback restores it all the same ' +
          'and keeps the witness file beside it; begin a new log then (a new log.origin and state_dir), and keep this one for what ' +
          'it can still prove.',
      )
      .addOption(configOption())
      .requiredOption('--input <folder>', 'the backup')
      .option(
        '--drill',
        'only try it: restore into a temporary folder (TMPDIR), check that, and note when it was done',
      )
      .option('--accept-rollback', 'restore it even though the log was further already')
      .addOption(jsonOption())
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
    if (rollback !== undefined) renameSync(config.log.witnessFile, `${config.log.witnessFile}.${suffix}`);
    if (json)
      printJson({ restored: from, tree_size: made.tree_size, kept: aside, rollback: rollback ?? null });
    else {
      if (rollback !== undefined) note(`pdfseal: rolled back: ${rollback}`);
      if (aside.length > 0) note(`what was there is kept: ${aside.join(', ')}`);
      if (made.index_flaws > 0) note('its indexes are as before their repair: run `pdfseal repair-index`');
      print(`${config.stateDir}: ${made.tree_size} leaves, from ${from}`);
    }
  } catch (error) {
    throw asOperatorError(error, `cannot restore ${from}`);
  } finally {
    lock.release();
  }
}

/** Checks the backup, and says in what it is behind the witness file; undefined when it is not. */
async function rollbackOf(from: string, made: BackupFile, config: Config): Promise<string | undefined> {
  const store = await openStore({ path: join(from, 'store'), readOnly: true });
  try {
    // By the certificates it brings along: of a lost machine there are no others.
    const brought = { ...config, certificatesDir: join(from, 'certificates') };
    await requireGood(store, brought, { flawsMax: made.index_flaws });
    const noted = newestCheckpoint(config.log.witnessFile);
    return noted && (await contradiction(store, noted.checkpoint));
  } finally {
    await store.close();
  }
}

/**
 * All of the copy is on disk before anything of what was there is moved, and in it the record of the restore: it cannot come into
 * its place without. Returns what was moved, and where to.
 */
async function replaceState(
  from: string,
  { stateDir }: Config,
  suffix: string,
  object: ActObject,
): Promise<string[]> {
  const names = ['store', ...FOLDERS];
  for (const name of names) {
    const draft = join(stateDir, `${name}.part`);
    rmSync(draft, { recursive: true, force: true });
    copyFolder(join(from, name), draft);
  }
  await recordIn(join(stateDir, 'store.part'), object);
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

async function recordIn(path: string, object: ActObject): Promise<void> {
  const store = await openStore({ path });
  try {
    await store.trail.append(actOfProcess('command', 'restore', object));
  } finally {
    await store.close();
  }
}
