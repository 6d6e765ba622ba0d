import type { Clock } from '../base/clock.ts';
import { ServiceError } from '../base/errors.ts';
import { cosignaturesIn, isLineOf } from '../log/cosignature.ts';
import type { NoteSignature } from '../log/note.ts';
import { openCheckpoint } from '../log/signedCheckpoint.ts';
import type { ReadTile } from '../log/tiles.ts';
import type { PolicyWitness } from '../log/witnessPolicy.ts';
import type { Store } from '../store/store.ts';
import { type CarriedAnswer, readCarriedAnswer } from './carriedAnswer.ts';
import { dateFault } from './cosignatureLines.ts';
import { requestBody, type Submission } from './witnessClient.ts';
import type { KnownWitness, WitnessMemory } from './witnessMemory.ts';

export interface CarryingOptions {
  memory: WitnessMemory;
  log: Pick<Store['log'], 'head' | 'tile'>;
  /** Resolves after the witnesses on the network were shown the newest checkpoint and had time to answer. Never rejects. */
  askOthers(): Promise<void>;
  /** Undefined if it is not signed with a key that a witness could know. */
  submissionOf(checkpoint: string, readTile: ReadTile): Submission | undefined;
  /** Number of leaves of the newest tree that a witness can have seen. */
  sizeNow(): Promise<number>;
  clock: Clock;
}

/** A request to be carried to a witness. */
export interface CarriedRequest {
  /** Name of the witness in the policy. */
  witness: string;
  /** Sizes of the tree from which the proof leads, and of the tree to cosign. */
  oldSize: number;
  treeSize: number;
  /** The body of `POST <prefix>/add-checkpoint`. */
  body: string;
}

/** The content of an answer. */
export type CarriedOutcome = { witness: string } & (
  | {
      kind: 'cosigned';
      treeSize: number /** Unix time in seconds. */;
      cosignedAt: number;
      isWitnessed: boolean;
    }
  /** `isNews`: the size was not known. If it was, and this answers the newest request, the witness holds another tree of that size. */
  | { kind: 'other_size'; heldSize: number; isNews: boolean; request: CarriedRequest }
  | { kind: 'contradiction'; detail: string }
);

/** An answer, and whether its origin was confirmed. */
type Confirmable = CarriedAnswer & { raisesAlarm: boolean };

/**
 * Obtains cosignatures of witnesses that cannot be reached over a network: requests are carried to them by hand, and their answers back
 * (C2SP tlog-witness).
 */
export class Carrying {
  readonly #options: CarryingOptions;

  constructor(options: CarryingOptions) {
    this.#options = options;
  }

  /** The newest checkpoint for a witness, or the earlier one of that size. It is kept until the answer arrives. Throws ServiceError. */
  async request(name: string | undefined, treeSize?: number): Promise<CarriedRequest> {
    const { memory } = this.#options;
    const known = this.#witnessOf(name);
    if (treeSize !== undefined) {
      const carried = memory.carried.find((one) => one.treeSize === treeSize);
      if (carried !== undefined) return this.#requestOf(known, carried.checkpoint);
      throw new ServiceError(
        'invalid_parameter',
        `No request for the checkpoint of ${treeSize} leaves is kept; those that are kept have ${this.#sizes()} leaves.`,
        { parameter: 'tree_size' },
      );
    }
    return this.#newest(known);
  }

  /**
   * Accepts an answer. `raisesAlarm`: the operator has confirmed that a refusal is this witness's answer to the unchanged request. Throws
   * ServiceError for an answer that proves nothing; then nothing has changed.
   */
  async accept(text: string, name: string | undefined, raisesAlarm = false): Promise<CarriedOutcome> {
    const read = readCarriedAnswer(text);
    const carried = read && { ...read, raisesAlarm };
    if (carried === undefined)
      throw refusal(
        'This is not the answer of a witness: neither signature lines, nor a number alone, nor a whole HTTP answer as curl --include writes it. If the witness wrote an error message, repeat its request with curl --include.',
      );
    const { answer } = carried;
    const known = this.#witnessOf(name, answer.kind === 'cosigned' ? answer.lines : []);
    const { label } = known.witness;
    // A later answer does not end the fork alarm.
    assertNoContradiction(known);
    switch (answer.kind) {
      case 'cosigned':
        return this.#cosigned(known, answer.lines);
      case 'other_size':
        return this.#otherSize(known, answer.size, carried);
      case 'contradiction':
        return this.#contradiction(
          known,
          carried,
          'it refuses a tree, because its own tree is not a part of it',
        );
      case 'unknown_log':
        throw refusal(
          `${label} does not know the log, or none of the keys that signed: its operator must add them.`,
        );
      case 'too_often':
        throw refusal(`${label} was asked too often: carry the request again later.`);
      case 'fault':
        throw refusal(`${label} ${answer.message}: ask its operator, and carry the request again.`);
    }
  }

  async #newest(known: KnownWitness, toldSize?: number): Promise<CarriedRequest> {
    const { log, askOthers } = this.#options;
    await askOthers();
    const head = await log.head();
    if (head === undefined) throw refusal('The log has no checkpoint yet: seal a document first.');
    return this.#requestOf(known, head.checkpoint, toldSize);
  }

  /** Saves the reported size once a request that begins there exists. */
  async #requestOf(
    known: KnownWitness,
    text: string,
    toldSize: number | undefined = known.record.toldSize,
  ): Promise<CarriedRequest> {
    const { memory, log, submissionOf } = this.#options;
    const { label } = known.witness;
    const submission = submissionOf(text, (level, index) => log.tile(level, index));
    if (submission === undefined)
      throw refusal(
        'No Ed25519 key signed the checkpoint: witnesses accept no other; plan an epoch with one.',
      );
    const { treeSize } = submission.checkpoint;
    const oldSize = toldSize ?? known.record.treeSize;
    if (oldSize > treeSize)
      throw refusal(`${label} holds a tree of ${oldSize} leaves already, and cosigns none of ${treeSize}.`);
    const body = await requestBody(submission, oldSize);
    if (body === undefined)
      throw refusal(
        'The tiles of the log do not give its checkpoint: run pdfseal check, which says what to do.',
      );
    // The fork alarm may have been raised since the request began.
    assertNoContradiction(known);
    if (toldSize !== undefined) known.record = { ...known.record, toldSize };
    memory.carry({ treeSize, checkpoint: text });
    await memory.keep();
    return { witness: label, oldSize, treeSize, body };
  }

  async #cosigned(known: KnownWitness, lines: NoteSignature[]): Promise<CarriedOutcome> {
    const { memory, clock } = this.#options;
    const { witness, record } = known;
    const { label } = witness;
    const found = memory.carried
      .map(({ checkpoint: text, treeSize }) => {
        const opened = openCheckpoint(text);
        const [cosignature] = opened
          ? cosignaturesIn({ text: opened.note.text, signatures: lines }, [witness])
          : [];
        return cosignature && { ...cosignature, text, treeSize };
      })
      .find((one) => one !== undefined);
    if (found === undefined) throw refusal(this.#whyNoCosignature(known, lines));
    const { treeSize, time } = found;
    const fault = dateFault(time, clock());
    if (fault !== undefined) throw refusal(`The answer of ${label} is not taken: ${fault}.`);
    if (treeSize < record.treeSize)
      throw refusal(
        `This is an old answer, for the tree of ${treeSize} leaves: ${label} holds ${record.treeSize} leaves by now.`,
      );
    memory.acknowledge(known, treeSize, Math.max(time, cosignedAt(record, treeSize)));
    memory.publish(memory.gather(found.text, treeSize, found.line));
    await memory.keep();
    const isWitnessed = memory.witnessed?.treeSize === treeSize;
    return { kind: 'cosigned', witness: label, treeSize, cosignedAt: time, isWitnessed };
  }

  /** Repeats the request from the size that the witness holds. A size older than what it cosigned changes nothing. */
  async #otherSize(known: KnownWitness, heldSize: number, carried: Confirmable): Promise<CarriedOutcome> {
    const { memory, sizeNow } = this.#options;
    const { label } = known.witness;
    const leaves = await sizeNow();
    if (heldSize > leaves)
      return this.#contradiction(
        known,
        carried,
        `it holds a tree of ${heldSize} leaves, and the log has ${leaves}`,
      );
    const { treeSize, toldSize = treeSize } = known.record;
    if (heldSize < treeSize)
      throw refusal(
        `${label} says that it holds ${heldSize} leaves, but it cosigned ${treeSize}: this is an old answer, or ${label} has lost its memory. Carry a new request; if the answer is the same, ask the operator of ${label}.`,
      );
    const isNews = heldSize !== toldSize;
    if (!isNews && carried.raisesAlarm)
      return this.#contradiction(
        known,
        carried,
        `it also holds a tree of ${heldSize} leaves, but with another root`,
      );
    const newest = memory.carried.find((one) => one.treeSize >= heldSize);
    const request = newest
      ? await this.#requestOf(known, newest.checkpoint, heldSize)
      : await this.#newest(known, heldSize);
    return { kind: 'other_size', witness: label, heldSize, isNews, request };
  }

  /**
   * Stops all sealing, although a refusal is not signed: a request damaged in transit, and the answer to another one, look the same. So it
   * takes a complete answer, and an operator's confirmation.
   */
  async #contradiction(
    known: KnownWitness,
    { isWhole, raisesAlarm }: Confirmable,
    detail: string,
  ): Promise<CarriedOutcome> {
    const { memory, clock } = this.#options;
    const { label } = known.witness;
    if (!isWhole)
      throw refusal(
        `${label} contradicts the log, if this is its whole answer: ${detail}. Nothing has changed. To make sure, carry a new request, have it sent to ${label} itself with curl --include, and accept the whole answer, with its Content-Length.`,
      );
    if (!raisesAlarm)
      throw refusal(
        `${label} contradicts the log, if this is its answer to an unchanged request: ${detail}. Nothing has changed. Make sure that the answer is from ${label}, and is for this log; compare the checksums of the request here and there. Then carry a new request. If the answer to it is the same, accept that answer with --raise-fork-alarm (raise_fork_alarm=true): nothing more is sealed from then on.`,
      );
    memory.contradict(known, detail, clock());
    await memory.keep();
    return { kind: 'contradiction', witness: label, detail };
  }

  #whyNoCosignature({ witness }: KnownWitness, lines: NoteSignature[]): string {
    const { label, name } = witness;
    if (!lines.some((line) => isLineOf(witness, line))) {
      const signers = lines.map((line) => line.name.slice(0, 80)).join(', ');
      return `This is not a signature of ${label}, whose key has the name ${name}: it is by ${signers}, or by another key of that name.`;
    }
    const { carried } = this.#options.memory;
    if (carried.length === 0) return `No request waits for an answer, so ${label} cannot have cosigned one.`;
    return `This is not a valid cosignature by ${label} of a checkpoint that it was asked to cosign, of ${this.#sizes()} leaves: it was changed on its way, or is for another request. Carry a new request.`;
  }

  #sizes(): string {
    return this.#options.memory.carried.map(({ treeSize }) => treeSize).join(', ') || 'none';
  }

  /**
   * The witness of that name; otherwise the one that signed these lines; otherwise the only one that is not on the network; otherwise the
   * only one.
   */
  #witnessOf(name: string | undefined, lines: readonly NoteSignature[] = []): KnownWitness {
    const { witnesses } = this.#options.memory;
    const of = (is: (witness: PolicyWitness) => boolean) => witnesses.filter(({ witness }) => is(witness));
    const among =
      name === undefined
        ? [
            of((witness) => lines.some((line) => isLineOf(witness, line))),
            of(({ url }) => url === undefined),
            witnesses,
          ]
        : [of(({ label }) => label === name)];
    const [found] = among.find(({ length }) => length === 1) ?? [];
    if (found !== undefined) return found;
    const names = witnesses.map(({ witness }) => witness.label).join(', ');
    if (name === undefined)
      throw new ServiceError('missing_parameter', `Name the witness: the policy has ${names || 'none'}.`, {
        parameter: 'witness',
      });
    throw new ServiceError(
      'invalid_parameter',
      `The policy has no witness ${JSON.stringify(name.slice(0, 80))}; it has ${names || 'none'}.`,
      { parameter: 'witness' },
    );
  }
}

/** When the witness cosigned exactly that tree before; 0 if never. */
function cosignedAt(record: KnownWitness['record'], treeSize: number): number {
  return record.treeSize === treeSize ? (record.cosignedAt ?? 0) : 0;
}

function assertNoContradiction({ witness: { label }, record: { contradiction } }: KnownWitness): void {
  if (contradiction !== undefined)
    throw refusal(`${label} holds another history of the log: ${contradiction.detail}.`);
}

function refusal(message: string): ServiceError {
  return new ServiceError('invalid_request', message);
}
