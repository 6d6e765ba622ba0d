/** A PDF that holds its receipt: finds the receipt, and proves that the seal changed nothing else. */

import { OperatorError } from '../../base/errors.ts';
import { encodeReceipt } from '../../manifest/receipt.ts';
import { parseReceipt, type ReceivedReceipt } from '../../manifest/received.ts';
import { type Attachment, planAttachment, receiptNumber } from '../../pdf/update/attach.ts';
import { leaves, namesOf } from '../../pdf/update/nameTree.ts';
import { NotSealable } from '../../pdf/update/notSealable.ts';
import { openPdf, type PdfFile, type ResolvedOf, requireKind } from '../../pdf/update/pdfFile.ts';
import { sealableCatalog } from '../../pdf/update/sealable.ts';
import { type ByteSource, part } from '../../pdf/window.ts';
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

/**
 * Reads the receipt of a sealed PDF, and plans its seal again: what follows the document must be that, byte for byte. Never throws for what a
 * stranger sent.
 */
export async function openSealedPdf(source: ByteSource): Promise<SealedPdf> {
  try {
    const receipt = await attachedReceipt(await openPdf(source));
    if (receipt === undefined) return { finding: unknown('no receipt is attached to this document') };
    return { receipt: receipt.toString(), ...(await judge(source, receipt)) };
  } catch (error) {
    if (!(error instanceof NotSealable)) throw error;
    return { finding: unknown(`its receipt cannot be found: ${error.message}`) };
  }
}

/** The bytes that attach a receipt to its document. Throws OperatorError if that cannot be done with certainty. */
export async function sealFor(document: ByteSource, receipt: ReceivedReceipt): Promise<Buffer> {
  try {
    return await planAttachment(document, attachmentOf(receipt));
  } catch (cause) {
    if (!(cause instanceof NotSealable)) throw cause;
    const remedy = 'keep the receipt beside the document';
    throw new OperatorError(`a receipt cannot be attached to this document: ${cause.message}`, {
      cause,
      remedy,
    });
  }
}

function attachmentOf(receipt: ReceivedReceipt): Attachment {
  return { receipt: Buffer.from(encodeReceipt(receipt)), sealedAt: Date.parse(receipt.manifest.sealed_at) };
}

async function judge(source: ByteSource, receipt: Buffer): Promise<SealedPdf> {
  const parsed = parseReceipt(parseReceiptJson(receipt.toString()));
  if (parsed.kind !== 'receipt')
    return { finding: unknown(`what is attached is not a receipt: ${parsed.detail}`) };
  const attachment = attachmentOf(parsed.receipt);
  if (!receipt.equals(attachment.receipt))
    return { finding: failed('the receipt in it is not written as receipts are') };
  const { document, sealed_document: copy } = parsed.receipt.manifest;
  const lengths = new Set([copy?.bytes, document.bytes]);
  for (const documentBytes of lengths) {
    if (documentBytes === undefined || documentBytes >= source.bytes) continue;
    const seal = await planned(source, documentBytes, attachment);
    if (seal === undefined || !seal.equals(source.read(documentBytes, seal.length))) continue;
    const after = source.bytes - documentBytes - seal.length;
    const finding =
      after === 0
        ? passed('it is the document and its receipt, byte for byte, and nothing else')
        : failed(`it was changed after it was sealed: ${after} bytes follow the seal`);
    return { finding, documentBytes };
  }
  return { finding: failed('it is not the document of the receipt with only this receipt attached') };
}

async function planned(
  source: ByteSource,
  documentBytes: number,
  attachment: Attachment,
): Promise<Buffer | undefined> {
  try {
    return await planAttachment(part(source, { start: 0, end: documentBytes }), attachment);
  } catch (error) {
    if (error instanceof NotSealable) return undefined;
    throw error;
  }
}

/** The receipt that was attached last. */
async function attachedReceipt(file: PdfFile): Promise<Buffer | undefined> {
  const names = await file.entryOf(await sealableCatalog(file), 'Names', 'dictionary');
  const tree = names && (await file.entryOf(names, 'EmbeddedFiles', 'dictionary'));
  if (tree === undefined) return undefined;
  let last: { number: number; leaf: ResolvedOf<'array'>; at: number } | undefined;
  for await (const leaf of leaves(file, tree))
    for (const [n, name] of (await namesOf(file, leaf)).entries()) {
      const number = receiptNumber(name) ?? 0;
      if (number > (last?.number ?? 0)) last = { number, leaf, at: 2 * n + 1 };
    }
  const value = last?.leaf.node.items[last.at];
  const found = value && last && (await file.follow({ object: last.leaf.object, node: value }));
  if (found === undefined) return undefined;
  const embedded = await file.entryOf(
    requireKind(found, 'dictionary', 'its attached file'),
    'EF',
    'dictionary',
  );
  const stream = embedded && (await file.entryOf(embedded, 'F', 'dictionary'));
  const data = stream && (await file.data(stream));
  return data && data.length <= RECEIPT_BYTES_MAX ? data : undefined;
}
