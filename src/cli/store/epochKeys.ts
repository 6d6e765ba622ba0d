import { OperatorError } from '../../base/errors.ts';
import type { HeldKey } from '../../kms/keyAlgorithm.ts';
import { initKey, inspectKey } from '../../kms/keyOperations.ts';
import type { PartitionOptions } from '../../kms/partitions.ts';
import type { Epoch, EpochKey } from '../../log/epochs.ts';
import type { SignatureAlgorithm } from '../../log/verifierKey.ts';
import { kmsKeyId } from '../../manifest/receipt.ts';
import { actOfProcess, onRecord } from '../../store/acts.ts';
import type { TrailStore } from '../../store/trail.ts';
import { asLogKey, findKey } from '../hsm/hsmKeys.ts';
import { note } from '../terminal.ts';

export interface KeyChoices {
  /** Which partitions get a new key: all, none, or those of these names, `<region>/<key_label>`. */
  newKeys: 'all' | 'none' | readonly string[];
  /** What the labels of new keys end with. */
  suffix: string;
  /** Of new keys; that of the key they replace where it is left out. */
  algorithm?: SignatureAlgorithm | undefined;
  useExistingKeys?: boolean | undefined;
  /** Where it is put on record that a key is made. */
  trail: Pick<TrailStore, 'append'>;
  /** Told of each key, in a line. */
  tell(line: string): void;
}

/** A partition of the coming epoch, and the key it is to sign with. */
interface Seat {
  token: PartitionOptions;
  /** The key of the epoch in force, where it stays. */
  kept?: EpochKey;
  label: string;
  algorithm: SignatureAlgorithm;
}

/** `key_label`s have 64 characters at most. */
const LABEL_CHARACTERS_MAX = 64;

/**
 * The keys of the coming epoch, one for each configured partition: kept, found or made, each private, sensitive, not
 * extractable, and proven by a signature. Looks at all of them before it makes the first. Throws OperatorError.
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
    const key = found[index] ?? (await makeKey(seat, choices.trail, keys.length > 0));
    const what = seat.kept ? 'kept' : found[index] ? 'found' : 'made';
    choices.tell(`key    ${kmsKeyId(key)}  ${key.algorithm}  ${what}`);
    if (key !== seat.kept) await assertFit(seat);
    keys.push({ ...asLogKey(key), partition: seat.token.keyLabel });
  }
  if (new Set(keys.map(({ spki }) => spki)).size < keys.length)
    throw new OperatorError('kms.partitions: two partitions hold the same key; each needs its own');
  return keys;
}

function assertNamesPartitions({ newKeys }: KeyChoices, partitions: readonly PartitionOptions[]): void {
  if (typeof newKeys === 'string') return;
  const names = partitions.map(kmsKeyId);
  const unknown = newKeys.find((name) => !names.includes(name));
  if (unknown === undefined) return;
  throw new OperatorError(
    `--new-keys ${unknown}: kms.partitions has no such partition; there are ${names.join(', ')}`,
  );
}

function seatOf(token: PartitionOptions, inForce: Epoch, { newKeys, suffix, algorithm }: KeyChoices): Seat {
  const held = inForce.keys.find((key) => key.region === token.region && key.partition === token.keyLabel);
  const name = kmsKeyId(token);
  if (held === undefined) return { token, label: token.keyLabel, algorithm: algorithm ?? 'ed25519' };
  const isKept = newKeys === 'none' || (newKeys !== 'all' && !newKeys.includes(name));
  if (isKept) return { token, kept: held, label: held.keyLabel, algorithm: held.algorithm };
  const label = `${token.keyLabel}-${suffix}`;
  if (label.length > LABEL_CHARACTERS_MAX)
    throw new OperatorError(
      `${label}: longer than the ${LABEL_CHARACTERS_MAX} characters of a key label; choose a shorter --suffix`,
    );
  return { token, label, algorithm: algorithm ?? held.algorithm };
}

/** Throws OperatorError for a key that is not to be taken, or of a name that stands for another one. */
async function lookFor(
  { token, kept, label }: Seat,
  used: readonly EpochKey[],
  { useExistingKeys = false }: KeyChoices,
): Promise<HeldKey | undefined> {
  const name = kmsKeyId({ region: token.region, keyLabel: label });
  if (kept === undefined && used.some((key) => kmsKeyId(key) === name))
    throw new OperatorError(`${name} is the name of an earlier key of this log: choose another --suffix`);
  const key = await findOrKeep({ ...token, keyLabel: label }, kept);
  if (kept !== undefined && key?.spki !== kept.spki) {
    throw new OperatorError(
      `${name} is not on its token, or is another key: restore it, or make a new one with --new-keys ${kmsKeyId(token)}`,
    );
  }
  if (kept !== undefined || key === undefined) return key;
  if (used.some(({ spki }) => spki === key.spki))
    throw new OperatorError(`${name} is a key that signed this log already, under another name`);
  if (useExistingKeys) return key;
  throw new OperatorError(
    `there is a key ${name} already; --use-existing-keys takes it, if nothing ever signed with it`,
  );
}

/** A key that stays is taken as the log knows it while its token cannot be asked. */
async function findOrKeep(token: PartitionOptions, kept: EpochKey | undefined): Promise<HeldKey | undefined> {
  try {
    return await findKey({ purpose: 'log', token });
  } catch (error) {
    if (kept === undefined || !(error instanceof OperatorError)) throw error;
    note(`pdfseal: ${error.message}`);
    note(`${kmsKeyId(token)} stays, as the log knows it.`);
    return kept;
  }
}

async function makeKey(
  { token, label, algorithm }: Seat,
  trail: KeyChoices['trail'],
  othersMade: boolean,
): Promise<HeldKey> {
  const named = { ...token, keyLabel: label };
  const act = actOfProcess('command', 'hsm.init_key', { key: kmsKeyId(named), algorithm, purpose: 'log' });
  try {
    return await onRecord(trail, act, () => initKey(named, algorithm));
  } catch (error) {
    if (othersMade) note('The keys above are there; repeat with --use-existing-keys once this is mended:');
    throw error;
  }
}

/** Has it sign, and asks its token how it is kept. */
async function assertFit({ token, label }: Seat): Promise<void> {
  const { exposures } = await inspectKey({ ...token, keyLabel: label });
  if (exposures.length === 0) return;
  const name = kmsKeyId({ region: token.region, keyLabel: label });
  throw new OperatorError(
    `${name}: the token does not keep the private key to itself (${exposures.join(', ')})`,
  );
}
