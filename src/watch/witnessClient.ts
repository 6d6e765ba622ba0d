import { setTimeout as sleep } from 'node:timers/promises';
import { BrokenInvariant } from '../base/assert.ts';
import { encodeAddCheckpoint, parseWitnessAnswer, type WitnessAnswer } from '../log/addCheckpoint.ts';
import type { Checkpoint } from '../log/checkpoint.ts';
import { cosignaturesIn } from '../log/cosignature.ts';
import { encodeNote, type Note, type NoteSignature } from '../log/note.ts';
import { consistencyProof, verifyConsistency } from '../log/proof.ts';
import type { ReadTile } from '../log/tiles.ts';
import { loadEdge, rootOf } from '../log/tree.ts';
import type { PolicyWitness } from '../log/witnessPolicy.ts';
import type { HttpExchange } from '../web/httpClient.ts';
import { toNoAnswer } from '../web/noAnswer.ts';
import { readBody } from '../web/response.ts';
import { withoutFinalSlashes } from '../web/url.ts';

/** A checkpoint of the log for a witness. */
export interface Submission {
  checkpoint: Checkpoint;
  /** Signed with keys that the witness knows. */
  note: Note;
  readTile: ReadTile;
  /** Current size of the log. */
  sizeNow(): Promise<number>;
}

/** The result of asking a witness. */
export type Cosigning =
  | { kind: 'cosigned'; line: NoteSignature; time: number }
  /** It holds another history of the log. */
  | { kind: 'contradiction'; detail: string }
  | { kind: 'trouble'; trouble: WitnessTrouble; detail: string };

/** Why a witness has not cosigned. */
export type WitnessTrouble =
  | 'unreachable'
  | 'unknown_log'
  | 'too_often'
  | 'invalid_cosignature'
  | 'faulty'
  | 'log_damaged';

/** The longest answer: several post-quantum lines. */
const ANSWER_BYTES_MAX = 64 * 1024;
/** How long one answer may take, from connecting to its last byte. */
const TIMEOUT_MS = 10_000;
/** Pauses before a request without a valid answer is repeated. */
const PAUSES_MS = [10, 250];
const TRIES_MAX = 3;

/** The witness to ask. */
export interface Asked {
  witness: PolicyWitness;
  url: URL;
  /** Size of the tree that it is assumed to hold. */
  heldSize: number;
}

/**
 * Asks a witness to cosign (C2SP tlog-witness, "add-checkpoint"), at most three times, and not again after the signal has aborted.
 * Redirects are not followed: only the URL of the policy is asked.
 */
export async function askToCosign(
  client: HttpExchange,
  { witness, url, heldSize }: Asked,
  submission: Submission,
  closing: AbortSignal,
): Promise<Cosigning> {
  const { treeSize } = submission.checkpoint;
  let oldSize = Math.min(heldSize, treeSize);
  for (let tries = 1; ; tries++) {
    const body = await requestBody(submission, oldSize);
    if (body === undefined) return trouble('log_damaged', 'the tiles of the log do not give its checkpoint');
    const answer = await ask(client, url, body);
    const found = await judge(answer, { witness, submission, oldSize });
    if (found.kind !== 'trouble' || tries === TRIES_MAX || closing.aborted) return found;
    if (answer.kind === 'other_size' && answer.size <= treeSize) oldSize = answer.size;
    else if (answer.kind === 'fault' || answer.kind === 'none') await sleep(PAUSES_MS[tries - 1]);
    else return found;
  }
}

async function ask(client: HttpExchange, prefix: URL, body: string): Promise<Answer> {
  const request = {
    method: 'POST',
    url: submissionUrl(prefix),
    headers: { 'Content-Type': 'text/plain; charset=utf-8' },
    body: Buffer.from(body),
    timeoutMs: TIMEOUT_MS,
  } as const;
  try {
    return await client.exchange(request, async (answer) => {
      const text = (await readBody(answer, ANSWER_BYTES_MAX)).toString();
      return parseWitnessAnswer(answer.statusCode ?? 0, answer.headers['content-type'] ?? '', text);
    });
  } catch (error) {
    const { reason, message } = toNoAnswer(error);
    return { kind: 'none', message: `${reason}: ${message}` };
  }
}

/** The URL at which the witness with this prefix accepts checkpoints (C2SP tlog-witness). */
export function submissionUrl(prefix: URL): URL {
  return new URL(`${withoutFinalSlashes(prefix.href)}/add-checkpoint`);
}

type Answer = WitnessAnswer | { kind: 'none'; message: string };

/** The proof is verified here first, so that a refusal by the witness is not due to damage of ours. Undefined if the tiles are damaged. */
export async function requestBody(
  { note, checkpoint: { treeSize, root }, readTile }: Submission,
  oldSize: number,
): Promise<string | undefined> {
  try {
    const proof = await consistencyProof(oldSize, treeSize, readTile);
    const oldRoot = rootOf(await loadEdge(oldSize, readTile));
    if (!verifyConsistency(oldSize, treeSize, proof, oldRoot, root)) return undefined;
    return encodeAddCheckpoint({ oldSize, proof, checkpoint: encodeNote(note.text, note.signatures) });
  } catch (error) {
    if (error instanceof BrokenInvariant) return undefined;
    throw error;
  }
}

async function judge(
  answer: Answer,
  { witness, submission, oldSize }: { witness: PolicyWitness; submission: Submission; oldSize: number },
): Promise<Cosigning> {
  const { note, checkpoint, sizeNow } = submission;
  switch (answer.kind) {
    case 'cosigned': {
      const [found] = cosignaturesIn({ text: note.text, signatures: answer.lines }, [witness]);
      if (found === undefined)
        return trouble('invalid_cosignature', 'it answered without a valid cosignature');
      return { kind: 'cosigned', line: found.line, time: found.time };
    }
    case 'other_size': {
      const leaves = await sizeNow();
      if (answer.size > leaves)
        return contradiction(`it holds a tree of ${answer.size} leaves, and the log has ${leaves}`);
      if (answer.size === oldSize)
        return contradiction(`it also holds a tree of ${oldSize} leaves, but with another root`);
      return trouble('faulty', `it holds a tree of ${answer.size} leaves`);
    }
    case 'contradiction':
      return contradiction(
        `it refuses the tree of ${checkpoint.treeSize} leaves, because its own tree of ${oldSize} leaves is not a part of it`,
      );
    case 'unknown_log':
      return trouble('unknown_log', 'it does not know the log, or none of the keys that signed');
    case 'too_often':
      return trouble('too_often', 'it was asked too often');
    case 'fault':
      return trouble('faulty', `it ${answer.message}`);
    case 'none':
      return trouble('unreachable', answer.message);
  }
}

function contradiction(detail: string): Cosigning {
  return { kind: 'contradiction', detail };
}

function trouble(code: WitnessTrouble, detail: string): Cosigning {
  return { kind: 'trouble', trouble: code, detail };
}
