/** Judges the receipts that it reads from standard input, for a test of what judges in a process of its own. */
import { text } from 'node:stream/consumers';
import type { DocumentDigests } from '../../../src/job/job.ts';
import { type Verdict, verifyReceiptText, verifySealedPdf } from '../../../src/prove/verify/verify.ts';

export interface Asked {
  receipt: string;
  trust: string;
  digests: DocumentDigests;
}

/** A PDF that holds its receipt, in Base64. */
export interface AskedPdf {
  pdf: string;
  trust: string;
}

/** Reads as a page reads a file. */
export function blobReader(bytes: Buffer) {
  const blob = new Blob([Uint8Array.from(bytes)]);
  const read = async (offset: number, length: number) =>
    new Uint8Array(await blob.slice(offset, offset + length).arrayBuffer());
  return { size: blob.size, read };
}

if (import.meta.main) {
  const verdicts: Verdict[] = [];
  for (const one of JSON.parse(await text(process.stdin)) as (Asked | AskedPdf)[])
    verdicts.push(
      'pdf' in one
        ? (await verifySealedPdf(blobReader(Buffer.from(one.pdf, 'base64')), one.trust)).verdict
        : verifyReceiptText(one.receipt, one.trust, one.digests),
    );
  process.stdout.write(JSON.stringify(verdicts));
}
