import type { Edit } from '../pdf/findings.ts';

/** A stripper receives the length of a document, 64 bits, most significant byte first; then the bytes that it asks for, and no others. */
export const LENGTH_BYTES = 8;
/** Bytes that it asks for at a time. */
export const READ_BYTES_MAX = 256 * 1024;
/** Maximum edits of one document. An image can have XMP in many segments. */
export const EDITS_MAX = 200_000;
export const EDITS_PER_MESSAGE = 1000;
/** Room for a thousand edits, with positions of 16 digits. */
export const MESSAGE_BYTES_MAX = 64 * 1024;
const WHY_CHARS_MAX = 500;

type EditMessage = [start: number, end: number, text: Edit['text']];

/** A message from a stripper. The last one for a document is `refused`: why the document cannot be stripped, or null. */
export type StripperMessage =
  | { read: [position: number, length: number] }
  | { edits: EditMessage[] }
  | { refused: string | null };

/** Parses a message that may come from a compromised stripper; undefined if it is not valid. */
export function parseMessage(message: unknown): StripperMessage | undefined {
  if (typeof message !== 'object' || message === null) return undefined;
  const { read, edits, refused } = message as { [name: string]: unknown };
  if (isNumbers(read) && read.length === 2) return { read: read as [number, number] };
  if (refused === null) return { refused };
  if (typeof refused === 'string')
    return { refused: refused.slice(0, WHY_CHARS_MAX).replaceAll(/[^ -~]/g, '?') };
  const isEdits = Array.isArray(edits) && edits.length <= EDITS_PER_MESSAGE && edits.every(isEdit);
  return isEdits ? { edits } : undefined;
}

function isNumbers(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((one) => Number.isSafeInteger(one) && one >= 0);
}

function isEdit(value: unknown): value is EditMessage {
  return (
    Array.isArray(value) &&
    value.length === 3 &&
    isNumbers(value.slice(0, 2)) &&
    (value[2] === '' || value[2] === ' <<>>')
  );
}
