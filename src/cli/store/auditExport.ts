import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createFileAtomically } from '../../base/atomicFile.ts';
import { ownProcess } from '../../base/env.ts';
import { OperatorError } from '../../base/errors.ts';
import { makeFolder } from '../../base/folders.ts';
import { strangersOf, trustOfStore } from '../../config/trustAnchors.ts';
import { encodeReceipt, type Receipt } from '../../manifest/receipt.ts';
import { parseTrust } from '../../manifest/trustFile.ts';
import { examineEpochs } from '../../prove/epochs/epochSeal.ts';
import { doubtOf } from '../../prove/trail/lastCheckpoint.ts';
import {
  checkTrail,
  receiptFile,
  recordFile,
  some,
  storedTrail,
  type TrailReport,
  trailOfStore,
} from '../../prove/trail/trailCheck.ts';
import { createVerifier } from '../../prove/verify/verify.ts';
import { command, type Given, option } from '../command.ts';
import { EXIT } from '../exit.ts';
import { readTextFile } from '../files.ts';
import { CONFIG, CONFIG_DESCRIPTION, defaultConfigFile, parseCountArgument } from '../options.ts';
import { orUndecided } from '../report.ts';
import { note, print, printResult } from '../terminal.ts';
import { withStore } from '../withStore.ts';
import { examineExportedEpochs } from './exportedEpochs.ts';
import { exportedNumbers, exportedTrail } from './exportedTrail.ts';
import { recordProblems } from './recordCheck.ts';

export const exportTrailCommand = command('export', {
  summary: 'write records and receipts as files that anyone can verify',
  description:
    'Writes each record, and its receipt once it is sealed, into a folder. Existing files must have the same content and are left ' +
    'alone. So a folder on another machine shows if the trail was cut, or continued from an older copy.',
  options: [
    CONFIG,
    option('--output <path>', 'folder of the files; the command creates it, or adds to it', {
      required: true,
    }),
  ],
  formerly: { '--into': '--output' },
  exit: { 1: 'failed, or the folder has records that the store does not have' },
  examples: [
    'pdfseal audit export --config production.toml --output /srv/audit',
    `pdfseal verify ${recordFile(17)} ${receiptFile(17)} --trust trust.json`,
  ],
  async run({ config, output }) {
    await withStore(config, 'read', async (store) => {
      makeFolder(output);
      let newest = 0;
      const written = { records: 0, receipts: 0 };
      for await (const { number, text, receipt, problem } of storedTrail(store)) {
        if (problem !== undefined) throw new OperatorError(`audit record ${number}: ${problem}`);
        if (writeOnce(join(output, recordFile(number)), text)) written.records += 1;
        // A receipt is built from the store, always in the same way.
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
      printResult(
        { folder: output, newest, ...written },
        `${output}: ${newest} records; ${written.records} new records and ${written.receipts} new receipts written`,
      );
    });
  },
});

const VERIFY_OPTIONS = [
  option('--config <file>', CONFIG_DESCRIPTION),
  option('--input <folder>', 'folder that `pdfseal audit export` wrote'),
  option('--trust <file>', 'trust file, from a source that you trust (pdfseal trust export)'),
  option(
    '--newest <number>',
    'the newest record has at least this number; with --input, the result cannot be good without it',
    parseCountArgument,
  ),
] as const;

export const verifyTrailCommand = command('verify', {
  summary: 'check that no record is missing or altered',
  description:
    'Checks that no record is missing, that each contains the digest of the previous one, and that each receipt verifies. Reads the ' +
    'store of --config, or, with --input and --trust, a folder that `pdfseal audit export` wrote; the latter works offline. The ' +
    'store must have the last checkpoint of the log, so that no older copy passes, and exactly the API keys and renewals that the trail has.\n\n' +
    'A folder without its newest records looks whole. Therefore name, with --newest, the number of the newest record that you know ' +
    'of: from your last verification, from `pdfseal audit list`, or from a log of the daemon that was forwarded to another machine.',
  options: VERIFY_OPTIONS,
  formerly: { '--folder': '--input' },
  exit: {
    0: 'good',
    1: 'bad',
    2: 'could not tell: records without receipts or with receipts that cannot be judged, records of epochs that have no effect, no records, a folder whose newest record is not known, or a check that could not run',
  },
  examples: [
    'pdfseal audit verify --config production.toml',
    'pdfseal audit verify --input /srv/audit --trust trust.json --newest 57',
  ],
  run: (options) =>
    orUndecided(async () => {
      const report = await judge(options);
      const { problems, doubts } = report;
      const outcome = problems.length > 0 ? 'bad' : doubts.length > 0 ? 'unknown' : 'good';
      ownProcess().exitCode = { good: EXIT.ok, bad: EXIT.failed, unknown: EXIT.unknown }[outcome];
      printResult({ outcome, ...report }, () => printReport(report));
    }),
});

const FILE_BYTES_MAX = 1 << 24;

/** False if the file exists with this text. Throws OperatorError if it has another text. */
function writeOnce(file: string, text: string): boolean {
  if (!existsSync(file) && createFileAtomically(file, text)) return true;
  if (readTextFile(file, FILE_BYTES_MAX) === text) return false;
  throw new OperatorError(
    `${file} differs from the store: one of them was altered, or the trail was continued from an older copy`,
  );
}

async function judge(options: Given<typeof VERIFY_OPTIONS>): Promise<TrailReport> {
  const { config, input, trust, newest } = options;
  const newestMin = newest === undefined ? {} : { newestMin: newest };
  if (input === undefined && trust === undefined) {
    return withStore(config ?? defaultConfigFile(), 'read', async (store, config) => {
      const verify = createVerifier(await trustOfStore(store, config), { judgesDates: false });
      const report = await checkTrail(storedTrail(store), {
        trail: trailOfStore(store),
        verify,
        ...newestMin,
      });
      addEpochs(report, await examineEpochs(store));
      report.problems.push(...(await recordProblems(store)), ...(await strangersOf(store, config)));
      const doubt = await doubtOf(store, config.log.lastCheckpointFile);
      if (doubt !== undefined) report[doubt.kind === 'unknown' ? 'doubts' : 'problems'].push(doubt.reason);
      return report;
    });
  }
  if (config !== undefined || input === undefined || trust === undefined)
    throw new OperatorError('name either --config, or --input and --trust');
  const text = readTextFile(trust, FILE_BYTES_MAX);
  const verify = createVerifier(parseTrust(text));
  const report = await checkTrail(exportedTrail(input), { verify, ...newestMin });
  const { unheld, ...epochs } = examineExportedEpochs(input, text);
  addEpochs(report, epochs);
  report.doubts.push(...unheld);
  if (newest === undefined)
    report.doubts.push(
      'it is unknown whether newer records were removed from this folder: name the newest existing record with --newest',
    );
  return report;
}

/** A record without effect can be a plan that came too late, or a forgery: the records do not show which. */
function addEpochs(report: TrailReport, epochs: { problems: string[]; void: string[] }): void {
  report.problems.push(...epochs.problems);
  report.doubts.push(...epochs.void.map((line) => `${line}; find out who created this record`));
}

function printReport(report: TrailReport): void {
  const { records, sealed, newest, unended, problems, doubts } = report;
  for (const line of [...problems, ...doubts]) note(`pdfseal: ${line}`);
  const end =
    newest === undefined ? '' : `; the newest is ${newest.number}, of ${newest.at ?? 'an unknown time'}`;
  print(`${records} audit records, ${sealed} sealed${end}`);
  if (unended.length > 0) print(`begun but not concluded: ${some(unended)}`);
  if (problems.length > 0) print(`bad: ${problems.length} problems`);
  else print(doubts.length > 0 ? 'could not tell' : 'good');
}
