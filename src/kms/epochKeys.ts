/** The keys of the coming epoch, one for each partition: those that stay, and new ones. */
import { OperatorError } from '../base/errors.ts';
import type { Epoch, EpochKey } from '../log/epochs.ts';
import {
  type ClassicalAlgorithm,
  describeKey,
  isClassical,
  kmsKeyId,
  type LogKey,
  type SignatureAlgorithm,
} from '../log/verifierKey.ts';
import { type HeldKey, signsLogs } from './keyAlgorithm.ts';
import { inspectKey } from './keyOperations.ts';
import type { PartitionOptions } from './partitions.ts';
import { SignerFailure } from './signerFailure.ts';

export interface KeyChoices {
  /** Partitions that get a new key: all, none, or these, each as `<region>/<key_label>`. */
  newKeys: 'all' | 'none' | readonly string[];
  /** Suffix for new key labels. */
  suffix: string;
  /** Algorithm of new keys, if the configuration does not set it. Default: that of the key they succeed. */
  algorithm?: ClassicalAlgorithm | undefined;
  useExistingKeys?: boolean | undefined;
  /**
   * Returns the key of that label, after it has signed; undefined if the token has none. `kept`: the key of the epoch in force, if it
   * stays.
   */
  find(token: PartitionOptions, kept: EpochKey | undefined): Promise<HeldKey | undefined>;
  /** Makes the key. `othersMade`: whether keys were made before it. */
  make(token: PartitionOptions, algorithm: SignatureAlgorithm, othersMade: boolean): Promise<HeldKey>;
  /** Receives a line about each key. */
  tell(line: string): void;
}

/** A partition of the coming epoch, and the key with which it will sign. */
interface Seat {
  token: PartitionOptions;
  /** The key of the epoch in force, if it stays. */
  kept?: EpochKey;
  label: string;
  algorithm: SignatureAlgorithm;
}

/** Maximum length of a `key_label`. */
const LABEL_CHARACTERS_MAX = 64;

/**
 * The keys of the coming epoch, one for each configured partition: kept, found or made. Each is private, sensitive, not extractable, and
 * has signed. All partitions are checked before the first key is made. Throws OperatorError.
 */
export async function keysForEpoch(
  partitions: readonly PartitionOptions[],
  epochs: readonly Epoch[],
  inForce: Epoch,
  choices: KeyChoices,
): Promise<EpochKey[]> {
  assertNamesPartitions(choices, partitions);
  const used = epochs.flatMap(({ keys }) => keys);
  const seats = partitions.map((token) => seatOf(token, inForce, choices));
  const found: (HeldKey | undefined)[] = [];
  for (const seat of seats) found.push(await lookFor(seat, used, choices));
  const keys: EpochKey[] = [];
  for (const [index, seat] of seats.entries()) {
    const key = found[index] ?? (await choices.make(named(seat), seat.algorithm, keys.length > 0));
    const what = seat.kept ? 'kept' : found[index] ? 'found' : 'made';
    choices.tell(`key    ${describeKey(key)}  ${key.algorithm}  ${what}`);
    if (key !== seat.kept) await assertFit(seat);
    keys.push({ ...asLogKey(key), partition: seat.token.keyLabel });
  }
  if (new Set(keys.map(({ spki }) => spki)).size < keys.length)
    throw new OperatorError('kms.partitions: two partitions have the same key; each partition needs its own');
  return keys;
}

function assertNamesPartitions({ newKeys }: KeyChoices, partitions: readonly PartitionOptions[]): void {
  if (typeof newKeys === 'string') return;
  const names = partitions.map(kmsKeyId);
  const software = partitions.find((one) => one.module === undefined && newKeys.includes(kmsKeyId(one)));
  if (software !== undefined)
    throw new OperatorError(
      `--new-keys ${kmsKeyId(software)}: a software key stays what it is; add a partition with another key_label and a new file`,
    );
  const unknown = newKeys.find((name) => !names.includes(name));
  if (unknown === undefined) return;
  throw new OperatorError(
    `--new-keys ${unknown}: kms.partitions has no such partition; it has ${names.join(', ')}`,
  );
}

function seatOf(token: PartitionOptions, inForce: Epoch, { newKeys, suffix, algorithm }: KeyChoices): Seat {
  const held = inForce.keys.find((key) => key.region === token.region && key.partition === token.keyLabel);
  const name = kmsKeyId(token);
  if (held === undefined)
    return { token, label: token.keyLabel, algorithm: token.algorithm ?? algorithm ?? 'ed25519' };
  const isChosen = newKeys === 'all' || (newKeys !== 'none' && newKeys.includes(name));
  const isKept = !isChosen || token.module === undefined;
  if (isKept) assertSameKind(token, held);
  if (isKept) return { token, kept: held, label: held.keyLabel, algorithm: held.algorithm };
  const label = `${token.keyLabel}-${suffix}`;
  if (label.length > LABEL_CHARACTERS_MAX)
    throw new OperatorError(
      `${label} is longer than ${LABEL_CHARACTERS_MAX} characters, the most a key label may have: choose a shorter --suffix`,
    );
  return { token, label, algorithm: token.algorithm ?? algorithm ?? held.algorithm };
}

/** Also refuses the same key in another place: the label `software` is permanent. */
function assertSameKind(token: PartitionOptions, held: EpochKey): void {
  const isSoftware = token.module === undefined;
  if (isSoftware === (held.software ?? false)) return;
  const [now, then] = isSoftware ? ['in a file', 'in an HSM'] : ['in an HSM', 'in a file'];
  throw new OperatorError(
    `${kmsKeyId(token)} is ${now}, but the key that the log knows was ${then}: create a new key, for a partition with another key_label`,
  );
}

/** The existing key of a seat, if there is one. Throws OperatorError if it must not be used, or if its name belongs to an earlier key. */
async function lookFor(
  seat: Seat,
  used: readonly EpochKey[],
  { useExistingKeys = false, find }: KeyChoices,
): Promise<HeldKey | undefined> {
  const { token, kept } = seat;
  const name = kmsKeyId(named(seat));
  if (kept === undefined && used.some((key) => kmsKeyId(key) === name))
    throw new OperatorError(`${name} is the name of an earlier key of this log: choose another --suffix`);
  const key = await find(named(seat), kept);
  if (kept !== undefined && key?.spki !== kept.spki) {
    throw new OperatorError(
      token.module === undefined
        ? `${name} is another key than the log knows: put its file back, or give the new file a partition with another key_label`
        : `${name} is missing on its token, or is another key: restore the key, or create a new one with --new-keys ${kmsKeyId(token)}`,
    );
  }
  if (kept !== undefined || key === undefined) return key;
  if (used.some(({ spki }) => spki === key.spki))
    throw new OperatorError(`${name} has already signed this log, under another name`);
  if (useExistingKeys || key.software) return key;
  throw new OperatorError(
    `a key ${name} already exists; if it has never signed anything, use it with --use-existing-keys`,
  );
}

function named({ token, label }: Seat): PartitionOptions {
  return { ...token, keyLabel: label };
}

/**
 * Implements {@link KeyChoices.find} with operations that any signer offers, including those of the daemon. A key that stays is not
 * inspected: it signs.
 */
export async function findExisting(
  token: PartitionOptions,
  kept: EpochKey | undefined,
): Promise<HeldKey | undefined> {
  if (kept !== undefined) return kept;
  try {
    const { exposures: _, wasAlwaysInside: __, ...key } = await inspectKey(token);
    return asConfigured(token, asLogKey(key));
  } catch (error) {
    if (signerFailureOf(error)?.code === 'key_not_found') return undefined;
    throw error;
  }
}

/** Signs with the key, and asks the token how it protects the key. */
async function assertFit(seat: Seat): Promise<void> {
  const { exposures } = await inspectKey(named(seat));
  if (exposures.length === 0) return;
  throw new OperatorError(
    `${kmsKeyId(named(seat))}: the private key can leave its token (${exposures.join(', ')})`,
  );
}

/** The signer's failure behind an error, if there is one. */
export function signerFailureOf(error: unknown): SignerFailure | undefined {
  const cause = error instanceof OperatorError ? error.cause : undefined;
  return cause instanceof SignerFailure ? cause : undefined;
}

export function asLogKey({ algorithm, ...key }: HeldKey): LogKey {
  if (signsLogs(algorithm)) return { ...key, algorithm };
  throw new OperatorError(
    `${kmsKeyId(key)} is a key for ${algorithm}, which cannot sign the log: choose another key_label`,
  );
}

/** The quorum counts keys by the algorithm in the configuration, so the key must have that algorithm. */
export function asConfigured({ algorithm }: PartitionOptions, key: LogKey): LogKey {
  const fits = algorithm === undefined ? isClassical(key) : key.algorithm === algorithm;
  if (fits) return key;
  throw new OperatorError(
    `${kmsKeyId(key)} is a key for ${key.algorithm}, and its [[kms.partitions]] table says algorithm = ${algorithm ?? 'nothing, which means a classical one'}: correct algorithm, or choose another key_label`,
  );
}
