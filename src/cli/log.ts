import { Command } from 'commander';
import { OperatorError } from '../base/errors.ts';
import { trustOfStore } from '../config/trust.ts';
import { readEarlier } from '../history.ts';
import type { TrustFile } from '../manifest/trust.ts';
import type { Store } from '../store/store.ts';
import { RECEIPT_LENGTH_MAX } from '../verify.ts';
import { newestCheckpoint } from '../witness.ts';
import { noteChore } from './chores.ts';
import { EXIT } from './exit.ts';
import { report } from './failure.ts';
import { readTextFile } from './files.ts';
import { explain } from './help.ts';
import { checkLog, type LogReport } from './logCheck.ts';
import { configOption, jsonOption, withStore } from './options.ts';
import { note, print, printJson, showProgress } from './terminal.ts';

export function logCommand(): Command {
  const command = new Command('log').description('The tamper-evident log of an environment.');
  explain(
    command
      .command('check')
      .summary('derive the whole log again and compare it with the store')
      .description(
        'Derives the whole tree again from its leaves and compares every tile; verifies every checkpoint with the keys of ' +
          'the log, every receipt as a verifier would, and that every job, leaf and index entry has its counterpart. ' +
          'Changes nothing, and works beside the running daemon: it checks the log as it is when the check begins.\n\n' +
          'A store that is an older copy of itself holds together too, so the log is also held to what the witness file noted last; or, with ' +
          '--against, to an earlier checkpoint, or the one in a receipt, that was kept outside of this machine.',
      )
      .addOption(configOption())
      .option('--against <file>', 'a signed checkpoint, or a receipt, that the log must extend')
      .addOption(jsonOption())
      .action(check),
    {
      exit: {
        0: 'good',
        1: 'something does not hold together (restore a backup, and find out why)',
        2: 'could not tell',
      },
      examples: [
        'pdfseal log check --config /etc/pdfseal/production.toml',
        'pdfseal log check --config /etc/pdfseal/production.toml --against newest.pdf.receipt.json',
        'curl -H "Authorization: Bearer $PDFSEAL_API_KEY" https://seal.example.com/v1/log/checkpoint > checkpoint.txt',
      ],
    },
  );
  return command;
}

/** A code unit of UTF-16 takes 3 bytes of UTF-8 at most. */
const RECEIPT_BYTES_MAX = 3 * RECEIPT_LENGTH_MAX;

/** So many are named one by one; the rest only counted. */
const PROBLEMS_SHOWN_MAX = 20;

interface CheckCommandOptions {
  config: string;
  against?: string;
  json?: true;
}

async function check({ config, against, json }: CheckCommandOptions): Promise<void> {
  try {
    const named = against === undefined ? undefined : readTextFile(against, RECEIPT_BYTES_MAX);
    const report = await withStore(config, 'read', async (store, config) => {
      const earlier = named ?? newestCheckpoint(config.log.witnessFile)?.text;
      const report = await runCheck(store, await trustOfStore(store, config), earlier);
      const good = report.problemCount === 0;
      noteChore(config.stateDir, 'check', { good, tree_size: report.leaves });
      return report;
    });
    process.exitCode = report.problemCount === 0 ? EXIT.ok : EXIT.failed;
    if (json) printJson(toJson(report));
    else printReport(report);
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    process.exitCode = report(error, EXIT.unknown);
  }
}

async function runCheck(store: Store, trust: TrustFile, against: string | undefined): Promise<LogReport> {
  const earlier = against === undefined ? undefined : readEarlier(against, trust);
  const progress = showProgress('checking', (await store.head())?.treeSize ?? 0, 'leaves');
  try {
    return await checkLog(store, {
      trust,
      ...(earlier && { earlier }),
      problemsMax: PROBLEMS_SHOWN_MAX,
      onLeaves: progress.update,
    });
  } finally {
    progress.stop();
  }
}

function printReport(report: LogReport): void {
  for (const problem of report.problems) note(`pdfseal: ${problem}`);
  const hidden = report.problemCount - report.problems.length;
  if (hidden > 0) note(`pdfseal: and ${hidden} more`);
  const { leaves, batches, completed, failed, waiting } = report;
  print(
    `${leaves} leaves in ${batches} checkpoints; jobs: ${completed} completed, ${failed} failed, ${waiting} waiting`,
  );
  print(report.problemCount === 0 ? 'good' : `bad: ${report.problemCount} problems`);
}

function toJson({ problemCount, problems, ...counts }: LogReport) {
  return { outcome: problemCount === 0 ? 'good' : 'bad', ...counts, problem_count: problemCount, problems };
}
