import { ownProcess } from '../base/env.ts';
import { OperatorError } from '../base/errors.ts';
import type { DocumentDigests } from '../job/job.ts';
import { BUNDLE_LENGTH_MAX } from '../manifest/bundle.ts';
import { claimedDigests, provenBy } from '../prove/verify/proven.ts';
import { type TextOptions, verifyReceiptText, verifySealedPdf } from '../prove/verify/verify.ts';
import { digestFile, filesBelow, openAnyPlace, readTextFile } from './files.ts';
import { isJson, onInterrupt, print, printJson, SILENT, showCount } from './terminal.ts';
import { EXIT_OF, sentenceOf, type VerdictReport, WORDS, wireVerdict } from './verdictReport.ts';

/** A document and its receipt; one of both can be absent. */
interface Pair {
  document?: string;
  /** Of the document, if they were needed to find its receipt. */
  digests?: DocumentDigests;
  receipt?: string;
}

/** How receipts are named: `<document>.receipt.json`. */
const RECEIPT_ENDING = /\.(?:receipt\.json|bundle\.json|tlog-proof)$/i;

/** What all verdicts on a folder have in common. */
type Terms = Pick<VerdictReport, 'required' | 'at' | 'trustSha256'> & { trustText: string };

/**
 * Verifies every PDF below a folder with its receipt, and every receipt without a document. Prints a line for each, and the sum. Throws
 * OperatorError if there is nothing to verify, or a file cannot be read.
 */
export async function verifyFolder(folder: string, { trustText, ...terms }: Terms): Promise<void> {
  const pairs = await pairsBelow(folder);
  if (pairs.length === 0)
    throw new OperatorError(
      `${folder} has no PDF and no receipt (*.receipt.json, *.bundle.json, *.tlog-proof)`,
    );
  const counts = { good: 0, bad: 0, unknown: 0 };
  const sum = () => `${counts.good} good, ${counts.bad} bad, ${counts.unknown} could not tell`;
  const done = () => counts.good + counts.bad + counts.unknown;
  using _interrupted = onInterrupt(() => `${done()} of ${pairs.length} verified: ${sum()}`);
  const progress = isJson() ? SILENT : showCount(pairs.length);
  try {
    for (const pair of pairs) {
      const { verdict, receipt } = await judge(pair, trustText, { at: terms.at, require: terms.required });
      const proven = receipt === undefined ? undefined : provenBy(receipt, trustText, verdict);
      counts[verdict.outcome] += 1;
      const report = { verdict, proven, ...terms };
      if (isJson())
        printJson({ document: pair.document, receipt: pair.receipt, verdict: wireVerdict(report) });
      else
        print(
          `${WORDS[verdict.outcome].padEnd(14)}  ${pair.document ?? pair.receipt}  ${sentenceOf(report)}`,
        );
      progress.update(done(), 0);
    }
  } finally {
    progress.stop();
  }
  if (!isJson()) {
    print(
      `The trust file has SHA-256 ${terms.trustSha256}: compare it with the digest that was handed over to you.`,
    );
    print(sum());
  }
  const outcome = counts.bad > 0 ? 'bad' : counts.unknown > 0 ? 'unknown' : 'good';
  ownProcess().exitCode = EXIT_OF[outcome];
}

/** In the order of their names. A receipt belongs to the document in its name; if there is none, to those whose digest it has. */
async function pairsBelow(folder: string): Promise<Pair[]> {
  const files = filesBelow(folder);
  const receipts = files.filter((file) => RECEIPT_ENDING.test(file));
  const present = new Set(files);
  const byName = new Map<string, string[]>();
  for (const receipt of receipts) {
    const document = receipt.replace(RECEIPT_ENDING, '');
    if (present.has(document)) byName.set(document, [...(byName.get(document) ?? []), receipt]);
  }
  const claims = new Map<string, string>();
  for (const receipt of receipts)
    for (const sha256 of claimedDigests(readTextFile(receipt, BUNDLE_LENGTH_MAX)))
      claims.set(sha256, claims.get(sha256) ?? receipt);
  const used = new Set([...byName.values()].flat());
  const pairs: Pair[] = [];
  for (const document of files) {
    const own = byName.get(document);
    if (own !== undefined) pairs.push(...own.map((receipt) => ({ document, receipt })));
    else if (/\.pdf$/i.test(document)) {
      const digests = await digestFile(document, SILENT);
      const receipt = claims.get(digests.sha256);
      if (receipt !== undefined) used.add(receipt);
      pairs.push({ document, digests, ...(receipt !== undefined && { receipt }) });
    }
  }
  pairs.push(...receipts.filter((receipt) => !used.has(receipt)).map((receipt) => ({ receipt })));
  const nameOf = ({ document, receipt }: Pair) => document ?? receipt ?? '';
  return pairs.sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
}

async function judge({ document, digests, receipt }: Pair, trustText: string, options: TextOptions) {
  if (receipt !== undefined) {
    const text = readTextFile(receipt, BUNDLE_LENGTH_MAX);
    const found = digests ?? (document === undefined ? undefined : await digestFile(document, SILENT));
    return { verdict: verifyReceiptText(text, trustText, found, options), receipt: text };
  }
  using pdf = openAnyPlace(document ?? '');
  const digestsOf = (bytes: number) => digestFile(document ?? '', SILENT, bytes);
  // Awaited here, because the file is closed on return.
  return await verifySealedPdf(pdf, trustText, { ...options, digestsOf });
}
