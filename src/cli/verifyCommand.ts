import { Command } from 'commander';
import { toHex } from '../base/bytes.ts';
import { sha256 } from '../base/crypto.ts';
import { OperatorError } from '../base/errors.ts';
import { RECEIPT_BYTES_MAX, trustFileWords, type Verdict, verifyReceiptText } from '../prove/verify.ts';
import { EXIT } from './exit.ts';
import { digestFile, readSmallFile, readTextFile } from './files.ts';
import { explain } from './help.ts';
import { report } from './report.ts';
import { print, printJson } from './terminal.ts';

const EXIT_OF = { good: EXIT.ok, bad: EXIT.failed, unknown: EXIT.unknown } as const;
const WORDS = { good: 'good', bad: 'bad', unknown: 'could not tell' } as const;

export function verifyCommand(): Command {
  return explain(
    new Command('verify')
      .description(
        'Verifies that a log of the trust file issued this receipt for exactly this document. Needs only the three files, and no ' +
          'network. Prints one line for each check.',
      )
      .argument('<document>', 'the document, byte for byte as it was sealed, or its copy without metadata')
      .argument('<receipt>', 'the receipt of the document')
      .requiredOption('--trust <file>', 'trust file, from a source that you trust (pdfseal trust export)')
      .action(verify),
    {
      exit: {
        0: 'good',
        1: 'bad',
        2: 'undecided: a file cannot be read, or the log is not in the trust file',
      },
      examples: [
        'pdfseal verify contract.pdf contract.pdf.receipt.json --trust trust.json',
        'pdfseal verify contract.pdf contract.pdf.receipt.json --trust trust.json --json | jq .outcome',
      ],
    },
  );
}

async function verify(
  documentPath: string,
  receiptPath: string,
  options: { trust: string; json?: true },
): Promise<void> {
  try {
    const trust = readSmallFile(options.trust, RECEIPT_BYTES_MAX);
    const verdict = await judge(documentPath, receiptPath, trust);
    process.exitCode = EXIT_OF[verdict.outcome];
    const trustSha256 = toHex(sha256(trust));
    if (options.json) printJson({ ...verdict, trust_file_sha256: trustSha256 });
    else printVerdict(verdict, trustSha256);
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    process.exitCode = report(error, EXIT.unknown);
  }
}

async function judge(documentPath: string, receiptPath: string, trust: Buffer): Promise<Verdict> {
  const receipt = readTextFile(receiptPath, RECEIPT_BYTES_MAX);
  return verifyReceiptText(receipt, trust.toString('utf8'), await digestFile(documentPath));
}

function printVerdict({ outcome, checks, matches }: Verdict, trustSha256: string): void {
  const width = Math.max(...checks.map(({ name }) => name.length));
  for (const check of checks)
    print(`${check.outcome.padEnd(7)}  ${check.name.padEnd(width)}  ${check.detail}`);
  print(trustFileWords(trustSha256));
  const isCopy = outcome === 'good' && matches === 'sealed_document';
  print(
    isCopy
      ? `${WORDS.good}: the copy without XMP metadata, not the document as it was received`
      : WORDS[outcome],
  );
}
