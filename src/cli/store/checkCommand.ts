import { Command } from 'commander';
import { OperatorError } from '../../base/errors.ts';
import type { Config } from '../../config/config.ts';
import { trustOfStore } from '../../config/trustAnchors.ts';
import type { Checkpoint } from '../../log/checkpoint.ts';
import type { TrustFile } from '../../manifest/trustFile.ts';
import { examineEpochs, NOT_SEALED } from '../../prove/epochSeal.ts';
import { type EarlierState, readEarlier } from '../../prove/history.ts';
import { evidenceOf } from '../../prove/lastCheckpoint.ts';
import { RECEIPT_LENGTH_MAX } from '../../prove/verify.ts';
import type { Store } from '../../store/store.ts';
import { EXIT } from '../exit.ts';
import { readTextFile } from '../files.ts';
import { explain } from '../help.ts';
import { configOption, withStore } from '../options.ts';
import { report } from '../report.ts';
import { note, print, printJson, showProgress } from '../terminal.ts';
import { noteChore } from './chores.ts';
import { checkStore, flawCount, isWhole, type StoreReport } from './storeCheck.ts';

export function checkCommand(): Command {
  return explain(
    new Command('check')
      .description(
        'Rebuilds the whole log from its leaves, verifies every checkpoint and every receipt, and looks for missing, superfluous and ' +
          'wrong entries in every index. Changes nothing. The daemon can keep running: the command checks the log as it was when the ' +
          'check began.\n\n' +
          'An older copy of the store would pass these checks. Therefore the command also compares the log with the last checkpoint in the ' +
          'last-checkpoint file; or, with --against, with a checkpoint or a receipt that you kept on another machine.',
      )
      .addOption(configOption())
      .option('--against <file>', 'signed checkpoint, or receipt, that the log must extend')
      .action(check),
    {
      exit: {
        0: 'good',
        1: 'bad: the last line says what to do',
        2: 'undecided: the check could not run',
      },
      examples: [
        'pdfseal check --config /etc/pdfseal/production.toml',
        'pdfseal check --config /etc/pdfseal/production.toml --against newest.pdf.receipt.json',
        'curl -H "Authorization: Bearer $PDFSEAL_API_KEY" https://seal.example.com/v1/log/checkpoint > checkpoint.txt',
      ],
    },
  );
}

/** A code unit of UTF-16 takes 3 bytes of UTF-8 at most. */
const RECEIPT_BYTES_MAX = 3 * RECEIPT_LENGTH_MAX;

/** So many problems are printed one by one; the rest are counted. */
const PROBLEMS_SHOWN_MAX = 20;

interface CheckOptions {
  config: string;
  against?: string;
  json?: true;
}

async function check({ config, against, json }: CheckOptions): Promise<void> {
  try {
    const named =
      against === undefined ? undefined : { text: readTextFile(against, RECEIPT_BYTES_MAX), from: against };
    const found = await withStore(config, 'read', async (store, config) => {
      const { lastCheckpointFile } = config.log;
      const evidence = named ?? evidenceOf(lastCheckpointFile);
      const found = await runCheck(store, config, evidence);
      if (evidence === undefined && found.leaves > 0)
        note(
          `pdfseal: ${lastCheckpointFile} has no checkpoint: whether this is the newest state of the log was not checked; see --against`,
        );
      noteChore(config.stateDir, 'check', { good: isWhole(found), tree_size: found.leaves });
      return found;
    });
    process.exitCode = isWhole(found) ? EXIT.ok : EXIT.failed;
    if (json) printJson(reportJson(found));
    else printReport(found);
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    process.exitCode = report(error, EXIT.unknown);
  }
}

/** Checks the store, and shows progress on a terminal. The log must extend what `against` shows. */
export async function runCheck(store: Store, config: Config, against?: EarlierState): Promise<StoreReport> {
  const trust = await trustOfStore(store, config);
  const earlier = against && (await earlierOf(store, against, trust));
  const progress = showProgress('checking', (await store.log.head())?.treeSize ?? 0, 'leaves');
  try {
    return await checkStore(store, {
      trust,
      ...(earlier && { earlier }),
      problemsMax: PROBLEMS_SHOWN_MAX,
      onLeaves: progress.update,
    });
  } finally {
    progress.stop();
  }
}

/** Undefined where forged epochs are the reason why no key of the log signed it: the report names them. */
async function earlierOf(
  store: Store,
  against: EarlierState,
  trust: TrustFile,
): Promise<Checkpoint | undefined> {
  try {
    return readEarlier(against, trust);
  } catch (error) {
    if (!(error instanceof OperatorError) || (await examineEpochs(store)).problems.length === 0) throw error;
    return undefined;
  }
}

export function printReport(report: StoreReport): void {
  const { leaves, batches, completed, failed, waiting, problems, problemCount, flaws, indexes } = report;
  for (const line of [...problems, ...flaws]) note(`pdfseal: ${line}`);
  const flawed = indexes === undefined ? 0 : flawCount(indexes);
  const hidden = problemCount - problems.length + flawed - flaws.length;
  if (hidden > 0) note(`pdfseal: and ${hidden} more`);
  print(
    `${leaves} leaves in ${batches} checkpoints; jobs: ${completed} completed, ${failed} failed, ${waiting} waiting`,
  );
  if (report.epochs === 'contradicted')
    print(`bad: the epochs are not those that the log sealed; run \`pdfseal epochs repair\``);
  else if (problemCount > 0) {
    print(
      `bad: ${problemCount} problems; restore a backup, and find the cause (the indexes were not checked)`,
    );
  } else if (flawed > 0) print(`bad: ${flawed} entries of indexes; run \`pdfseal repair-index\``);
  else print('good');
  if (report.epochs === 'unsealed') note(`pdfseal: ${NOT_SEALED}`);
}

export function reportJson(report: StoreReport) {
  const { problemCount, problems, indexes = null, flaws, ...counts } = report;
  const outcome = isWhole(report) ? 'good' : 'bad';
  return { outcome, ...counts, problem_count: problemCount, problems, indexes, flaws };
}
