/** Judges the receipts that it reads from standard input, for a test of what judges in a process of its own. */
import { text } from 'node:stream/consumers';
import type { DocumentDigests } from '../../../src/job/job.ts';
import { verifyReceiptText } from '../../../src/prove/verify/verify.ts';

export interface Asked {
  receipt: string;
  trust: string;
  digests: DocumentDigests;
}

const asked = JSON.parse(await text(process.stdin)) as Asked[];
const verdicts = asked.map(({ receipt, trust, digests }) => verifyReceiptText(receipt, trust, digests));
process.stdout.write(JSON.stringify(verdicts));
