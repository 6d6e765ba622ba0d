import { assert } from '../base/assert.ts';
import { toBase64 } from '../base/bytes.ts';
import { checkpointMessage } from '../log/signedCheckpoint.ts';
import { type KeyAlgorithm, signsLogs } from './keyAlgorithm.ts';
import type { Signature, SigningRequest, Step, Tree } from './protocol.ts';
import { TreeUnknown } from './signedTrees.ts';

/** An order to a partition to sign a message. */
export interface Order {
  /** The message over which the signature must verify. */
  message: Uint8Array;
  /**
   * Builds the request to the signer, which makes the message itself. `held`: the trees that it signed last, if it refused because it needs
   * a step from one of them; undefined if there is none.
   */
  request(held?: readonly Tree[]): Promise<SigningRequest | undefined>;
}

/** Returns the answer of the signer. Rejects with SignerFailure. */
export async function carryOut(
  { request }: Order,
  signer: { ask(asked: SigningRequest, timeoutMs: number): Promise<Signature> },
  timeoutMs: number,
): Promise<Signature> {
  const ask = async (refusal?: TreeUnknown): Promise<Signature> => {
    const asked = await request(refusal?.trees);
    if (asked === undefined && refusal !== undefined) throw refusal;
    assert(asked !== undefined, 'an order asks for something');
    try {
      return await signer.ask(asked, timeoutMs);
    } catch (error) {
      // The signer missed batches, or signed others that were given up. Or it had signed nothing, and has begun meanwhile.
      const isNews = refusal === undefined || refusal.trees.length === 0;
      if (error instanceof TreeUnknown && isNews) return ask(error);
      throw error;
    }
  };
  return ask();
}

/** Proof of how the tree of a checkpoint grew from earlier ones. */
export interface Growth {
  /** From the tree on which the checkpoint was drafted. */
  step(): Step;
  /**
   * From the largest of these trees that the log contains, or undefined if it contains none. For an empty list: from the committed tree.
   */
  stepFrom(trees: readonly Tree[]): Promise<Step | undefined>;
}

/**
 * The next checkpoint of a log. Keys that state a time state `time`, Unix, seconds. Without its growth, only a signer that signs anything
 * signs it.
 */
export function checkpointOrder(algorithm: KeyAlgorithm, text: string, time: number, growth?: Growth): Order {
  assert(signsLogs(algorithm), 'such a key signs no log');
  const message = checkpointMessage(algorithm, text, time);
  assert(message !== undefined, 'the message to be signed is not a checkpoint');
  return {
    message,
    request: async (held) => {
      const step = await (held === undefined ? growth?.step() : growth?.stepFrom(held));
      if (held !== undefined && step === undefined) return undefined;
      return { kind: 'signCheckpoint', text, time, step };
    },
  };
}

/** The signed attributes of a time-stamp token. */
export function tokenOrder(
  signedAttributes: Uint8Array,
  content: Uint8Array,
  certificate: Uint8Array,
): Order {
  return once(signedAttributes, {
    kind: 'signToken',
    content: toBase64(content),
    certificate: toBase64(certificate),
  });
}

/** Arbitrary bytes, for a signer that signs anything. */
export function bytesOrder(message: Uint8Array): Order {
  return once(message, { kind: 'signBytes', message: toBase64(message) });
}

function once(message: Uint8Array, request: SigningRequest): Order {
  return { message, request: async (held) => (held === undefined ? request : undefined) };
}
