/** A PDF that holds its receipt: finds the receipt, and proves that the seal changed nothing else. */
import { bytesEqual, concatBytes, fromHex, fromUtf8, toBinary } from '../../base/bytes.ts';
import { OperatorError } from '../../base/errors.ts';
import { encodeReceipt } from '../../manifest/receipt.ts';
import { parseReceipt, type ReceivedReceipt } from '../../manifest/received.ts';
import { examineAttachment, type PdfReader, planAttachment } from '../../pdf/update/attach.ts';
import { NotSealable } from '../../pdf/update/notSealable.ts';
import { RECEIPT_HEAD, RECEIPT_MARK, suffixOf } from '../../pdf/update/suffix.ts';
import { type Finding, failed, passed, unknown } from './finding.ts';
import { parseReceiptJson, RECEIPT_BYTES_MAX } from './receiptText.ts';

export interface SealedPdf {
  /** The check `seal` of the verdict. */
  finding: Finding;
  /** The text of the receipt in it; absent if there is none. */
  receipt?: string;
  /** How many of its first bytes are the document that was sealed; absent if that is not known. */
  documentBytes?: number;
}

const WHOLE = 'it is the document and its receipt, byte for byte, and nothing else';
const SEES_ATTACHMENTS =
  'The document has scripts or links into attached documents, which can show something else once a receipt is attached';
const READ_BYTES = 1 << 20;
const HEAD_BYTES = 256;

/**
 * Reads the receipt of a sealed PDF, and plans its seal again: what follows the document must be that, byte for byte. Never throws for what a
 * stranger sent.
 */
export async function openSealedPdf(reader: PdfReader): Promise<SealedPdf> {
  const bytes = await lastReceipt(reader);
  if (bytes === undefined)
    return { finding: unknown('no receipt is attached to this document', 'receipt_missing') };
  const receipt = new TextDecoder().decode(bytes);
  const parsed = parseReceipt(parseReceiptJson(receipt));
  if (parsed.kind !== 'receipt')
    return { finding: unknown(`what is attached is not a receipt: ${parsed.detail}`) };
  if (!bytesEqual(bytes, fromUtf8(encodeReceipt(parsed.receipt))))
    return { receipt, finding: failed('the receipt in it is not written as receipts are') };
  return { receipt, ...(await judge(reader, parsed.receipt)) };
}

/** The bytes that attach a receipt to its document. Throws OperatorError if that cannot be done with certainty. */
export async function sealFor(document: PdfReader, receipt: ReceivedReceipt): Promise<Uint8Array> {
  try {
    const { seal } = await sealOf(document, receipt);
    const sealed = followedBy(document, seal);
    const { finding } = await openSealedPdf(sealed);
    // Whatever is attached later finds its place in what this attached.
    await planAttachment(sealed);
    if (finding.outcome !== 'passed') throw new Error(`the sealed PDF does not verify: ${finding.detail}`);
    return seal;
  } catch (cause) {
    if (!(cause instanceof NotSealable)) throw cause;
    const message = `a receipt cannot be attached to this document: ${cause.message}`;
    throw new OperatorError(message, { cause, remedy: 'keep the receipt with the document' });
  }
}

async function sealOf(document: PdfReader, receipt: ReceivedReceipt) {
  const sealedAt = Date.parse(receipt.manifest.sealed_at);
  const { plan, seesAttachments } = await examineAttachment(document);
  return { seal: suffixOf(plan, fromUtf8(encodeReceipt(receipt)), sealedAt), seesAttachments };
}

/** The receipt that was attached last, by the form that all have. Nothing of it is trusted yet. */
async function lastReceipt(reader: PdfReader): Promise<Uint8Array | undefined> {
  for (let end = reader.size; end > 0; end -= READ_BYTES) {
    const start = Math.max(0, end - READ_BYTES);
    const text = toBinary(await reader.read(start, end - start + HEAD_BYTES));
    const found = text.lastIndexOf(RECEIPT_MARK);
    if (found < 0) continue;
    const at = start + found + RECEIPT_MARK.length;
    const head = RECEIPT_HEAD.exec(toBinary(await reader.read(at, HEAD_BYTES)));
    const length = Number(head?.[1]);
    if (head === null || length > RECEIPT_BYTES_MAX) return undefined;
    return fromHex(toBinary(await reader.read(at + head[0].length, 2 * length)));
  }
  return undefined;
}

async function judge(reader: PdfReader, receipt: ReceivedReceipt): Promise<Omit<SealedPdf, 'receipt'>> {
  const { document, sealed_document: copy } = receipt.manifest;
  let finding = failed('it is not the document of the receipt with only this receipt attached');
  for (const documentBytes of new Set([copy?.bytes, document.bytes])) {
    if (documentBytes === undefined || documentBytes >= reader.size) continue;
    try {
      const { seal, seesAttachments } = await sealOf(firstBytes(reader, documentBytes), receipt);
      if (!bytesEqual(seal, await reader.read(documentBytes, seal.length))) continue;
      const after = reader.size - documentBytes - seal.length;
      if (after > 0)
        return {
          finding: failed(`it was changed after it was sealed: ${after} bytes follow the seal`),
          documentBytes,
        };
      return { finding: passed(seesAttachments ? `${WHOLE}. ${SEES_ATTACHMENTS}` : WHOLE), documentBytes };
    } catch (error) {
      if (!(error instanceof NotSealable)) throw error;
      finding = unknown(`its seal cannot be planned again: ${error.message}`);
    }
  }
  return { finding };
}

function firstBytes(reader: PdfReader, size: number): PdfReader {
  const read = (offset: number, length: number) =>
    reader.read(offset, Math.max(0, Math.min(length, size - offset)));
  return { ...reader, size, read };
}

function followedBy(reader: PdfReader, more: Uint8Array): PdfReader {
  const { size } = reader;
  const read = async (offset: number, length: number) => {
    const own =
      offset < size ? await reader.read(offset, Math.min(length, size - offset)) : new Uint8Array(0);
    const from = Math.max(0, offset - size);
    return concatBytes([own, more.subarray(from, from + Math.max(0, length - own.length))]);
  };
  return { ...reader, size: size + more.length, read };
}
