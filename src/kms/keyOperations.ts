import { readFileSync } from 'node:fs';
import { toBase64 } from '../base/bytes.ts';
import { OperatorError } from '../base/errors.ts';
import { systemReason } from '../base/systemReason.ts';
import type { LogKey } from '../log/verifierKey.ts';
import {
  type HeldKey,
  type KeyAlgorithm,
  parsePublicKeyFile,
  signsLogs,
  type TokenPublicKey,
  verifierOf,
} from './keyAlgorithm.ts';
import type { PartitionOptions } from './partitions.ts';
import { type Duties, type KeyProtection, type TokenAccess, tokenName } from './protocol.ts';
import { RefusedPins } from './refusedPins.ts';
import { describeFailure, SignerFailure } from './signerFailure.ts';
import { SignerProcess } from './signerProcess.ts';

const START_TIMEOUT_MS = 10_000;
/** A small HSM needs a while to find the primes of an RSA key. */
const GENERATE_TIMEOUT_MS = 120_000;

/** Number of lines of the module that the message of a failure has: the last ones. */
const OUTPUT_LINES_MAX = 5;

/** A key as found on a token. */
export type KeyInspection = HeldKey & KeyProtection;

/** Signs with the key and verifies the signature. Throws SignerFailure. */
export type Sign = (message: Uint8Array) => Promise<Uint8Array>;

/**
 * Makes a key pair in the token: private, sensitive, not extractable, and checked to be so. Throws OperatorError, also if a key of that
 * label exists; a key that could not be finished is removed again.
 */
export async function initKey<Algorithm extends KeyAlgorithm>(
  options: PartitionOptions,
  algorithm: Algorithm,
): Promise<HeldKey<Algorithm>> {
  let isMade = false;
  try {
    return await withSigner(options, 'write', async (signer) => {
      const { spki } = await signer.ask({ kind: 'generateKey', algorithm }, GENERATE_TIMEOUT_MS);
      isMade = true;
      return (await provenKey(options, signer, { algorithm, spki })).key;
    });
  } catch (error) {
    if (isMade) await removeNewKey(options, error as Error);
    throw error;
  }
}

/** Removes a key that does not sign, with another signer: the session of a signature that failed may be of no use. */
async function removeNewKey(options: PartitionOptions, { message }: Error): Promise<void> {
  try {
    await destroyKey(options);
  } catch {
    const detail = `the new key does not sign, and it could not be removed from the token: ${message}`;
    throw forOperator(new SignerFailure('key_parts_left', detail), options);
  }
}

/** Checks that the token is there and accepts the PIN, which is presented once. Throws OperatorError if not. */
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

/** Returns the log key of a partition, proven by a signature. Throws OperatorError if there is none. */
export function readKey(options: PartitionOptions): Promise<LogKey> {
  return useKey(options, async ({ algorithm, ...key }) => {
    if (signsLogs(algorithm)) return { ...key, algorithm };
    throw new SignerFailure('key_unsupported', `the key is one for ${algorithm}, which signs no log`);
  });
}

/**
 * Opens a partition only for `use`, which receives its key, proven by a signature, and may sign with it. Throws OperatorError if the
 * partition fails; other errors of `use` pass unchanged.
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

/** Returns a key, proven by a signature, and how its token protects it; any signer does this. Throws OperatorError if there is none. */
export function inspectKey(options: PartitionOptions): Promise<KeyInspection> {
  const inspect = async (signer: SignerProcess) => {
    const { key } = await findProven(options, signer);
    return { ...key, ...(await signer.ask({ kind: 'inspectKey' }, START_TIMEOUT_MS)) };
  };
  return withSigner(options, 'read', inspect, {});
}

/** Destroys a key pair in its token, permanently. Throws OperatorError, also if there is none of that label. */
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
  const output: string[] = [];
  const signer = new SignerProcess(options, { name: options.region, duties, sessions: 1 }, (line) => {
    if (output.push(line) > OUTPUT_LINES_MAX) output.shift();
  });
  try {
    await signer.ask(
      { kind: 'connect', token: tokenName(options), keyLabel: options.keyLabel, access, sessions: 1 },
      START_TIMEOUT_MS,
    );
    await signer.ask({ kind: 'logIn' }, START_TIMEOUT_MS);
    return await use(signer);
  } catch (cause) {
    // What the module prints at its end may be the reason.
    await signer.close();
    throw forOperator(cause, options, output);
  } finally {
    await signer.close();
  }
}

/** Turns failures of the signer into errors for an operator; others stay as they are. */
function forOperator(cause: unknown, options: PartitionOptions, output: readonly string[] = []): unknown {
  if (!(cause instanceof SignerFailure)) return cause;
  const printed = output.map((line) => `signer output: ${line}`);
  return new OperatorError([describeFailure(options.region, options, cause), ...printed].join('\n'), {
    cause,
  });
}

async function findProven(options: PartitionOptions, signer: SignerProcess) {
  const publicKey = readPublicKeyFile(options);
  return provenKey(options, signer, await signer.ask({ kind: 'findKey', publicKey }, START_TIMEOUT_MS));
}

/** Base64 of the DER SubjectPublicKeyInfo. Throws SignerFailure `public_key_unusable`. */
function readPublicKeyFile({ publicKeyFile }: PartitionOptions): string | undefined {
  if (publicKeyFile === undefined) return undefined;
  try {
    return parsePublicKeyFile(readFileSync(publicKeyFile, 'utf8')).spki;
  } catch (error) {
    const detail = `cannot read a public key from ${publicKeyFile} (${systemReason(error)})`;
    throw new SignerFailure('public_key_unusable', detail);
  }
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
    throw new SignerFailure(
      'key_unpaired',
      'the private key and the public key with that label are not a pair',
    );
  };
  const probe = await signer.ask({ kind: 'signProbe' }, START_TIMEOUT_MS);
  proven(Buffer.from(probe.message, 'base64'), probe.signature);
  const sign = async (message: Uint8Array) => {
    const answer = await signer.ask({ kind: 'signBytes', message: toBase64(message) }, START_TIMEOUT_MS);
    return proven(message, answer.signature);
  };
  return { key, sign };
}
