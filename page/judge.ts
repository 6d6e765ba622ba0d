/** Pairs receipts with their documents, and judges each pair. */
import { verifyReceiptText } from 'pdfseald/verify';
import { claimedDigests, provenBy } from '../dist/prove/verify/proven.js';
import { type Digests, digestFile } from './hashing.ts';
import type { Result } from './resultView.ts';
import type { Assignment, Part } from './roles.ts';

export interface Judged {
  results: Result[];
  /** Documents without a receipt. */
  alone: Part[];
}

type Hashed = Part & { digests: Digests };

/** Reports progress: the current file, and how many of all bytes are done. Returns false to cancel the rest. */
export type Progress = (file: File, done: number) => boolean;

/** Documents are hashed once, even if other files are added and removed. */
const digestsByFile = new WeakMap<File, Digests>();

/** Undefined if `progress` cancelled it. */
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
  // A single document is always compared with a single receipt, even if they do not match.
  const isPair = receipts.length === 1 && documents.length === 1;
  const results: Result[] = [];
  const matched = new Set<string>();
  for (const receipt of receipts) {
    const claimed = claimedDigests(receipt.text ?? '');
    // A receipt can apply to two documents: the one that was received, and its copy without metadata.
    const own = isPair ? documents : documents.filter(({ digests }) => claimed.includes(digests.sha256));
    for (const document of own.length === 0 ? [undefined] : own) {
      if (document) matched.add(document.digests.sha256);
      results.push(judge(receipt, document, trustText, records.get(receipt)));
    }
    // Keeps the page responsive between two receipts, too.
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
