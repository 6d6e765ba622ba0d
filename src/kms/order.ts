import { assert } from '../base/assert.ts';
import { toBase64 } from '../base/bytes.ts';
import { checkpointMessage } from '../log/signedCheckpoint.ts';
import type { KeyAlgorithm } from './keyAlgorithm.ts';
import type { Signature, SigningRequest, Step, Tree } from './protocol.ts';
import { TreeUnknown } from './signedTrees.ts';
import type { SignerProcess } from './signerProcess.ts';

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
  signer: SignerProcess,
  timeoutMs: number,
): Promise<Signature> {
  const ask = async (held?: readonly Tree[]) => {
    const asked = await request(held);
    return asked && signer.ask(asked, timeoutMs);
  };
  const answer = await ask().catch(async (error) => {
    if (!(error instanceof TreeUnknown)) throw error;
    // The signer missed batches, or signed others that were given up.
    return (await ask(error.trees)) ?? Promise.reject(error);
  });
  assert(answer !== undefined, 'an order asks for something');
  return answer;
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
  assert(algorithm !== 'rsa-3072', 'an RSA key signs no log');
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
