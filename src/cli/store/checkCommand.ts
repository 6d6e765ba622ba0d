import { ownProcess } from '../../base/env.ts';
import { OperatorError } from '../../base/errors.ts';
import { type Config, loadConfig } from '../../config/config.ts';
import type { EarlierState } from '../../prove/trail/history.ts';
import { evidenceOf, readLastCheckpoint } from '../../prove/trail/lastCheckpoint.ts';
import { RECEIPT_BYTES_MAX } from '../../prove/verify/receiptText.ts';
import type { Store } from '../../store/store.ts';
import { command, option } from '../command.ts';
import { EXIT } from '../exit.ts';
import { readTextFile } from '../files.ts';
import { CONFIG } from '../options.ts';
import { commandFailure, orUndecided } from '../report.ts';
import { printResult } from '../terminal.ts';
import { withStore } from '../withStore.ts';
import { checkBackup } from './backupFolder.ts';
import { noteChore } from './chores.ts';
import { printReport, reportJson, runCheck, withProblems } from './runCheck.ts';
import { examineSigners, type SignerFindings } from './signerCheck.ts';
import { isWhole, type StoreReport } from './storeReport.ts';

export const checkCommand = command('check', {
  description:
    'Rebuilds the whole log from its leaves, verifies every checkpoint and every receipt, and looks for missing, superfluous and ' +
    'wrong entries in every index. Changes nothing. The daemon can keep running: the command checks the log as it was when the ' +
    'check began.\n\n' +
    'An older copy of the store would pass these checks. Therefore the command also compares the log with the last checkpoint in the ' +
    'last-checkpoint file; or, with --against, with a checkpoint or a receipt that you kept on another machine. And it asks the signers ' +
    'of the log for the trees that they signed last, of which the log must contain one. If it cannot ask, it reports that, and ends as usual.\n\n' +
    'Every end of the check is on record for the daemon: damage, and a check that could not tell, raise an alarm in its metrics, in ' +
    '`pdfseal status` and in `pdfseal doctor` until a check finds the store good.\n\n' +
    'With --input, the command checks a backup instead of the store: also that no file of the backup has changed, and that the log ' +
    'in the store is a continuation of the log in the backup.',
  options: [
    CONFIG,
    option('--input <folder>', 'folder of the backup'),
    option('--against <file>', 'signed checkpoint, or receipt, that the log must extend'),
  ],
  exit: {
    0: 'good',
    1: 'bad: the last line says what to do',
    2: 'undecided: the check could not run, or the last checkpoint is missing',
  },
  examples: [
    'pdfseal check --config /etc/pdfseal/production.toml',
    'pdfseal check --config /etc/pdfseal/production.toml --against newest.pdf.receipt.json',
    'pdfseal check --config /etc/pdfseal/production.toml --input /var/backups/pdfseal/production/2026-11-20T023000.000Z',
    'curl -H "Authorization: Bearer $PDFSEAL_API_KEY" https://seal.example.com/v1/log/checkpoint > checkpoint.txt',
  ],
  async run({ config: file, input, against }) {
    const check = async () => {
      if (input !== undefined && against !== undefined)
        throw new OperatorError('name either --input or --against');
      const { found, doubt } =
        input === undefined
          ? await checkOwn(file, against)
          : { found: await checkBackup(input, loadConfig(file, { files: 'unused' })) };
      if (input !== undefined) found.signers_unknown = ['a backup is not the log that they sign now'];
      ownProcess().exitCode = !isWhole(found) ? EXIT.failed : doubt === undefined ? EXIT.ok : EXIT.unknown;
      printResult(reportJson(found, doubt), () => printReport(found, doubt));
    };
    // An unreadable backup is as bad as one that has changed.
    await orUndecided(check, input === undefined ? EXIT.unknown : EXIT.failed);
  },
});

interface Checked {
  found: StoreReport;
  /** The reason why it is unknown whether the checked log is the newest state. */
  doubt?: string;
}

/** Checks the store, and leaves a note of the result: also of an undecided check, which raises the same alarm as damage. */
async function checkOwn(file: string, against: string | undefined): Promise<Checked> {
  const named =
    against === undefined ? undefined : { text: readTextFile(against, RECEIPT_BYTES_MAX), from: against };
  const { stateDir } = loadConfig(file, { files: 'unused' });
  const isUndecided = (undecided: string) => ({ good: false, undecided });
  try {
    const checked = await withStore(file, 'thorough', (store, config) => checkStoreOf(config, store, named));
    const { found, doubt } = checked;
    const isDoubted = isWhole(found) && doubt !== undefined;
    const outcome = isDoubted ? isUndecided(doubt) : { good: isWhole(found) };
    noteChore(stateDir, 'check', { ...outcome, tree_size: found.leaves });
    return checked;
  } catch (error) {
    noteChore(stateDir, 'check', isUndecided(commandFailure(error).message));
    throw error;
  }
}

async function checkStoreOf(config: Config, store: Store, named: EarlierState | undefined): Promise<Checked> {
  const { lastCheckpointFile } = config.log;
  const earlier = named ?? (await evidenceOf(store, lastCheckpointFile));
  const found = withSigners(await runCheck(store, config, earlier), await examineSigners(store, config));
  const isUnknown =
    found.leaves > 0 && named === undefined && readLastCheckpoint(lastCheckpointFile) === undefined;
  if (!isUnknown) return { found };
  return {
    found,
    doubt: `there is no last checkpoint in ${lastCheckpointFile}, so the store can be an older copy: compare the log with the newest receipt that you can get, pdfseal check --against FILE`,
  };
}

/** Adds the findings about signers. If their memory is unknown here, that says nothing about the store: the outcome stays the same. */
function withSigners(report: StoreReport, { problems, unknown }: SignerFindings): StoreReport {
  return {
    ...withProblems(report, problems),
    ...(unknown.length > 0 && { signers_unknown: unknown }),
  };
}
