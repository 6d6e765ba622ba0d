import { ownProcess } from '../../base/env.ts';
import { OperatorError } from '../../base/errors.ts';
import { acquireLock } from '../../base/lock.ts';
import { type Config, loadConfig } from '../../config/config.ts';
import { evidenceOf } from '../../prove/trail/lastCheckpoint.ts';
import { actOfProcess, onRecord } from '../../store/acts.ts';
import type { Sequencing } from '../../store/engines.ts';
import type { RepairMark } from '../../store/indexStore.ts';
import { type Store, UnknownOutcome } from '../../store/store.ts';
import { command, option } from '../command.ts';
import { EXIT } from '../exit.ts';
import { CONFIG } from '../options.ts';
import { report } from '../report.ts';
import { note, print, printResult, printTable } from '../terminal.ts';
import { withStoreAt } from '../withStore.ts';
import { makeBackup, nameIn } from './backupCommand.ts';
import { printReport, reportJson, runCheck } from './runCheck.ts';
import { emptyIndexReport, flawCount, type IndexReport, isWhole, type StoreReport } from './storeReport.ts';

export const repairIndexCommand = command('repair-index', {
  description:
    'Derives the indexes of the store again: tiles, outcomes of sealed jobs, waiting jobs, the lists and lookups of clients, times of ' +
    'idempotency entries, counts of quotas, and waiting webhooks. Stop the daemon first. The command writes only entries that are wrong. It first ' +
    'checks the data that indexes follow from, and never changes this data: leaves, checkpoints, jobs, idempotency entries, endpoints. If it ' +
    'finds damage there, it reports it and changes nothing: restore a backup.\n\n' +
    'An interrupted repair leaves a mark in the store. With this mark, no daemon starts: run the same command again.',
  options: [
    CONFIG,
    option(
      '--backup-output <path>',
      'first copy the state into this folder, named after the time, and check the copy',
    ),
    option('--no-backup', 'do not create a copy first'),
    option('--dry-run', 'only report what is wrong; the daemon can keep running'),
  ],
  formerly: { '--backup-into': '--backup-output' },
  exit: {
    0: 'every index is good, or is good again',
    1: 'bad: the last line says what to do',
    2: 'could not tell, or could not write',
  },
  examples: [
    'pdfseal repair-index --config /etc/pdfseal/production.toml --dry-run',
    'systemctl stop pdfseald@production.socket pdfseald@production.service',
    'pdfseal repair-index --config /etc/pdfseal/production.toml --backup-output /var/backups/pdfseal/before-repair',
  ],
  misuse: ({ backupOutput, backup, dryRun }) =>
    !dryRun && backup && backupOutput === undefined
      ? 'name a folder with --backup-output, or use --no-backup'
      : undefined,
  async run({ config: file, backupOutput, backup, dryRun }) {
    try {
      const config = loadConfig(file, { files: 'unused' });
      const result = dryRun
        ? await look(config)
        : await repairAlone(config, backup ? backupOutput : undefined);
      ownProcess().exitCode = isWhole(result.report) ? EXIT.ok : EXIT.failed;
      printResult(resultJson(result), () => printRepair(result));
    } catch (error) {
      const isMendable = error instanceof OperatorError || error instanceof UnknownOutcome;
      if (!isMendable) throw error;
      ownProcess().exitCode = report(asMendable(error), EXIT.unknown);
    }
  },
});

/** The result of a look at the store, or of its repair. */
interface Result {
  report: StoreReport;
  mended: IndexReport;
  /** Backup of the store from before the repair. */
  backup?: string | undefined;
  /** An earlier repair that did not finish. */
  interrupted?: RepairMark | undefined;
}

function asMendable(error: OperatorError | UnknownOutcome): OperatorError {
  if (error instanceof OperatorError) return error;
  return new OperatorError(`${error.message}: repair the disk, or free space on it, and run this again`, {
    cause: error,
  });
}

async function look(config: Config): Promise<Result> {
  return withStore(config, 'read', async (store) => ({
    report: await checkAll(store, config),
    interrupted: store.identity.repair,
    mended: emptyIndexReport(),
  }));
}

/** Repairs under the daemon's lock: no other process may write jobs meanwhile, and no daemon may start. */
async function repairAlone(config: Config, into: string | undefined): Promise<Result> {
  using _lock = acquireLock(config.lockFile);
  const seen = await look(config);
  const isToDo = seen.report.indexes !== undefined && (seen.interrupted || !isWhole(seen.report));
  if (!isToDo) return seen;
  // The copy of an interrupted repair is from before it; the store is now in the middle of it.
  const backup = seen.interrupted ? seen.interrupted.backup : into && nameIn(into);
  if (!seen.interrupted && backup !== undefined)
    await makeBackup(config, backup, { flawsMax: Number.POSITIVE_INFINITY });
  return await withStore(config, 'write', (store) => repair(store, config, { ...seen, backup }));
}

async function repair(store: Store, config: Config, { backup, ...seen }: Result): Promise<Result> {
  const { mended } = seen;
  let { report } = seen;
  const act = actOfProcess('command', 'index.repair', { backup: backup ?? null });
  const work = () =>
    store.indexes.repair({
      backup,
      onMended: ({ index, kind }) => {
        mended[index][kind] += 1;
      },
      isGood: async () => {
        report = await checkAll(store, config);
        return isWhole(report);
      },
    });
  await onRecord(store.trail, act, work, (good) => ({ good, mended: flawCount(mended) }));
  return { report, mended, backup };
}

/** Fails at once, because a daemon on another machine can still be active. */
const AT_ONCE: Sequencing = {
  onWait: (wait) => {
    if ('unreachable' in wait) throw new OperatorError(`the database does not answer: ${wait.unreachable}`);
    throw new OperatorError(`${wait.holder} is active: stop that daemon, and those that wait to take over`);
  },
  onLost: (error) => {
    throw error;
  },
};

function withStore<T>(
  { store, environment, log }: Config,
  access: 'read' | 'write',
  work: (store: Store) => Promise<T>,
): Promise<T> {
  const options = {
    expected: { environment, logOrigin: log.origin },
    readOnly: access === 'read',
    repairing: true,
    ...(access === 'write' && { sequencing: AT_ONCE }),
  };
  return withStoreAt(store, options, work);
}

async function checkAll(store: Store, config: Config): Promise<StoreReport> {
  return runCheck(store, config, await evidenceOf(store, config.log.lastCheckpointFile));
}

function printRepair({ report, mended, backup }: Result): void {
  const rows = Object.entries(flawCount(mended) > 0 ? mended : (report.indexes ?? {}));
  const flawed = rows.filter(([, counts]) => Object.values(counts).some((count) => count > 0));
  if (flawed.length > 0) {
    printTable(
      ['INDEX', 'MISSING', 'SUPERFLUOUS', 'WRONG'],
      flawed.map(([index, { missing, superfluous, wrong }]) => [
        index,
        `${missing}`,
        `${superfluous}`,
        `${wrong}`,
      ]),
    );
  }
  if (backup !== undefined) note(`the store as it was before is in ${backup}`);
  if (flawCount(mended) > 0) print(`mended: ${flawCount(mended)} entries`);
  printReport(report);
}

function resultJson({ report, mended, backup }: Result) {
  return { ...reportJson(report), mended, backup: backup ?? null };
}
