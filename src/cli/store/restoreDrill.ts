import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Config } from '../../config/config.ts';
import { openStore } from '../../store/lmdb/open.ts';
import {
  asOperatorError,
  type BackupFile,
  copyFolder,
  FOLDERS,
  readBackup,
  requireGood,
  requireUnchanged,
} from './backupFolder.ts';
import { noteChore } from './chores.ts';

/**
 * Restores a backup into a folder that goes again, and holds it to everything that a check asks: what a restore needs is then known to
 * work, short of the HSM. The environment is left alone, and notes when this was done. Throws OperatorError.
 */
export async function drillRestore(from: string, config: Config): Promise<BackupFile> {
  const made = readBackup(from, config);
  await requireUnchanged(from, made);
  const scratch = mkdtempSync(join(tmpdir(), 'pdfseal-restore-drill-'));
  try {
    for (const name of ['store', ...FOLDERS]) copyFolder(join(from, name), join(scratch, name));
    const expected = { environment: config.environment, logOrigin: config.log.origin };
    const store = await openStore({ path: join(scratch, 'store'), expected });
    try {
      const brought = { ...config, certificatesDir: join(scratch, 'certificates') };
      await requireGood(store, brought, { flawsMax: made.index_flaws });
    } finally {
      await store.close();
    }
    noteChore(config.stateDir, 'restore-drill', { good: true, tree_size: made.tree_size });
    return made;
  } catch (error) {
    throw asOperatorError(error, `cannot restore ${from} into ${scratch}`);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}
