import { InvalidArgumentError } from 'commander';
import { RECORD_BYTES_MAX } from '../asn1/evidenceRecord.ts';
import { toHex } from '../base/bytes.ts';
import { systemClock } from '../base/clock.ts';
import { sha256 } from '../base/crypto.ts';
import { ownProcess } from '../base/env.ts';
import { OperatorError } from '../base/errors.ts';
import type { DocumentDigests } from '../job/job.ts';
import { BUNDLE_LENGTH_MAX } from '../manifest/bundle.ts';
import { provenBy } from '../prove/verify/proven.ts';
import { RECEIPT_BYTES_MAX } from '../prove/verify/receiptText.ts';
import {
  REQUIREMENTS,
  type Requirement,
  type SealedPdfVerdict,
  type TextOptions,
  verifyReceiptText,
  verifySealedPdf,
} from '../prove/verify/verify.ts';
import { argument, command, option } from './command.ts';
import {
  digestFile,
  firstBytes,
  hasDigests,
  isFolder,
  openAnyPlace,
  readSmallFile,
  readTextFile,
  saveDocument,
} from './files.ts';
import { TRUST } from './options.ts';
import { orUndecided } from './report.ts';
import { print, printResult } from './terminal.ts';
import { EXIT_OF, sentenceOf, type VerdictReport, WORDS, wireVerdict } from './verdictReport.ts';
import { verifyFolder } from './verifyFolder.ts';

export const verifyCommand = command('verify', {
  description:
    'Verifies that a log of the trust file issued this receipt for exactly this document. Needs only these files, and no network. ' +
    'A PDF that holds its receipt needs no other file than the trust file: its seal must have changed nothing else. Prints one line for each check. ' +
    'For a folder, the command pairs every PDF below it with its receipt, by name or by digest, and prints one line for each, and the sum.',
  arguments: [
    argument(
      '<document>',
      'the document, byte for byte as it was sealed, or its copy without metadata; or a PDF that holds its receipt; or a folder',
    ),
    argument(
      '[receipt]',
      'the receipt of the document, its bundle, or its proof (C2SP tlog-proof); without it, the PDF must hold its receipt',
    ),
  ],
  options: [
    TRUST,
    option(
      '--original <file>',
      'if a PDF that holds its receipt is good, write the document that was sealed to this file',
    ),
    option(
      '--evidence-record <file>',
      'evidence record of the receipt (RFC 4998): must prove today that its checkpoint existed',
    ),
    option(
      '--require <list>',
      'what must be shown too: time (an authority confirms it, and its certificate or an evidence record holds today), witness (the witnesses of the trust file), or time,witness',
      { parse: parseRequirements },
    ),
  ],
  exit: {
    0: 'good; for a folder: all of them',
    1: 'bad; for a folder: at least one of them',
    2: 'undecided: a file cannot be read, the trust file does not know the log or the epoch, dates contradict each other, or something that is required is not shown',
  },
  examples: [
    'pdfseal verify contract.pdf contract.pdf.receipt.json --trust trust.json',
    'pdfseal verify contract.sealed.pdf --trust trust.json --original contract.pdf',
    'pdfseal verify archive/ --trust trust.json',
    'pdfseal verify contract.pdf contract.pdf.bundle.json --trust trust.json --require time,witness',
    'pdfseal verify contract.pdf contract.pdf.receipt.json --trust trust.json --evidence-record contract.pdf.ers',
    'pdfseal verify contract.pdf contract.pdf.receipt.json --trust trust.json --json | jq .outcome',
  ],
  run: (options, documentPath, receiptPath) =>
    orUndecided(async () => {
      const trust = readSmallFile(options.trust, RECEIPT_BYTES_MAX);
      const { evidenceRecord, require = [], original } = options;
      const [trustText, at] = [trust.toString('utf8'), systemClock()];
      const terms = { required: require, at, trustSha256: toHex(sha256(trust)) };
      if (isFolder(documentPath)) {
        if (receiptPath !== undefined || original !== undefined || evidenceRecord !== undefined)
          throw new OperatorError(
            `${documentPath} is a folder: name no receipt, and neither --original nor --evidence-record`,
          );
        return await verifyFolder(documentPath, { ...terms, trustText });
      }
      if (original !== undefined && receiptPath !== undefined)
        throw new OperatorError('--original is for a PDF that holds its receipt: name no other receipt');
      const record =
        evidenceRecord === undefined ? undefined : readSmallFile(evidenceRecord, RECORD_BYTES_MAX);
      const judged = await judge([documentPath, receiptPath], trustText, { at, require, record });
      const { verdict, receipt, document } = judged;
      if (original !== undefined && document !== undefined && verdict.outcome === 'good')
        await saveOriginal(original, documentPath, document);
      const proven = receipt === undefined ? undefined : provenBy(receipt, trustText, verdict);
      const report = { verdict, proven, ...terms };
      ownProcess().exitCode = EXIT_OF[report.verdict.outcome];
      printResult(wireVerdict(report), () => printVerdict(report));
    }),
});

async function judge(
  [documentPath, receiptPath]: readonly [document: string, receipt: string | undefined],
  trustText: string,
  options: TextOptions,
): Promise<SealedPdfVerdict> {
  if (receiptPath !== undefined) {
    const receipt = readTextFile(receiptPath, BUNDLE_LENGTH_MAX);
    const document = await digestFile(documentPath);
    return { verdict: verifyReceiptText(receipt, trustText, document, options), receipt, document };
  }
  using pdf = openAnyPlace(documentPath);
  const digestsOf = (bytes: number) => digestFile(documentPath, undefined, bytes);
  // Awaited here, because the file is closed on return.
  return await verifySealedPdf(pdf, trustText, { ...options, digestsOf });
}

async function saveOriginal(path: string, from: string, document: DocumentDigests): Promise<void> {
  if (await saveDocument(path, firstBytes(from, document.bytes), hasDigests(document), false)) return;
  throw new OperatorError(`${path} exists already: name another file`);
}

function printVerdict(report: VerdictReport): void {
  const { outcome, checks, matches, evidence } = report.verdict;
  if (ownProcess().stdout.isTTY) for (const line of [sentenceOf(report), '']) print(line);
  const words = checks.map((check) => (check.outcome === 'not_shown' ? 'not shown' : check.outcome));
  const [first, second] = [words, checks.map(({ name }) => name)].map((column) =>
    Math.max(...column.map(({ length }) => length)),
  );
  for (const [index, { name, detail }] of checks.entries())
    print(`${words[index]?.padEnd(Math.max(7, first ?? 0))}  ${name.padEnd(second ?? 0)}  ${detail}`);
  for (const [index, { outcome, kind, detail }] of (evidence?.lines ?? []).entries())
    print(`  ${index + 1}. ${outcome}, ${kind}: ${detail}`);
  // A verdict is worth as much as the trust file.
  print(
    `The trust file has SHA-256 ${report.trustSha256}: compare it with the digest that was handed over to you.`,
  );
  const isCopy = outcome === 'good' && matches === 'sealed_document';
  print(
    isCopy
      ? `${WORDS.good}: the copy without XMP metadata, not the document as it was received`
      : WORDS[outcome],
  );
}

function parseRequirements(text: string): Requirement[] {
  const names = text.split(',').map((name) => name.trim());
  const found = REQUIREMENTS.filter((one) => names.includes(one));
  if (found.length === names.length) return found;
  throw new InvalidArgumentError(`Expected ${REQUIREMENTS.join(' or ')}, or both with a comma between them.`);
}
