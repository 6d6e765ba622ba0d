import { systemClock, toRfc3339 } from '../../base/clock.ts';
import { OperatorError } from '../../base/errors.ts';
import { MANUAL_FOLDER } from '../../base/package.ts';
import { formatBytes } from '../../base/units.ts';
import { assertAgreement } from '../../config/agreement.ts';
import type { Config } from '../../config/config.ts';
import { STRANGER_REMEDY, strangersOf } from '../../config/trustAnchors.ts';
import type { Facts } from '../../health/facts.ts';
import { findingsOf } from '../../health/healthFindings.ts';
import { measureDisk } from '../../health/sections/upkeepSection.ts';
import { type EpochKey, type Epochs, termAt } from '../../log/epochs.ts';
import { EpochSeal } from '../../prove/epochs/epochSeal.ts';
import { doubtOf } from '../../prove/trail/lastCheckpoint.ts';
import { describeStore } from '../../store/engines.ts';
import type { Store } from '../../store/store.ts';
import { recordProblems } from '../store/recordCheck.ts';
import { withStoreAt } from '../withStore.ts';
import { bad, badFrom, type Diagnosis, diagnosisOf, good, warning } from './diagnosis.ts';
import { diagnoseRenewals } from './renewalDiagnosis.ts';
import { diagnoseWitnesses } from './witnessDiagnosis.ts';

const MEMBER = 'name a role in store.url that is a member of pdfseal_front only: a front needs no more';

const CHECK = 'run `pdfseal check`: its last line says what to do';

/** Where the message does not say what to do. */
const REMEDIES = {
  lmdb: `see "Disaster recovery" in the manual, ${MANUAL_FOLDER}/recovery.html; \`pdfseal init\` creates a store and never overwrites one`,
  postgresql: `see "PostgreSQL" in the manual, ${MANUAL_FOLDER}/operate/postgresql.html`,
};

export interface StoreFindings {
  diagnoses: Diagnosis[];
  /** The keys in force; absent if the store cannot be read. */
  keys?: readonly EpochKey[];
}

/** Opens the store for reading only; others may use it at the same time. */
export async function diagnoseStore(config: Config): Promise<StoreFindings> {
  try {
    const expected = { environment: config.environment, logOrigin: config.log.origin };
    if (config.isFront)
      return await withStoreAt(config.store, { expected, front: true }, async (store) => ({
        diagnoses: [
          ...(await diagnoseSealing(store)),
          ...(await diagnoseRollback(config, store)),
          ...(await diagnoseDisk(config)),
        ],
      }));
    return await withStoreAt(config.store, { expected, readOnly: true }, async (store) => {
      const head = await store.log.head();
      const waiting = await store.jobs.waitingCount();
      const epochs = await store.epochs.newest();
      const { epoch } = termAt(epochs, systemClock());
      const detail = `${head?.treeSize ?? 0} leaves, ${waiting} jobs wait (${store.identity.logOrigin})`;
      const diagnoses = [
        good('store', detail),
        ...(await diagnoseRollback(config, store)),
        await diagnoseSeal(store),
        diagnoseEpoch(config, epochs),
        ...(await diagnoseRenewals(config, store)),
        ...(await diagnoseRoots(config, store)),
        ...(await recordProblems(store)).map((problem) => bad('audit trail', problem, CHECK)),
        ...(await diagnoseWitnesses(config, store, epoch)),
        ...(await diagnoseDisk(config)),
      ];
      return { diagnoses, keys: epoch.keys };
    });
  } catch (error) {
    if (!(error instanceof OperatorError)) return { diagnoses: [bad('store', String(error), CHECK)] };
    if (error.code === 'older_store') {
      const remedy = 'start the daemon: it upgrades the store, and keeps a copy of the old one';
      return { diagnoses: [warning('store', error.message, remedy)] };
    }
    const remedy = error.remedy ?? REMEDIES[config.store.engine];
    return { diagnoses: [bad('store', error.message, remedy), ...(await diagnoseDisk(config))] };
  }
}

/** Certificates that cannot be read are another finding. */
async function diagnoseRoots(config: Config, store: Store): Promise<Diagnosis[]> {
  try {
    return (await strangersOf(store, config)).map((stranger) => bad('roots', stranger, STRANGER_REMEDY));
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return [];
  }
}

async function diagnoseRollback({ log }: Config, store: Store): Promise<Diagnosis[]> {
  const doubt = await doubtOf(store, log.lastCheckpointFile);
  return doubt === undefined ? [] : [bad('last checkpoint', doubt.reason, doubt.remedy)];
}

/** The daemon that seals, as a front sees it. */
async function diagnoseSealing(store: Store): Promise<Diagnosis[]> {
  const head = await store.log.head();
  const node = await store.sealing?.node();
  const { holder = '', isActive = false, waiting = 0, isPrivileged = false } = node ?? {};
  const sealedAt = head === undefined ? 'nothing yet' : toRfc3339(head.sealedAt);
  const detail = `${head?.treeSize ?? 0} leaves, ${waiting} jobs wait (${store.identity.logOrigin}), sealed last: ${sealedAt}`;
  const sealing = {
    active: isActive,
    node: holder,
    scans: false,
    lacks_acceptance_key: node?.lacksAcceptanceKey ?? false,
    ...(head && { last_commit_at: toRfc3339(head.sealedAt) }),
  };
  const found = findingsOf({ sealing }, systemClock()).map(diagnosisOf);
  return [
    good('store', detail),
    ...(isPrivileged ? [warning('database role', 'it may write the log', MEMBER)] : []),
    ...(found.length > 0 ? found : [good('sealing', `${holder} is active`)]),
  ];
}

/** Whether the epochs are those that the log sealed; if not, the daemon does not start. */
async function diagnoseSeal(store: Store): Promise<Diagnosis> {
  try {
    const { sealed } = await new EpochSeal(store).read();
    const detail = `${sealed.list.length} in the store, as the log sealed them`;
    return good('sealed epochs', [detail, ...sealed.void].join('; '));
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return bad('sealed epochs', error.message, error.remedy ?? CHECK);
  }
}

/** Whether the configuration agrees with the epoch in force; if not, the daemon does not start. */
function diagnoseEpoch(config: Config, epochs: Epochs): Diagnosis {
  try {
    const now = systemClock();
    assertAgreement(config, epochs, now);
    const { epoch } = termAt(epochs, now);
    return good('epoch', `${epoch.keys.length} keys since ${toRfc3339(epoch.from)}, as configured`);
  } catch (error) {
    const remedy =
      'restore the previous configuration, or plan an epoch with the new one: `pdfseal epochs plan`';
    return badFrom('epoch', error, remedy);
  }
}

/** The disk is there also where the store cannot be read; where it is not, that is another finding. */
async function diagnoseDisk({ store, diskDir, storage }: Config): Promise<Diagnosis[]> {
  try {
    const { engine } = store;
    const disk = await measureDisk(diskDir, storage.freeBytesMin);
    return judgeDisk({ engine, path: describeStore(store), answers: true, bytes: 0, full: false, ...disk });
  } catch {
    return [];
  }
}

export function judgeDisk(store: Facts['store']): Diagnosis[] {
  const found = findingsOf({ store }, systemClock()).filter(({ subject }) => subject === 'disk');
  const [free, all] = [store.disk_free_bytes, store.disk_bytes].map(formatBytes);
  return found.length > 0 ? found.map(diagnosisOf) : [good('disk', `${free} of ${all} are free`)];
}
