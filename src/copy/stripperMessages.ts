import type { Edit } from '../pdf/findings.ts';

/** `strip`: to find the XMP. `plan`: to plan the attachment of a receipt. */
const TASKS = ['strip', 'plan'] as const;
export type StripperTask = (typeof TASKS)[number];

/** A document to plan that has no more bytes follows the head of its task. Several such tasks can follow each other. */
export const GIVEN_BYTES_MAX = 64 * 1024;

/**
 * A stripper receives its task, a byte with the place in {@link TASKS}, and the length of a document, 56 bits, most significant
 * byte first; then, of a small document to plan, all bytes; then the bytes that it asks for, and no others.
 */
export const HEAD_BYTES = 8;

export function encodeHead(task: StripperTask, documentBytes: number): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeBigUInt64BE(BigInt(documentBytes));
  head[0] = TASKS.indexOf(task);
  return head;
}

export interface TaskHead {
  task: StripperTask | undefined;
  documentBytes: number;
  /** The whole document, if it follows the head. */
  document?: ArrayBuffer;
}

export function parseHead(head: Buffer): TaskHead {
  const documentBytes = Number(head.readBigUInt64BE() & 0xff_ff_ff_ff_ff_ff_ffn);
  return { task: TASKS[head[0] ?? 0], documentBytes };
}

export function isGiven({ task, documentBytes }: TaskHead): boolean {
  return task === 'plan' && documentBytes > 0 && documentBytes <= GIVEN_BYTES_MAX;
}
/** Bytes that it asks for at a time. */
export const READ_BYTES_MAX = 256 * 1024;
/** Maximum edits of one document. An image can have XMP in many segments. */
export const EDITS_MAX = 200_000;
export const EDITS_PER_MESSAGE = 1000;
/** Room for a thousand edits, with positions of 16 digits, and for the largest plan. */
export const MESSAGE_BYTES_MAX = 64 * 1024;
const WHY_CHARS_MAX = 500;

type EditMessage = [start: number, end: number, text: Edit['text']];

/** A message from a stripper. The last one for a document is its plan or `refused`: why the task cannot be done with the document, or null. */
export type StripperMessage =
  | { ready: true } // before the first plan of a given document: what is lost after that can be lost by a document
  | { read: [position: number, length: number] }
  | { edits: EditMessage[] }
  | { plan: unknown } // an AttachmentPlan, for the receiver to check: its schema is not for the stripper, which may read no package
  | { refused: string | null };

/** Parses a message that may come from a compromised stripper; undefined if it is not valid. */
export function parseMessage(message: unknown): StripperMessage | undefined {
  if (typeof message !== 'object' || message === null) return undefined;
  const { ready, read, edits, plan, refused } = message as { [name: string]: unknown };
  if (isNumbers(read) && read.length === 2) return { read: read as [number, number] };
  if (ready === true) return { ready };
  if (refused === null) return { refused };
  if (typeof refused === 'string')
    return { refused: refused.slice(0, WHY_CHARS_MAX).replaceAll(/[^ -~]/g, '?') };
  if (plan !== undefined) return { plan };
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
