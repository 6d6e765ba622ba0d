import type { Logger } from 'pino';
import type { Clock } from '../base/clock.ts';
import { parseAddCheckpoint } from '../log/addCheckpoint.ts';
import { type Cosigner, cosignatureLine, cosignaturesIn, cosignedMessage } from '../log/cosignature.ts';
import { encodeNote, encodeSignatureLines, NOTE_SIGNATURES_MAX } from '../log/note.ts';
import { verifyConsistency } from '../log/proof.ts';
import { type Opened, openCheckpoint, signersOf } from '../log/signedCheckpoint.ts';
import { emptyRoot } from '../log/tree.ts';
import type { VerifierKey } from '../log/verifierKey.ts';
import type { HeldCheckpoints } from './heldCheckpoints.ts';

/** The key of a witness. */
export interface CosigningKey {
  cosigner: Cosigner;
  /** Raw signature over the message. */
  sign(message: Uint8Array): Promise<Uint8Array>;
}

export interface WitnessOptions {
  key: CosigningKey;
  /** The keys of each log, by its origin. One of them must have signed. */
  logs: ReadonlyMap<string, readonly VerifierKey[]>;
  held: HeldCheckpoints;
  clock: Clock;
  logger: Logger;
}

/** An answer of C2SP tlog-witness. */
export interface WitnessReply {
  status: 200 | 400 | 403 | 404 | 409 | 422 | 429;
  /** Default: text/plain. */
  type?: string;
  body: string;
}

/** More requests of one log than this do not wait for each other: a log asks one thing at a time. */
const WAITING_MAX = 8;

/**
 * Cosigns the checkpoints of logs (C2SP tlog-witness): for each log only such a tree that contains the one it cosigned before. Nothing
 * leaves before it is on disk, so no crash makes it cosign two histories.
 */
export class Witness {
  readonly #options: WitnessOptions;
  /** The last request of each log, and how many wait. */
  readonly #queues = new Map<string, { last: Promise<unknown>; waiting: number }>();

  constructor(options: WitnessOptions) {
    this.#options = options;
  }

  /** The reply to the body of `POST /add-checkpoint`, which can be anything. Rejects where key or disk fail: then nothing is cosigned. */
  async addCheckpoint(body: string): Promise<WitnessReply> {
    const request = parseAddCheckpoint(body);
    const opened = request && openCheckpoint(request.checkpoint);
    if (request === undefined || opened === undefined)
      return refusal(400, 'the body is not an add-checkpoint request');
    const { origin, treeSize } = opened.checkpoint;
    const keys = this.#options.logs.get(origin);
    if (keys === undefined) return refusal(404, 'this witness does not know the log');
    if (signersOf(opened.note, origin, keys).keys.length === 0)
      return refusal(403, 'no key that this witness knows of the log has signed the checkpoint');
    if (opened.note.signatures.length >= NOTE_SIGNATURES_MAX)
      return refusal(400, 'the checkpoint has no room for another signature: send only those of the log');
    if (request.oldSize > treeSize) return refusal(400, 'the old size is larger than the checkpoint’s');
    return this.#inTurn(origin, () => this.#extend(opened, request.oldSize, request.proof));
  }

  /** One after the other for each log: each begins at what the one before it left. */
  async #inTurn(origin: string, task: () => Promise<WitnessReply>): Promise<WitnessReply> {
    const queue = this.#queues.get(origin) ?? { last: Promise.resolve(), waiting: 0 };
    this.#queues.set(origin, queue);
    if (queue.waiting >= WAITING_MAX)
      return refusal(429, 'requests of this log wait already; ask again later');
    queue.waiting += 1;
    const reply = queue.last.then(task).finally(() => {
      queue.waiting -= 1;
    });
    queue.last = reply.catch(() => {});
    return reply;
  }

  async #extend(opened: Opened, oldSize: number, proof: readonly Uint8Array[]): Promise<WitnessReply> {
    const { held, logger } = this.#options;
    const { origin, treeSize, root } = opened.checkpoint;
    const before = held.get(origin);
    const heldSize = before?.checkpoint.treeSize ?? 0;
    if (oldSize !== heldSize) return { status: 409, type: 'text/x.tlog.size', body: `${heldSize}\n` };
    if (!verifyConsistency(oldSize, treeSize, proof, before?.checkpoint.root ?? emptyRoot, root)) {
      const fields = { event: 'contradiction', origin, held: before?.note, presented: opened.note };
      logger.error(fields, 'a log signed a tree that does not contain the tree that this witness cosigned');
      return refusal(422, 'the checkpoint does not extend the one that this witness cosigned');
    }
    return this.#cosign(opened, before);
  }

  async #cosign({ note, checkpoint }: Opened, before: Opened | undefined): Promise<WitnessReply> {
    const { key, held, clock, logger } = this.#options;
    const { cosigner } = key;
    const earlier = before === undefined ? [] : cosignaturesIn(before.note, [cosigner]);
    // What it says of one log never goes back in time, even if the clock does.
    const time = Math.max(Math.floor(clock() / 1000), ...earlier.map((one) => one.time));
    const message = cosignedMessage(cosigner, time, note.text);
    if (message === undefined) return refusal(400, 'the origin is too long to be cosigned');
    const line = cosignatureLine(cosigner, time, await key.sign(message));
    // If we stop here, nothing was cosigned: the signature did not leave. Once it is on disk, no other tree of this size is.
    await held.put(checkpoint.origin, encodeNote(note.text, [...note.signatures, line]));
    logger.info(
      { event: 'cosigned', origin: checkpoint.origin, tree_size: checkpoint.treeSize, time },
      'a checkpoint was cosigned',
    );
    return { status: 200, body: encodeSignatureLines([line]) };
  }
}

function refusal(status: 400 | 403 | 404 | 422 | 429, why: string): WitnessReply {
  return { status, body: `${why}\n` };
}
