import type { Logger } from 'pino';
import { assert } from '../base/assert.ts';
import { bytesEqual } from '../base/bytes.ts';
import { type Clock, toRfc3339 } from '../base/clock.ts';
import { type AddCheckpoint, parseAddCheckpoint } from '../log/addCheckpoint.ts';
import {
  type Cosigner,
  cosignatureLine,
  cosignaturesIn,
  cosignedMessage,
  verifyCosignature,
} from '../log/cosignature.ts';
import { encodeNote, encodeSignatureLines, type Note, type NoteSignature } from '../log/note.ts';
import { verifyConsistency } from '../log/proof.ts';
import { type Opened, openCheckpoint, signersOf } from '../log/signedCheckpoint.ts';
import { emptyRoot } from '../log/tree.ts';
import { noteKeyId, type VerifierKey } from '../log/verifierKey.ts';
import type { HeldCheckpoints } from './heldCheckpoints.ts';

/** The key of a witness. */
export interface CosigningKey {
  cosigner: Cosigner;
  /** Raw signature over the message. */
  sign(message: Uint8Array): Promise<Uint8Array>;
  /** Ends the process that holds the key, if there is one. */
  close?(): Promise<void>;
}

export interface WitnessOptions {
  key: CosigningKey;
  /** The keys of each log, by its origin. The checkpoint must be signed with one of them. */
  logs: ReadonlyMap<string, readonly VerifierKey[]>;
  held: HeldCheckpoints;
  clock: Clock;
  /** For tests: the monotonic clock, in milliseconds. */
  monotonicMs?: Clock;
  logger: Logger;
}

/** An answer as defined by C2SP tlog-witness. */
export interface WitnessReply {
  status: 200 | 400 | 403 | 404 | 409 | 422 | 429;
  /** Default: text/plain. */
  type?: string;
  body: string;
}

/** Longest text of a checkpoint that is cosigned, in UTF-16 code units: with the signatures of its log it still fits into a note. */
const TEXT_LENGTH_MAX = 16_384;
/** A clock that is so far behind the last cosignature was ahead then, or is behind now. */
const CLOCK_TOLERANCE_S = 60;

/** A younger cosignature is returned again, and no tree is cosigned again sooner: anyone can repeat a public checkpoint. */
const RENEWAL_MS_MIN = 60_000;
/** The same alarm for the same log is not logged more often: anyone can repeat an invalid request. */
const ALARM_MS_MIN = 60_000;

/** A checkpoint that is being cosigned. */
interface UnderWay {
  text: string;
  reply: Promise<WitnessReply>;
}

/** When an alarm was last logged, and how many were suppressed since. */
interface Alarmed {
  at: number;
  unlogged: number;
}

/**
 * Cosigns the checkpoints of logs (C2SP tlog-witness): for each log, only a tree that contains the one cosigned before. Nothing leaves
 * before it is on disk, so a crash never makes it cosign two histories.
 *
 * Anyone can send every public checkpoint. So the key is needed only for growth with a valid proof and, once a minute, for a renewal; all
 * other requests are answered without waiting. Requests for the checkpoint that is being cosigned share its reply.
 */
export class Witness {
  readonly #options: WitnessOptions;
  readonly #monotonicMs: Clock;
  /** By the origin of the log: only one checkpoint of a log is cosigned at a time. */
  readonly #underWay = new Map<string, UnderWay>();
  /** When the cosignature of the held tree was last renewed, or failed to be renewed. */
  readonly #renewedAt = new Map<string, number>();
  readonly #alarmed = new Map<string, Alarmed>();

  constructor(options: WitnessOptions) {
    this.#options = options;
    this.#monotonicMs = options.monotonicMs ?? (() => performance.now());
  }

  /**
   * The reply to the body of `POST /add-checkpoint`, which can be anything. Rejects if the key or the disk fails: then nothing is cosigned.
   */
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
    if (opened.note.text.length > TEXT_LENGTH_MAX) return refusal(400, 'the checkpoint is too long');
    if (request.oldSize > treeSize) return refusal(400, 'the old size is larger than the checkpoint’s');
    return this.#reply(opened, request);
  }

  /**
   * Requests for other checkpoints wait for the one in progress, because it changes what is held. Their number is limited by the server's
   * connections.
   */
  async #reply(opened: Opened, request: AddCheckpoint): Promise<WitnessReply> {
    const { origin } = opened.checkpoint;
    for (;;) {
      const reply = this.#replyWithoutKey(opened, request);
      if (reply !== undefined) return reply;
      const underWay = this.#underWay.get(origin);
      if (underWay === undefined) return this.#begin(opened);
      if (underWay.text === opened.note.text) return underWay.reply;
      await underWay.reply.catch(() => {}); // its own callers get the error
    }
  }

  /** Undefined if the checkpoint must be cosigned. */
  #replyWithoutKey(opened: Opened, { oldSize, proof }: AddCheckpoint): WitnessReply | undefined {
    const { origin, treeSize, root } = opened.checkpoint;
    const before = this.#options.held.get(origin);
    const heldSize = before?.checkpoint.treeSize ?? 0;
    const heldRoot = before?.checkpoint.root ?? emptyRoot;
    const isSameSize = before !== undefined && treeSize === heldSize;
    // Sizes and roots come first: the log signed these, while anyone can have written the rest.
    if (isSameSize && !bytesEqual(root, heldRoot)) this.#alarm(CONTRADICTION, opened, before);
    if (oldSize !== heldSize) return { status: 409, type: 'text/x.tlog.size', body: `${heldSize}\n` };
    if (!verifyConsistency(oldSize, treeSize, proof, heldRoot, root)) {
      if (!isSameSize) this.#alarm(NOT_CONSISTENT, opened, before);
      return refusal(
        422,
        'the proof does not lead from the tree that this witness cosigned to the checkpoint',
      );
    }
    return isSameSize ? this.#replyToRepeat(opened, before) : undefined;
  }

  #replyToRepeat({ note, checkpoint: { origin } }: Opened, before: Opened): WitnessReply | undefined {
    const { text } = note;
    const { key, clock } = this.#options;
    const [newest] = text === before.note.text ? cosignaturesIn(before.note, [key.cosigner]) : [];
    if (newest !== undefined && clock() - newest.time * 1000 < RENEWAL_MS_MIN)
      return { status: 200, body: encodeSignatureLines([newest.line]) };
    const isUnderWay = this.#underWay.get(origin)?.text === text;
    const sinceMs = this.#monotonicMs() - (this.#renewedAt.get(origin) ?? Number.NEGATIVE_INFINITY);
    return isUnderWay || sinceMs >= RENEWAL_MS_MIN
      ? undefined
      : refusal(429, 'the tree was cosigned less than a minute ago; ask again later');
  }

  #begin(opened: Opened): Promise<WitnessReply> {
    const { origin, treeSize } = opened.checkpoint;
    const before = this.#options.held.get(origin);
    if (before?.checkpoint.treeSize === treeSize) this.#renewedAt.set(origin, this.#monotonicMs());
    const reply = this.#cosign(opened, before).finally(() => this.#underWay.delete(origin));
    this.#underWay.set(origin, { text: opened.note.text, reply });
    return reply;
  }

  /** The lines of the known keys, without duplicates. Lines added by others are dropped. */
  #linesOfLog({ signatures }: Note, origin: string): NoteSignature[] {
    const ids = (this.#options.logs.get(origin) ?? []).map((key) => noteKeyId(origin, key));
    const found = ids.map((id) =>
      signatures.find(({ name, keyId }) => name === origin && bytesEqual(keyId, id)),
    );
    return found.filter((line) => line !== undefined);
  }

  /** Two roots of one size prove that the log has two histories. A wrong proof can be a fault of the requester. */
  #alarm({ event, level, message }: Alarm, { note, checkpoint }: Opened, before: Opened | undefined): void {
    const { origin } = checkpoint;
    const name = `${event} ${origin}`;
    const now = this.#monotonicMs();
    const last = this.#alarmed.get(name);
    if (last !== undefined && now - last.at < ALARM_MS_MIN) {
      last.unlogged += 1;
      return;
    }
    this.#alarmed.set(name, { at: now, unlogged: 0 });
    const presented = { text: note.text, signatures: this.#linesOfLog(note, origin) };
    const { unlogged = 0 } = last ?? {};
    const fields = { event, origin, held: before?.note, presented };
    this.#options.logger[level]({ ...fields, ...(unlogged > 0 && { unlogged_before: unlogged }) }, message);
  }

  async #cosign({ note, checkpoint }: Opened, before: Opened | undefined): Promise<WitnessReply> {
    const { key, held, clock, logger } = this.#options;
    const { cosigner } = key;
    const { origin, treeSize } = checkpoint;
    const earlier = before === undefined ? [] : cosignaturesIn(before.note, [cosigner]);
    // The stated time for one log never goes back, even if the clock does.
    const now = Math.floor(clock() / 1000);
    const time = Math.max(now, ...earlier.map((one) => one.time));
    // Not named `time`, which is when the line was logged.
    const cosigned_at = toRfc3339(time * 1000);
    if (time > now + CLOCK_TOLERANCE_S)
      logger.warn({ event: 'clock_behind', origin, cosigned_at }, 'the clock is behind what was cosigned');
    const message = cosignedMessage(cosigner, time, note.text);
    if (message === undefined) return refusal(400, 'the origin is too long to be cosigned');
    const line = cosignatureLine(cosigner, time, await key.sign(message));
    assert(verifyCosignature(cosigner, note.text, line) === time, 'the key signs as its public half says');
    // If we stop here, nothing was cosigned: the signature did not leave. Once it is on disk, no other tree of this size is.
    const known = this.#linesOfLog(note, origin);
    await held.put(origin, encodeNote(note.text, [...known, line]));
    logger.info({ origin, tree_size: treeSize, cosigned_at }, 'a checkpoint was cosigned');
    return { status: 200, body: encodeSignatureLines([line]) };
  }
}

interface Alarm {
  event: string;
  level: 'error' | 'warn';
  message: string;
}

const CONTRADICTION: Alarm = {
  event: 'contradiction',
  level: 'error',
  message: 'the log signed two different trees of one size',
};
const NOT_CONSISTENT: Alarm = {
  event: 'not_consistent',
  level: 'warn',
  message: 'a checkpoint came with a wrong proof',
};

function refusal(status: 400 | 403 | 404 | 422 | 429, why: string): WitnessReply {
  return { status, body: `${why}\n` };
}
