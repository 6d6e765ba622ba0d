import { fromBase64 } from '../../base/bytes.ts';
import { isTlogProof, parseTlogProof } from '../../log/tlogProof.ts';
import { BUNDLE_LENGTH_MAX, isBundle } from '../../manifest/bundle.ts';
import { parseUniqueJson } from '../../manifest/jcs.ts';
import { parseReceipt, type ReceivedReceipt } from '../../manifest/received.ts';
import { receiptIn } from './bundleCheck.ts';
import type { Stamped } from './evidenceCheck.ts';

/** The length of the longest receipt that is read, in UTF-16 code units. */
export const RECEIPT_LENGTH_MAX = 1_048_576;
/** The same in bytes of UTF-8, of which a code unit of UTF-16 takes 3 at most. */
export const RECEIPT_BYTES_MAX = 3 * RECEIPT_LENGTH_MAX;

/** The content of the text of a receipt or a bundle, unchecked; undefined for invalid JSON, a duplicate member, or a text that is too long. */
export function parseReceiptJson(text: string): unknown {
  if (text.length > BUNDLE_LENGTH_MAX) return undefined;
  try {
    const value = parseUniqueJson(text);
    return text.length <= RECEIPT_LENGTH_MAX || isBundle(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** The signed checkpoint of a receipt, a bundle or a proof, unverified, and the certificates beside it; undefined for any other text. */
export function readStamped(text: string): Stamped | undefined {
  if (isTlogProof(text)) {
    const proof = parseTlogProof(text);
    return proof && { checkpoint: proof.checkpoint, certificates: [], tokens: [] };
  }
  const parsed = parseReceipt(receiptIn(parseReceiptJson(text)));
  return parsed.kind === 'receipt' ? stampedOf(parsed.receipt) : undefined;
}

/** The parts of a receipt to which its evidence record belongs. */
export function stampedOf({ evidence: { checkpoint, certificates, timestamps } }: ReceivedReceipt): Stamped {
  const read = (texts: string[]) => texts.map(fromBase64).filter((der) => der !== undefined);
  return {
    checkpoint,
    certificates: read(certificates),
    tokens: read(timestamps.map(({ token }) => token)),
  };
}
