import { RECORD_BYTES_MAX } from '../asn1/evidenceRecord.ts';
import { toHex } from '../base/bytes.ts';
import { sha256 } from '../base/crypto.ts';
import { ownProcess } from '../base/env.ts';
import { RECEIPT_BYTES_MAX, type Verdict, verifyReceiptText } from '../prove/verify.ts';
import { argument, command, option } from './command.ts';
import { EXIT } from './exit.ts';
import { digestFile, readSmallFile, readTextFile } from './files.ts';
import { TRUST } from './options.ts';
import { orUndecided } from './report.ts';
import { print, printResult } from './terminal.ts';

const EXIT_OF = { good: EXIT.ok, bad: EXIT.failed, unknown: EXIT.unknown } as const;
const WORDS = { good: 'good', bad: 'bad', unknown: 'could not tell' } as const;

export const verifyCommand = command('verify', {
  description:
    'Verifies that a log of the trust file issued this receipt for exactly this document. Needs only the three files, and no ' +
    'network. Prints one line for each check.',
  arguments: [
    argument('<document>', 'the document, byte for byte as it was sealed, or its copy without metadata'),
    argument('<receipt>', 'the receipt of the document'),
  ],
  options: [
    TRUST,
    option(
      '--evidence-record <file>',
      'evidence record of the receipt (RFC 4998): must prove today that its checkpoint existed',
    ),
  ],
  exit: {
    0: 'good',
    1: 'bad',
    2: 'undecided: a file cannot be read, the log is not in the trust file, or the evidence record has ended',
  },
  examples: [
    'pdfseal verify contract.pdf contract.pdf.receipt.json --trust trust.json',
    'pdfseal verify contract.pdf contract.pdf.receipt.json --trust trust.json --evidence-record contract.pdf.ers',
    'pdfseal verify contract.pdf contract.pdf.receipt.json --trust trust.json --json | jq .outcome',
  ],
  run: (options, documentPath, receiptPath) =>
    orUndecided(async () => {
      const trust = readSmallFile(options.trust, RECEIPT_BYTES_MAX);
      const verdict = await judge(documentPath, receiptPath, trust, options.evidenceRecord);
      ownProcess().exitCode = EXIT_OF[verdict.outcome];
      const trustSha256 = toHex(sha256(trust));
      printResult({ ...wireVerdict(verdict), trust_file_sha256: trustSha256 }, () =>
        printVerdict(verdict, trustSha256),
      );
    }),
});

async function judge(
  documentPath: string,
  receiptPath: string,
  trust: Buffer,
  recordPath: string | undefined,
): Promise<Verdict> {
  const receipt = readTextFile(receiptPath, RECEIPT_BYTES_MAX);
  const record = recordPath === undefined ? undefined : readSmallFile(recordPath, RECORD_BYTES_MAX);
  const digests = await digestFile(documentPath);
  return verifyReceiptText(receipt, trust.toString('utf8'), digests, record && { record, at: Date.now() });
}

function wireVerdict({ evidence, ...verdict }: Verdict): object {
  if (evidence === undefined) return verdict;
  const { lines, holdsUntil } = evidence;
  return {
    ...verdict,
    evidence_record: { time_stamps: lines, ...(holdsUntil && { holds_until: holdsUntil }) },
  };
}

function printVerdict({ outcome, checks, matches, evidence }: Verdict, trustSha256: string): void {
  const width = Math.max(...checks.map(({ name }) => name.length));
  for (const check of checks)
    print(`${check.outcome.padEnd(7)}  ${check.name.padEnd(width)}  ${check.detail}`);
  for (const [index, { outcome, kind, detail }] of (evidence?.lines ?? []).entries())
    print(`  ${index + 1}. ${outcome}, ${kind}: ${detail}`);
  // A verdict is worth as much as the trust file.
  print(`The trust file has SHA-256 ${trustSha256}: compare it with the digest that was handed over to you.`);
  const isCopy = outcome === 'good' && matches === 'sealed_document';
  print(
    isCopy
      ? `${WORDS.good}: the copy without XMP metadata, not the document as it was received`
      : WORDS[outcome],
  );
}
