/** Pairs receipts with their documents, and judges each pair, and each PDF that holds its receipt. */
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';
import { verifyReceiptText, verifySealedPdf } from 'pdfseald/verify';
import { claimedDigests, provenBy } from '../dist/prove/verify/proven.js';
import { type Digests, digestFile } from './hashing.ts';
import type { Result } from './resultView.ts';
import type { Assignment, Part } from './roles.ts';

type Hashed = Part & { digests: Digests };

/** Reports progress: the current file, and how many of all bytes are done. Returns false to cancel the rest. */
export type Progress = (file: File, done: number) => boolean;

/** Thrown once `progress` has cancelled the rest. */
const CANCELLED = Symbol();

/** Documents are hashed once, even if other files are added and removed. */
const digestsByFile = new WeakMap<File, Digests>();

/** A result for each receipt, and for each document without one. Undefined if `progress` cancelled it. */
export async function judgeAll(
  { parts, records }: Pick<Assignment, 'parts' | 'records'>,
  trustText: string,
  progress: Progress,
): Promise<Result[] | undefined> {
  try {
    return await judgeEach({ parts, records }, trustText, progress);
  } catch (error) {
    if (error !== CANCELLED) throw error;
    return undefined;
  }
}

async function judgeEach(
  { parts, records }: Pick<Assignment, 'parts' | 'records'>,
  trustText: string,
  progress: Progress,
): Promise<Result[]> {
  const of = (role: Part['role']) => parts.filter((part) => part.role === role);
  const [receipts, documents] = [of('receipt'), of('document')];
  let before = 0;
  const advance = (file: File, done: number) => {
    if (!progress(file, before + done)) throw CANCELLED;
    return true;
  };
  const hashed: Hashed[] = [];
  // Without receipts, no document must be compared with one.
  for (const part of receipts.length === 0 ? [] : documents) {
    const digests = await digestsOf(part.file, part.file.size, (done) => advance(part.file, done));
    before += part.file.size;
    hashed.push({ ...part, digests });
  }
  // A single document is always compared with a single receipt, even if they do not match.
  const isPair = receipts.length === 1 && documents.length === 1;
  const results: Result[] = [];
  const matched = new Set<File>();
  for (const receipt of receipts) {
    const claimed = claimedDigests(receipt.text ?? '');
    // A receipt can apply to two documents: the one that was received, and its copy without metadata.
    const own = isPair ? hashed : hashed.filter(({ digests }) => claimed.includes(digests.sha256));
    for (const document of own.length === 0 ? [undefined] : own) {
      if (document) matched.add(document.file);
      results.push(judge(receipt, document, trustText, records.get(receipt)));
    }
    // Keeps the page responsive between two receipts, too.
    await new Promise((resolve) => setTimeout(resolve));
    advance(receipt.file, 0);
  }
  for (const document of documents.filter(({ file }) => !matched.has(file))) {
    results.push(await judgeAlone(document, trustText, (done) => advance(document.file, done)));
    before += receipts.length === 0 ? document.file.size : 0;
  }
  return results;
}

/** A document without a receipt in another file: it may hold its own. */
async function judgeAlone(
  part: Part,
  trustText: string,
  advance: (done: number) => boolean,
): Promise<Result> {
  const { file } = part;
  const read = async (offset: number, length: number) => {
    advance(0);
    return new Uint8Array(await file.slice(offset, offset + length).arrayBuffer());
  };
  const { verdict, receipt, document } = await verifySealedPdf({ size: file.size, read }, trustText, {
    at: Date.now(),
    digestsOf: (bytes) => digestsOf(file, bytes, advance),
  });
  if (receipt === undefined || document === undefined) return { verdict, document: part };
  const proven = provenBy(receipt, trustText, verdict);
  return {
    verdict,
    document: { ...part, digests: document },
    receipt: { ...part, role: 'receipt', text: receipt, sha256: bytesToHex(sha256(utf8ToBytes(receipt))) },
    isSealedPdf: true,
    ...(proven && { proven }),
  };
}

/** Throws if `advance` does. */
async function digestsOf(file: File, bytes: number, advance: (done: number) => boolean): Promise<Digests> {
  const known = digestsByFile.get(file);
  if (known?.bytes === bytes) return known;
  const digests = await digestFile(file.slice(0, bytes), advance);
  if (digests === undefined) throw CANCELLED;
  digestsByFile.set(file, digests);
  return digests;
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
