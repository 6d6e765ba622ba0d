import { Command } from 'commander';
import { OperatorError } from '../../base/errors.ts';
import { evidenceOf } from '../../prove/lastCheckpoint.ts';
import { RECEIPT_LENGTH_MAX } from '../../prove/verify.ts';
import { EXIT } from '../exit.ts';
import { readTextFile } from '../files.ts';
import { explain } from '../help.ts';
import { configOption, withStore } from '../options.ts';
import { report } from '../report.ts';
import { note, printJson } from '../terminal.ts';
import { noteChore } from './chores.ts';
import { printReport, reportJson, runCheck } from './runCheck.ts';
import { isWhole } from './storeCheck.ts';

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
