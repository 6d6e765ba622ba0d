import { toRfc3339 } from '../base/clock.ts';
import { OperatorError } from '../base/errors.ts';
import { comingAt, type Epoch, type EpochKey, type Epochs, termAt } from '../log/epochs.ts';
import { encodeQuorum, quorumFault } from '../log/quorum.ts';
import { isClassical, kmsKeyId } from '../log/verifierKey.ts';
import type { Config } from './config.ts';

/** The parts of the configuration that make an epoch. */
type Terms = Pick<Config, 'kms' | 'timestamp' | 'witness'>;

/**
 * Checks that the configuration is the one with which the epoch in force at that time was planned, or that of the planned epoch. Throws
 * OperatorError that names each difference and the remedy.
 */
export function assertAgreement(config: Terms & Pick<Config, 'file'>, epochs: Epochs, at: number): void {
  const { epoch } = termAt(epochs, at);
  const coming = comingAt(epochs, at);
  const faults = differences(config, epoch);
  if (faults.length === 0) return;
  if (coming !== undefined && differences(config, coming).length === 0) {
    assertServes(config, epoch, coming);
    return;
  }
  const rule = `${coming === undefined ? '' : 'and it is not that of the planned epoch either; '}put it back, or plan an epoch with it: pdfseal epochs plan --config ${config.file}`;
  throw new OperatorError(
    [...faults, `the epoch in force since ${toRfc3339(epoch.from)} says otherwise; ${rule}`].join('\n'),
  );
}

/** The fault to report if {@link canBeWitnessed} is false and the log has a policy of witnesses. */
export const NOT_WITNESSABLE =
  'witness.policy: no key of this epoch is an Ed25519 key, and witnesses accept no other';

/** Differences between a configuration, which may already be that of the planned epoch, and this epoch: one line for each. */
export function differences(
  { kms, timestamp, witness }: Terms,
  { keys, quorum, timestamps }: Epoch,
): string[] {
  const configured = kms.partitions.map(kmsKeyId);
  const held = keys.map(({ region, partition }) => kmsKeyId({ region, keyLabel: partition }));
  const added = configured.filter((name) => !held.includes(name));
  const removed = held.filter((name) => !configured.includes(name));
  const [now, then] = [encodeQuorum(kms.quorum), encodeQuorum(quorum)];
  const required = timestamp.authorities.length > 0;
  return [
    ...added.map((name) => `kms.partitions: ${name} is not a partition of this epoch`),
    ...removed.map((name) => `kms.partitions: ${name} is missing, a partition of this epoch`),
    ...kms.partitions.flatMap((token) => {
      const key = keys.find(
        ({ region, partition }) => region === token.region && partition === token.keyLabel,
      );
      return key === undefined ? [] : kindDifferences(token, key);
    }),
    ...(now === then ? [] : [`kms.quorum: ${now}, in this epoch ${then}`]),
    ...(required === (timestamps === 'required')
      ? []
      : [`timestamp.authorities: ${required ? 'some, in this epoch none' : 'none, in this epoch required'}`]),
    ...(witness.policy === undefined || canBeWitnessed(keys) ? [] : [NOT_WITNESSABLE]),
  ];
}

/** A partition cannot change the kind of its key: each verdict names the kind of the key. */
function kindDifferences(
  { algorithm, module, ...token }: Terms['kms']['partitions'][number],
  key: EpochKey,
): string[] {
  const name = `kms.partitions: ${kmsKeyId(token)}`;
  const isOther = algorithm === undefined ? !isClassical(key) : algorithm !== key.algorithm;
  const isSoftware = module === undefined;
  return [
    ...(isOther ? [`${name}: algorithm is ${algorithm ?? 'not set'}, in this epoch ${key.algorithm}`] : []),
    ...(isSoftware === (key.software ?? false)
      ? []
      : [
          `${name} is ${isSoftware ? 'a software key' : 'in an HSM'}, in this epoch ${isSoftware ? 'in an HSM' : 'a software key'}`,
        ]),
  ];
}

/** Whether witnesses accept signatures of these keys. */
export function canBeWitnessed(keys: Epoch['keys']): boolean {
  return keys.some(({ algorithm }) => algorithm === 'ed25519');
}

/** The configuration may already be that of the planned epoch, but it must serve the epoch in force to its end. */
function assertServes({ kms, timestamp }: Terms, epoch: Epoch, coming: Epoch): void {
  const until = `until the planned epoch begins, ${toRfc3339(coming.from)}`;
  if (epoch.timestamps === 'required' && timestamp.authorities.length === 0)
    throw new OperatorError(`timestamp.authorities: required ${until}`);
  const left = epoch.keys.filter(({ region, partition }) =>
    kms.partitions.some((token) => token.region === region && token.keyLabel === partition),
  );
  const fault = quorumFault(epoch.quorum, left);
  if (fault !== undefined)
    throw new OperatorError(`kms.partitions: without those taken out, ${fault} ${until}`);
}
