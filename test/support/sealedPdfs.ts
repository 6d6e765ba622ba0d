/** A PDF of every kind that holds, or could hold, its receipt. */
import assert from 'node:assert/strict';
import { encodeReceipt } from '../../src/manifest/receipt.ts';
import { encodeTrust } from '../../src/manifest/trustFile.ts';
import { readerOf } from '../../src/pdf/sourceReader.ts';
import { planAttachment } from '../../src/pdf/update/attach.ts';
import { suffixOf } from '../../src/pdf/update/suffix.ts';
import { bufferSource } from '../../src/pdf/window.ts';
import { appendRevision, onePage, packedFile, pdfFile, stream } from './pdf.ts';
import { digestsOf } from './receipts.ts';
import { SEALABLE } from './sealable.ts';
import { makeContent, makeJob, makeKey, oneEpoch, sealJobs, type TestKey } from './sealing.ts';

const ORIGIN = 'seal.example.com/test/2026';
export const SEALED_AT = Date.parse('2026-03-04T05:06:08Z');
const key = makeKey('ed25519', 'one');
const { privateKey: _privateKey, ...logKey } = key;

export const SEALED_TRUST = encodeTrust({
  timestampAuthorities: [],
  logs: [oneEpoch({ origin: ORIGIN, environment: 'env_test', quorum: 1, keys: [logKey] })],
});

/** The receipt of a document, or of the copy of another one. */
export async function receiptOf(
  document: Buffer,
  { received, signer = key }: { received?: Buffer; signer?: TestKey } = {},
): Promise<string> {
  const content = received
    ? makeContent({ document: digestsOf(received), sealedDocument: digestsOf(document) })
    : makeContent({ document: digestsOf(document) });
  const jobs = [makeJob('job_1', { content }), makeJob('job_2')] as const;
  const sealing = { environment: 'test', origin: ORIGIN, keys: [signer], sealedAt: SEALED_AT } as const;
  const [receipt] = await sealJobs({ jobs, ...sealing });
  assert.ok(receipt);
  return encodeReceipt(receipt);
}

export async function sealed(document: Buffer, receipt: string, sealedAt = SEALED_AT): Promise<Buffer> {
  const plan = await planAttachment(readerOf(bufferSource(document)));
  return Buffer.concat([document, suffixOf(plan, Buffer.from(receipt), sealedAt)]);
}

export interface SealedFixture {
  name: string;
  pdf: Buffer;
  outcome: 'good' | 'bad' | 'unknown';
  /** The document that was sealed, if the verdict is good. */
  original?: Buffer;
}

export async function makeSealedPdfs(): Promise<SealedFixture[]> {
  const document = pdfFile(onePage());
  const packed = packedFile(onePage('/Names 8 0 R'), { 8: '<< /Dests 9 0 R >>', 9: '<< /Names [] >>' });
  const receipt = await receiptOf(document);
  const whole = await sealed(document, receipt);
  const twice = await sealed(whole, await receiptOf(whole));
  const other = pdfFile(onePage('/Lang (en)'));
  const flipped = Buffer.from(whole);
  flipped.write('%PDF-1.6', 0);
  const large = SEALABLE['a tree with limits'] ?? document;
  const good = (name: string, pdf: Buffer, original: Buffer): SealedFixture => ({
    ...{ name, pdf, original },
    outcome: 'good',
  });
  return [
    good('good', whole, document),
    good('compressed', await sealed(packed, await receiptOf(packed)), packed),
    good('with attached files', await sealed(large, await receiptOf(large)), large),
    good('twice', twice, whole),
    good('copy', await sealed(document, await receiptOf(document, { received: other })), document),
    { name: 'changed', pdf: flipped, outcome: 'bad' },
    {
      name: 'another page',
      pdf: appendRevision(whole, { 4: stream('', Buffer.from('0 g')) }),
      outcome: 'bad',
    },
    { name: 'more at the end', pdf: Buffer.concat([whole, Buffer.from('%')]), outcome: 'bad' },
    { name: 'cut short', pdf: whole.subarray(0, -1), outcome: 'bad' },
    { name: 'another document', pdf: await sealed(other, receipt), outcome: 'bad' },
    {
      name: 'a forger’s receipt',
      pdf: await sealed(document, await receiptOf(document, { signer: makeKey('ed25519', 'one') })),
      outcome: 'unknown',
    },
    { name: 'not a receipt', pdf: await sealed(document, '{"a":1}'), outcome: 'unknown' },
    { name: 'without a receipt', pdf: document, outcome: 'unknown' },
    { name: 'no PDF', pdf: Buffer.from('%PDF-1.7 not really'), outcome: 'unknown' },
  ];
}
