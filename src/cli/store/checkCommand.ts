import { Command } from 'commander';
import { OperatorError } from '../../base/errors.ts';
import { loadConfig } from '../../config/config.ts';
import { evidenceOf } from '../../prove/lastCheckpoint.ts';
import { RECEIPT_BYTES_MAX } from '../../prove/verify.ts';
import { EXIT } from '../exit.ts';
import { readTextFile } from '../files.ts';
import { explain } from '../help.ts';
import { configOption, withStore } from '../options.ts';
import { report } from '../report.ts';
import { note, printJson } from '../terminal.ts';
import { checkBackup } from './backupFolder.ts';
import { noteChore } from './chores.ts';
import { printReport, reportJson, runCheck } from './runCheck.ts';
import { isWhole, type StoreReport } from './storeCheck.ts';

export function checkCommand(): Command {
  return explain(
    new Command('check')
      .description(
        'Rebuilds the whole log from its leaves, verifies every checkpoint and every receipt, and looks for missing, superfluous and ' +
          'wrong entries in every index. Changes nothing. The daemon can keep running: the command checks the log as it was when the ' +
          'check began.\n\n' +
          'An older copy of the store would pass these checks. Therefore the command also compares the log with the last checkpoint in the ' +
          'last-checkpoint file; or, with --against, with a checkpoint or a receipt that you kept on another machine.\n\n' +
          'With --input, the command checks a backup instead of the store: also that no file of the backup has changed, and that the log ' +
          'in the store is a continuation of the log in the backup.',
      )
      .addOption(configOption())
      .option('--input <folder>', 'folder of the backup')
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
        'pdfseal check --config /etc/pdfseal/production.toml --input /var/backups/pdfseal/production/2026-11-20T023000.000Z',
        'curl -H "Authorization: Bearer $PDFSEAL_API_KEY" https://seal.example.com/v1/log/checkpoint > checkpoint.txt',
      ],
    },
  );
}

interface CheckOptions {
  config: string;
  input?: string;
  against?: string;
  json?: true;
}

async function check({ config: file, input, against, json }: CheckOptions): Promise<void> {
  try {
    if (input !== undefined && against !== undefined)
      throw new OperatorError('name either --input or --against');
    const found =
      input === undefined
        ? await checkOwn(file, against)
        : await checkBackup(input, loadConfig(file, { files: 'unused' }));
    process.exitCode = isWhole(found) ? EXIT.ok : EXIT.failed;
    if (json) printJson(reportJson(found));
    else printReport(found);
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    // A backup that cannot be read is as bad as one that has changed.
    process.exitCode = report(error, input === undefined ? EXIT.unknown : EXIT.failed);
  }
}

async function checkOwn(file: string, against: string | undefined): Promise<StoreReport> {
  const named =
    against === undefined ? undefined : { text: readTextFile(against, RECEIPT_BYTES_MAX), from: against };
  return withStore(file, 'read', async (store, config) => {
    const { lastCheckpointFile } = config.log;
    const earlier = named ?? (await evidenceOf(store, lastCheckpointFile));
    const found = await runCheck(store, config, earlier);
    if (earlier === undefined && found.leaves > 0)
      note(
        `pdfseal: ${lastCheckpointFile} has no checkpoint: whether this is the newest state of the log was not checked; see --against`,
      );
    noteChore(config.stateDir, 'check', { good: isWhole(found), tree_size: found.leaves });
    return found;
  });
}
