/**
 * The program that parses documents: a helper process without network, files or keys of its own. It receives bytes, and answers with edits
 * that remove XMP, or with the plan of an attachment. A document can make it hang, crash or run out of memory; its parent process then ends it.
 */
import { Worker } from 'node:worker_threads';
import { free } from '../base/memory.ts';
import { siblingModule } from '../base/package.ts';
import type { Edit } from '../pdf/findings.ts';
import { NotStrippable } from '../pdf/notStrippable.ts';
import { readerOf } from '../pdf/sourceReader.ts';
import { planAttachment } from '../pdf/update/attach.ts';
import { NotSealable } from '../pdf/update/notSealable.ts';
import type { ByteSource } from '../pdf/window.ts';
import { findXmp } from '../pdf/xmp.ts';
import {
  EDITS_MAX,
  EDITS_PER_MESSAGE,
  READ_BYTES_MAX,
  type StripperMessage,
  type TaskHead,
} from './stripperMessages.ts';

/** Pieces of the document that are kept: the sweep reads ahead, and looks back. */
const PIECES_MAX = 8;

/** Where the thread puts the bytes; the first number of `arrived` becomes 1 when they have arrived. */
const bytes = new SharedArrayBuffer(READ_BYTES_MAX);
const arrived = new Int32Array(new SharedArrayBuffer(4));
const thread = new Worker(siblingModule('stripperThread', import.meta.url), {
  workerData: { bytes, arrived },
});
let turn = Promise.resolve();
thread.on('message', (tasks: TaskHead[]) => {
  turn = turn
    .then(() => answerAll(tasks))
    .catch((error: Error) => {
      process.stderr.write(`${error.stack}\n`);
      process.exit(1);
    });
});

/** Answers those together that need no more bytes. */
async function answerAll(tasks: readonly TaskHead[]): Promise<void> {
  const answers: StripperMessage[] = [];
  for (const task of tasks) {
    if (task.document === undefined) say(...answers.splice(0));
    answers.push(await answer(task));
  }
  say(...answers);
}

async function answer({ task, documentBytes, document: given }: TaskHead): Promise<StripperMessage> {
  const document = openSource(documentBytes, given);
  try {
    if (task === 'plan') return { plan: await planAttachment(readerOf(document)) };
    sayEdits(await findXmp(document));
    return { refused: null };
  } catch (error) {
    if (!(error instanceof NotStrippable || error instanceof NotSealable)) throw error;
    return { refused: error.message };
  } finally {
    if (given !== undefined) free(new Uint8Array(given));
  }
}

function sayEdits(edits: readonly Edit[]): void {
  if (edits.length > EDITS_MAX) throw new NotStrippable('it has more XMP than any document needs');
  for (let at = 0; at < edits.length; at += EDITS_PER_MESSAGE) {
    const some = edits.slice(at, at + EDITS_PER_MESSAGE);
    say({ edits: some.map(({ start, end, text }) => [start, end, text]) });
  }
}

function say(...messages: StripperMessage[]): void {
  if (messages.length > 0) thread.postMessage(messages);
}

/** The document, read piece by piece. The search is synchronous, so this thread sleeps until a piece has arrived. */
function openSource(documentBytes: number, given?: ArrayBuffer): ByteSource {
  const pieces: { start: number; data: Buffer }[] = [];
  if (given !== undefined) pieces.push({ start: 0, data: Buffer.from(given) });
  const pieceAt = (position: number) => {
    const known = pieces.find(({ start, data }) => position >= start && position < start + data.length);
    if (known !== undefined) return known;
    const length = Math.min(READ_BYTES_MAX, documentBytes - position);
    Atomics.store(arrived, 0, 0);
    say({ read: [position, length] });
    Atomics.wait(arrived, 0, 0);
    const piece = { start: position, data: Buffer.from(new Uint8Array(bytes, 0, length)) };
    pieces.unshift(piece);
    pieces.length = Math.min(pieces.length, PIECES_MAX);
    return piece;
  };
  const read = (position: number, length: number) => {
    const end = Math.min(position + length, documentBytes);
    const parts: Buffer[] = [];
    for (let at = position; at < end; ) {
      const { start, data } = pieceAt(at);
      const part = data.subarray(at - start, end - start);
      parts.push(part);
      at += part.length;
    }
    const [only, ...others] = parts;
    return only !== undefined && others.length === 0 ? only : Buffer.concat(parts);
  };
  return { bytes: documentBytes, read };
}
