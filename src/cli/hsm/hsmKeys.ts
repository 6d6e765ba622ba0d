import type { AuthorityAlgorithm } from '../../asn1/signatureAlgorithm.ts';
import { systemClock } from '../../base/clock.ts';
import { OperatorError } from '../../base/errors.ts';
import type { Config } from '../../config/config.ts';
import { asConfigured, asLogKey, signerFailureOf } from '../../kms/epochKeys.ts';
import type { HeldKey } from '../../kms/keyAlgorithm.ts';
import { type Sign, useKey } from '../../kms/keyOperations.ts';
import type { PartitionOptions } from '../../kms/partitions.ts';
import { comingAt, type EpochKey, type Epochs, termAt } from '../../log/epochs.ts';
import { kmsKeyId } from '../../log/verifierKey.ts';
import { storeExists } from '../../store/engines.ts';
import type { CertifiedKey } from '../../tsa/installed.ts';
import { type Given, option } from '../command.ts';
import { CONFIG } from '../options.ts';
import { withStore } from '../withStore.ts';

/** The use of a key: checkpoints of the log, time-stamps, or the certificates of time-stamping keys. */
export type KeyPurpose = 'log' | 'time-stamp' | 'root';

/** A key that the configuration names, whether it exists or not. */
export interface WantedKey {
  purpose: KeyPurpose;
  token: PartitionOptions;
}

/** The keys that the config file names: log keys first, then keys of the built-in authority. */
export function configuredKeys({ kms, timestamp }: Config): WantedKey[] {
  return [
    ...kms.partitions.map((token) => ({ purpose: 'log' as const, token })),
    ...timestamp.keys.map((token) => ({ purpose: 'time-stamp' as const, token })),
  ];
}

/**
 * Like {@link configuredKeys}, but if the log exists, with the log keys of the epoch in force and of the planned one.
 */
export async function keysInService(config: Config): Promise<WantedKey[]> {
  const all = configuredKeys(config);
  if (!(await storeExists(config.store))) return all;
  const epochs = await withStore(config.file, 'read', (store) => store.epochs.newest());
  const keys = keysInUse(epochs);
  const log = config.kms.partitions.flatMap((token) =>
    keys
      .filter(({ region, partition }) => region === token.region && partition === token.keyLabel)
      .map(({ keyLabel }) => ({ purpose: 'log' as const, token: { ...token, keyLabel } })),
  );
  const byName = new Map(log.map((wanted) => [kmsKeyId(wanted.token), wanted]));
  return [...byName.values(), ...all.filter(({ purpose }) => purpose !== 'log')];
}

/** The log keys of the epoch in force and of the planned one. */
export function keysInUse(epochs: Epochs): EpochKey[] {
  const now = systemClock();
  return [...termAt(epochs, now).epoch.keys, ...(comingAt(epochs, now)?.keys ?? [])];
}

/** The root of a site without a certificate authority: in the token of a time-stamping key. */
export function rootBeside(token: PartitionOptions): PartitionOptions {
  return { ...token, keyLabel: `${token.keyLabel}-root` };
}

/** Options that choose a configured key; either is optional. */
export const KEY_OPTIONS = [
  CONFIG,
  option('--region <name>', 'region of the key'),
  option('--key-label <label>', 'label of the key'),
] as const;

export type KeyOptions = Given<typeof KEY_OPTIONS>;

/** The key that the options choose. Throws OperatorError, with all names, unless it is exactly one. */
export function pickKey(
  keys: readonly WantedKey[],
  { region, keyLabel }: Omit<KeyOptions, 'config'>,
): WantedKey {
  const [found, second] = keys.filter(
    ({ token }) =>
      (region === undefined || token.region === region) &&
      (keyLabel === undefined || token.keyLabel === keyLabel),
  );
  if (found !== undefined && second === undefined) return found;
  const names = keys.map(({ token, purpose }) => `${kmsKeyId(token)} (${purpose})`).join(', ');
  throw new OperatorError(
    `${found === undefined ? 'the config file has no such key' : 'several keys match'}: name one with --region and --key-label; the file has ${names || 'none'}`,
  );
}

/** The key, after it has signed and proved fit for its purpose. Undefined if the token has no key of that label. */
export async function findKey({ token, purpose }: WantedKey): Promise<HeldKey | undefined> {
  try {
    return await useKey(token, async (key) =>
      purpose === 'log' ? asConfigured(token, asLogKey(key)) : asAuthorityKey(key),
    );
  } catch (error) {
    if (signerFailureOf(error)?.code === 'key_not_found') return undefined;
    throw error;
  }
}

/** Opens a time-stamping key or a root while `use` runs. */
export function useAuthorityKey<Result>(
  token: PartitionOptions,
  use: (key: { key: CertifiedKey; sign: Sign }) => Promise<Result>,
): Promise<Result> {
  return useKey(token, (key, sign) => use({ key: asAuthorityKey(key), sign }));
}

export function asAuthorityKey({ algorithm, ...key }: HeldKey): HeldKey<AuthorityAlgorithm> {
  if (algorithm !== 'ed25519' && algorithm !== 'mldsa44') return { ...key, algorithm };
  const name = algorithm === 'ed25519' ? 'an Ed25519' : 'an ML-DSA';
  throw new OperatorError(
    `${kmsKeyId(key)} is ${name} key, and stock tools cannot verify its time-stamps: choose another key_label`,
  );
}
