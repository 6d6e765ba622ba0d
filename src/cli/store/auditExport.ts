import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { Command } from 'commander';
import { OperatorError } from '../../base/errors.ts';
import { trustOfStore } from '../../config/trustAnchors.ts';
import { encodeReceipt, type Receipt } from '../../manifest/receipt.ts';
import { parseTrust } from '../../manifest/trustFile.ts';
import { examineEpochs } from '../../prove/epochSeal.ts';
import { createVerifier } from '../../prove/verify.ts';
import { EXIT } from '../exit.ts';
import { createFileAtomically, readTextFile, unusable } from '../files.ts';
import { explain } from '../help.ts';
import { CONFIG_DESCRIPTION, configOption, defaultConfigFile, withStore } from '../options.ts';
import { note, print, printJson } from '../terminal.ts';
import {
  checkTrail,
  exportedNumbers,
  exportedTrail,
  receiptFile,
  recordFile,
  storedTrail,
  type TrailReport,
  trailOfStore,
} from './auditCheck.ts';

export function exportTrailCommand(): Command {
  const command = new Command('export')
    .summary('write records and receipts as files that anyone can verify')
    .description(
      'Writes each record, and its receipt once it is sealed, into a folder. Existing files must have the same content and are left ' +
        'alone. So a folder on another machine shows if the trail was cut, or continued from an older copy.',
    )
    .addOption(configOption())
    .requiredOption('--output <path>', 'folder of the files; the command creates it, or adds to it')
    .action(exportTrail);
  return explain(command, {
    formerly: { '--into': '--output' },
    exit: { 1: 'failed, or the folder has records that the store does not have' },
    examples: [
      'pdfseal audit export --config production.toml --output /srv/audit',
      `pdfseal verify ${recordFile(17)} ${receiptFile(17)} --trust trust.json`,
    ],
  });
}

export function verifyTrailCommand(): Command {
  const command = new Command('verify')
    .summary('check that no record is missing or altered')
    .description(
      'Checks that no record is missing, that each contains the digest of the previous one, and that each receipt verifies. Reads the ' +
        'store of --config, or, with --input and --trust, a folder that `pdfseal audit export` wrote; the latter works offline. ' +
        '`pdfseal check` also compares the log with its earlier checkpoints.',
    )
    .option('--config <file>', CONFIG_DESCRIPTION)
    .option('--input <folder>', 'folder that `pdfseal audit export` wrote')
    .option('--trust <file>', 'trust file, from a source that you trust (pdfseal trust export)')
    .action(verify);
  return explain(command, {
    formerly: { '--folder': '--input' },
    exit: {
      0: 'good (the newest records may not be sealed yet)',
      1: 'bad',
      2: 'undecided: the check could not run',
    },
    examples: [
      'pdfseal audit verify --config production.toml',
      'pdfseal audit verify --input /srv/audit --trust trust.json',
    ],
  });
}

async function exportTrail({
  config,
  output,
  json,
}: {
  config: string;
  output: string;
  json?: true;
}): Promise<void> {
  await withStore(config, 'read', async (store) => {
    makeFolder(output);
    let newest = 0;
    const written = { records: 0, receipts: 0 };
    for await (const { number, text, receipt, problem } of storedTrail(store)) {
      if (problem !== undefined) throw new OperatorError(`audit record ${number}: ${problem}`);
      if (writeOnce(join(output, recordFile(number)), text)) written.records += 1;
      // A receipt is put together from the store, always in the same way.
      const isNew =
        receipt !== undefined &&
        writeOnce(join(output, receiptFile(number)), encodeReceipt(receipt as Receipt));
      if (isNew) written.receipts += 1;
      newest = number;
    }
    const beyond = exportedNumbers(output).at(-1) ?? 0;
    if (beyond > newest) {
      throw new OperatorError(
        `${output} has audit record ${beyond}, but the trail ends with ${newest}: records were removed, or the store is an older copy`,
      );
    }
    if (json) printJson({ folder: output, newest, ...written });
    else
      print(
        `${output}: ${newest} records; ${written.records} new records and ${written.receipts} new receipts written`,
      );
  });
}

function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true });
  } catch (cause) {
    throw unusable('write', folder, cause);
  }
}

const FILE_BYTES_MAX = 1 << 24;

/** False if the file exists with this text. Throws OperatorError if it has another text. */
function writeOnce(file: string, text: string): boolean {
  if (!existsSync(file) && createFileAtomically(file, text)) return true;
  if (readTextFile(file, FILE_BYTES_MAX) === text) return false;
  throw new OperatorError(
    `${file} differs from the store: one of them was altered, or the trail was continued from an older copy`,
  );
}

interface VerifyOptions {
  config?: string;
  input?: string;
  trust?: string;
  json?: true;
}

async function verify({ json, ...options }: VerifyOptions): Promise<void> {
  try {
    const report = await judge(options);
    process.exitCode = report.problems.length === 0 ? EXIT.ok : EXIT.failed;
    if (json) printJson({ outcome: report.problems.length === 0 ? 'good' : 'bad', ...report });
    else printReport(report);
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    process.exitCode = EXIT.unknown;
    note(`pdfseal: ${error.message}`);
  }
}

async function judge({ config, input, trust }: Omit<VerifyOptions, 'json'>): Promise<TrailReport> {
  if (input === undefined && trust === undefined) {
    return withStore(config ?? defaultConfigFile(), 'read', async (store, config) => {
      const verify = createVerifier(await trustOfStore(store, config));
      const report = await checkTrail(storedTrail(store), { trail: trailOfStore(store), verify });
      report.problems.push(...(await examineEpochs(store)).problems);
      return report;
    });
  }
  if (config !== undefined || input === undefined || trust === undefined)
    throw new OperatorError('name either --config, or --input and --trust');
  const verify = createVerifier(parseTrust(readTextFile(trust, FILE_BYTES_MAX)));
  return checkTrail(exportedTrail(input), { verify });
}

const SHOWN_MAX = 10;

function printReport({ records, sealed, unsealed, unended, problems }: TrailReport): void {
  for (const problem of problems) note(`pdfseal: ${problem}`);
  print(`${records} audit records, ${sealed} sealed`);
  if (unsealed.length > 0) print(`not sealed yet, so no receipt proves them: ${some(unsealed)}`);
  if (unended.length > 0) print(`begun but not concluded: ${some(unended)}`);
  print(problems.length === 0 ? 'good' : `bad: ${problems.length} problems`);
}

function some(numbers: readonly number[]): string {
  return numbers.slice(0, SHOWN_MAX).join(', ') + (numbers.length > SHOWN_MAX ? ', …' : '');
}
