import { statfs } from 'node:fs/promises';
import { measureStore } from '../../admin/statusReader.ts';
import { systemClock, toTimestamp } from '../../base/clock.ts';
import { OperatorError } from '../../base/errors.ts';
import { formatBytes } from '../../base/units.ts';
import { assertAgreement } from '../../config/agreement.ts';
import type { Config } from '../../config.ts';
import { type EpochKey, type Epochs, termAt } from '../../log/epochs.ts';
import { openStore } from '../../store/lmdb.ts';
import { bad, type Diagnosis, good, warning } from './diagnosis.ts';

const FREE_BYTES_MIN = 64 * 2 ** 20;
const FREE_BYTES_WARNING = 2 ** 30;

const ROOM = 'make room on that disk, or move state_dir to a larger one';

export interface StoreFindings {
  diagnoses: Diagnosis[];
  /** The keys in force; absent where the store does not say. */
  keys?: readonly EpochKey[];
}

/** Opens the store beside whoever uses it, without the right to write. */
export async function checkStore(config: Config): Promise<StoreFindings> {
  try {
    const store = await openStore({
      path: config.storeDir,
      expected: { environment: config.environment, logOrigin: config.log.origin },
      readOnly: true,
    });
    try {
      const head = await store.head();
      const waiting = await store.waitingCount();
      const epochs = await store.epochs();
      const { keys } = termAt(epochs, systemClock()).epoch;
      const detail = `${head?.treeSize ?? 0} leaves, ${waiting} jobs wait (${store.identity.logOrigin})`;
      const disk = await checkDisk(config.storeDir);
      return { diagnoses: [good('store', detail), ...checkEpoch(config, epochs), disk], keys };
    } finally {
      await store.close();
    }
  } catch (error) {
    if (!(error instanceof OperatorError)) {
      const remedy = 'run `pdfseal log check`; restore a copy of the state folder';
      return { diagnoses: [bad('store', String(error), remedy)] };
    }
    const remedy = 'see "Recover" in the README; a store is made by `pdfseal init` and never overwritten';
    const disk = await checkDiskOf(config.stateDir);
    return { diagnoses: [bad('store', error.message, remedy), ...disk] };
  }
}

/** What the daemon refuses to start on. */
function checkEpoch(config: Config, epochs: Epochs): Diagnosis[] {
  try {
    const now = systemClock();
    assertAgreement(config, epochs, now);
    const { epoch } = termAt(epochs, now);
    return [good('epoch', `${epoch.keys.length} keys since ${toTimestamp(epoch.from)}, as configured`)];
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return [
      bad(
        'epoch',
        error.message,
        'put the configuration back, or plan an epoch with it: `pdfseal epochs plan`',
      ),
    ];
  }
}

async function checkDisk(storeDir: string): Promise<Diagnosis> {
  const { bytes, disk_free_bytes: free, disk_bytes: all } = await measureStore(storeDir);
  return judgeDisk(
    `the store takes ${formatBytes(bytes)}; ${formatBytes(free)} of ${formatBytes(all)} are free`,
    free,
  );
}

async function checkDiskOf(folder: string): Promise<Diagnosis[]> {
  try {
    const disk = await statfs(folder);
    const free = disk.bavail * disk.bsize;
    return [judgeDisk(`${formatBytes(free)} are free`, free)];
  } catch {
    return [];
  }
}

function judgeDisk(detail: string, free: number): Diagnosis {
  if (free < FREE_BYTES_MIN) return bad('disk', `${detail}: a write that fails ends the daemon`, ROOM);
  return free < FREE_BYTES_WARNING ? warning('disk', detail, ROOM) : good('disk', detail);
}
