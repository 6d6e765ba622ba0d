/** Pairs receipts with their documents, and judges each pair. */
import { verifyReceiptText } from 'pdfseald/verify';
import { claimedDigests, provenBy } from '../dist/prove/proven.js';
import { type Digests, digestFile } from './hashing.ts';
import type { Result } from './resultView.ts';
import type { Assignment, Part } from './roles.ts';

export interface Judged {
  results: Result[];
  /** Documents for which there is no receipt. */
  alone: Part[];
}

type Hashed = Part & { digests: Digests };

/** What is told of the work: which file, and how many of all bytes are done. Whoever no longer wants the rest answers false. */
export type Progress = (file: File, done: number) => boolean;

/** Documents are hashed once, however often other files come and go. */
const digestsByFile = new WeakMap<File, Digests>();

/** Undefined if `progress` no longer wanted it. */
export async function judgeAll(
  { parts, records }: Pick<Assignment, 'parts' | 'records'>,
  trustText: string,
  progress: Progress,
): Promise<Judged | undefined> {
  const of = (role: Part['role']) => parts.filter((part) => part.role === role);
  const documents: Hashed[] = [];
  let before = 0;
  for (const part of of('document')) {
    const digests =
      digestsByFile.get(part.file) ??
      (await digestFile(part.file, (done) => progress(part.file, before + done)));
    if (digests === undefined) return undefined;
    digestsByFile.set(part.file, digests);
    before += part.file.size;
    documents.push({ ...part, digests });
  }
  const receipts = of('receipt');
  // A single document is held against a single receipt, whether or not it is the right one.
  const isPair = receipts.length === 1 && documents.length === 1;
  const results: Result[] = [];
  const matched = new Set<string>();
  for (const receipt of receipts) {
    const claimed = claimedDigests(receipt.text ?? '');
    // A receipt can be for two documents: the one that was received, and its copy without metadata.
    const own = isPair ? documents : documents.filter(({ digests }) => claimed.includes(digests.sha256));
    for (const document of own.length === 0 ? [undefined] : own) {
      if (document) matched.add(document.digests.sha256);
      results.push(judge(receipt, document, trustText, records.get(receipt)));
    }
    // The page stays usable between two receipts, too.
    await new Promise((resolve) => setTimeout(resolve));
    if (!progress(receipt.file, before)) return undefined;
  }
  return { results, alone: documents.filter(({ digests }) => !matched.has(digests.sha256)) };
}

function judge(
  receipt: Part,
  document: Hashed | undefined,
  trustText: string,
  record: Part | undefined,
): Result {
  const text = receipt.text ?? '';
  const evidence = record && { record: record.bytes ?? new Uint8Array(0), at: Date.now() };
  const verdict = verifyReceiptText(text, trustText, document?.digests, evidence);
  const proven = provenBy(text, trustText, verdict);
  return {
    receipt,
    verdict,
    ...(document && { document }),
    ...(record && { record }),
    ...(proven && { proven }),
  };
}
