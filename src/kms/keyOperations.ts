import { toBase64 } from '../base/bytes.ts';
import { OperatorError } from '../base/errors.ts';
import type { LogKey } from '../log/verifierKey.ts';
import { type HeldKey, type KeyAlgorithm, type TokenPublicKey, verifierOf } from './keyAlgorithm.ts';
import type { PartitionOptions } from './partitions.ts';
import { type Duties, type KeyProtection, type TokenAccess, tokenName } from './protocol.ts';
import { RefusedPins } from './refusedPins.ts';
import { describeFailure, SignerFailure } from './signerFailure.ts';
import { SignerProcess } from './signerProcess.ts';

const START_TIMEOUT_MS = 10_000;
/** A small HSM searches for the primes of an RSA key for a while. */
const GENERATE_TIMEOUT_MS = 120_000;

/** A key as it is found on a token. */
export type KeyInspection = HeldKey & KeyProtection;

/** Signs with the key; verified. Throws SignerFailure. */
export type Sign = (message: Uint8Array) => Promise<Uint8Array>;

/**
 * Makes a key pair in the token: private, sensitive, not extractable, and checked to be so. Throws OperatorError, also when
 * a key of that label exists.
 */
export function initKey<Algorithm extends KeyAlgorithm>(
  options: PartitionOptions,
  algorithm: Algorithm,
): Promise<HeldKey<Algorithm>> {
  return withSigner(options, 'write', async (signer) => {
    const { spki } = await signer.ask({ kind: 'generateKey', algorithm }, GENERATE_TIMEOUT_MS);
    return (await provenKey(options, signer, { algorithm, spki })).key;
  });
}

/** Whether the token is there and takes the PIN, which it is shown once. Throws OperatorError when not. */
export function probeToken(options: PartitionOptions): Promise<void> {
  return withSigner(options, 'read', async () => {});
}

/** Lets the PINs that the token refused be presented again; false if there are none. Throws OperatorError. */
export async function forgetRefusedPins(options: PartitionOptions): Promise<boolean> {
  try {
    using refused = await RefusedPins.open(options, START_TIMEOUT_MS);
    return refused.forget();
  } catch (cause) {
    throw forOperator(cause, options);
  }
}

/** The log key a partition holds, proven by a signature. Throws OperatorError when there is none. */
export function readKey(options: PartitionOptions): Promise<LogKey> {
  return useKey(options, async ({ algorithm, ...key }) => {
    if (algorithm !== 'rsa-3072') return { ...key, algorithm };
    throw new SignerFailure('key_unsupported', 'the key is RSA, which signs no log');
  });
}

/**
 * Opens a partition just for `use`, which gets its key, proven by a signature, and may sign with it. Throws
 * OperatorError when the partition fails; what else `use` throws passes as it is.
 */
export function useKey<Result>(
  options: PartitionOptions,
  use: (key: HeldKey, sign: Sign) => Promise<Result>,
): Promise<Result> {
  return withSigner(options, 'read', async (signer) => {
    const { key, sign } = await findProven(options, signer);
    return use(key, sign);
  });
}

/** A key, proven by a signature, and how its token keeps it; any signer does this. Throws OperatorError when there is none. */
export function inspectKey(options: PartitionOptions): Promise<KeyInspection> {
  const inspect = async (signer: SignerProcess) => {
    const { key } = await findProven(options, signer);
    return { ...key, ...(await signer.ask({ kind: 'inspectKey' }, START_TIMEOUT_MS)) };
  };
  return withSigner(options, 'read', inspect, {});
}

/**
 * Destroys a key pair in its token, for ever. Throws OperatorError, also when there is none of that label.
 */
export function destroyKey(options: PartitionOptions): Promise<void> {
  return withSigner(options, 'write', async (signer) => {
    await signer.ask({ kind: 'destroyKey' }, START_TIMEOUT_MS);
  });
}

async function withSigner<Result>(
  options: PartitionOptions,
  access: TokenAccess,
  use: (signer: SignerProcess) => Promise<Result>,
  duties: Duties = { anything: true },
): Promise<Result> {
  const signer = new SignerProcess(options, { name: options.region, duties, sessions: 1 }, () => {});
  try {
    await signer.ask(
      { kind: 'connect', token: tokenName(options), keyLabel: options.keyLabel, access, sessions: 1 },
      START_TIMEOUT_MS,
    );
    await signer.ask({ kind: 'logIn' }, START_TIMEOUT_MS);
    return await use(signer);
  } catch (cause) {
    throw forOperator(cause, options);
  } finally {
    await signer.close();
  }
}

/** As it is, unless it is of the signer. */
function forOperator(cause: unknown, options: PartitionOptions): unknown {
  if (!(cause instanceof SignerFailure)) return cause;
  return new OperatorError(describeFailure(options.region, options, cause), { cause });
}

async function findProven(options: PartitionOptions, signer: SignerProcess) {
  return provenKey(options, signer, await signer.ask({ kind: 'findKey' }, START_TIMEOUT_MS));
}

async function provenKey<Algorithm extends KeyAlgorithm>(
  { region, keyLabel }: PartitionOptions,
  signer: SignerProcess,
  found: TokenPublicKey<Algorithm>,
): Promise<{ key: HeldKey<Algorithm>; sign: Sign }> {
  const key = { region, keyLabel, ...found };
  const verify = verifierOf(key);
  const proven = (message: Uint8Array, base64: string) => {
    const signature = Buffer.from(base64, 'base64');
    if (verify(message, signature)) return signature;
    throw new SignerFailure('key_unpaired', 'private and public key of that label are no pair');
  };
  const probe = await signer.ask({ kind: 'signProbe' }, START_TIMEOUT_MS);
  proven(Buffer.from(probe.message, 'base64'), probe.signature);
  const sign = async (message: Uint8Array) => {
    const answer = await signer.ask({ kind: 'signBytes', message: toBase64(message) }, START_TIMEOUT_MS);
    return proven(message, answer.signature);
  };
  return { key, sign };
}
