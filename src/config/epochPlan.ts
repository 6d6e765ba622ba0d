/** Plans and cancels the next epoch, for commands and the console alike, once the keys exist. */
import { createHash } from 'node:crypto';
import { writeFileAtomically } from '../base/atomicFile.ts';
import { systemClock, toRfc3339 } from '../base/clock.ts';
import { OperatorError } from '../base/errors.ts';
import { comingAt, type Epoch, type EpochKey, type Epochs, termAt } from '../log/epochs.ts';
import type { Actor } from '../manifest/auditRecord.ts';
import { epochObject } from '../manifest/sealedForm.ts';
import { encodeTrust } from '../manifest/trustFile.ts';
import { actBy } from '../store/acts.ts';
import { certificatesOnRecord } from '../store/certificatesOnRecord.ts';
import type { Store } from '../store/store.ts';
import { canBeWitnessed, differences, NOT_WITNESSABLE } from './agreement.ts';
import type { Config } from './config.ts';
import { rootsNow, STRANGER_REMEDY, strangers, trustOf } from './trustAnchors.ts';

/** A plan can change up to this long before it begins, so that no write still on its way to disk meets the switch. */
const LEAD_MS_MIN = 5_000;

/** A permitted change of the list of epochs. */
export interface EpochsChange {
  act: 'epoch.plan' | 'epoch.cancel';
  /** The list before the change. */
  before: Epochs;
  after: readonly Epoch[];
  /** The epoch that is added or removed. */
  epoch: Epoch;
  /** Roots that no epoch trusted before: each `<authority> <SHA-256 of the root certificate in hex>`. */
  newRoots: readonly string[];
}

/** Returns the epoch in force. Throws OperatorError if another one is planned, or if `from` has passed. */
export function assertPlannable(epochs: Epochs, from: number | undefined): Epoch {
  const now = systemClock();
  const coming = comingAt(epochs, now);
  if (coming !== undefined) {
    throw new OperatorError(
      `an epoch is already planned from ${toRfc3339(coming.from)} on: wait until it begins, or cancel it with pdfseal epochs cancel`,
    );
  }
  if (from !== undefined) assertAhead(from);
  return termAt(epochs, now).epoch;
}

/**
 * Plans the next epoch, with the quorum and time-stamps of the configuration. `before` is the list that {@link assertPlannable} accepted.
 * Throws OperatorError.
 */
export async function planEpoch(
  store: Pick<Store, 'log' | 'trail'>,
  config: Config,
  { before, from, keys }: { before: Epochs; from: number; keys: EpochKey[] },
): Promise<EpochsChange> {
  const epoch: Epoch = {
    from,
    keys,
    quorum: config.kms.quorum,
    timestamps: config.timestamp.authorities.length > 0 ? 'required' : 'none',
    roots: rootsNow(config),
  };
  const [stranger] = strangers(before.list, config, await certificatesOnRecord(store));
  if (stranger !== undefined) throw new OperatorError(stranger, { remedy: STRANGER_REMEDY });
  assertChanges(config, epoch, termAt(before, systemClock()).epoch);
  assertFitsConfig(config, epoch);
  await assertAheadOf(store, from);
  const newRoots = newRootsOf(epoch, before.list);
  return { act: 'epoch.plan', before, after: [...before.list, epoch], epoch, newRoots };
}

/** Cancels the planned epoch. Throws OperatorError. */
export async function cancelEpoch(store: Pick<Store, 'log'>, before: Epochs): Promise<EpochsChange> {
  const epoch = comingAt(before, systemClock());
  if (epoch === undefined) throw new OperatorError('no epoch is planned');
  await assertAheadOf(store, epoch.from);
  const after = before.list.filter((one) => one !== epoch);
  return { act: 'epoch.cancel', before, after, epoch, newRoots: [] };
}

/** Records the change, then writes the trust file. Throws OperatorError. */
export async function changeEpochs(
  store: Pick<Store, 'identity' | 'epochs' | 'trail'>,
  config: Config,
  { act, before, after, epoch }: EpochsChange,
  actor: Actor,
): Promise<void> {
  const trust = encodeTrust(trustOf(store.identity, after, config, await certificatesOnRecord(store)));
  const object = epochObject(store.identity.logOrigin, epoch);
  if (!(await store.epochs.change(after, before.revision, actBy(actor, act, object))))
    throw new OperatorError(
      'someone else changed the epochs at the same time: look at `pdfseal epochs list`, and repeat the command',
    );
  if (systemClock() >= epoch.from)
    throw new OperatorError(
      `the epoch was recorded after ${toRfc3339(epoch.from)}, when it had already begun: run pdfseal check before anything else`,
    );
  try {
    writeFileAtomically(config.trustFile, trust);
  } catch (cause) {
    if (!(cause instanceof OperatorError)) throw cause;
    throw new OperatorError(
      `the epochs are changed, but not the trust file: ${cause.message}; correct this, and write the file with pdfseal trust export`,
      { cause },
    );
  }
}

function newRootsOf({ roots }: Epoch, earlier: readonly Epoch[]): string[] {
  const known = earlier.flatMap((epoch) => epoch.roots);
  return roots
    .filter(({ name, root }) => !known.some((one) => one.name === name && one.root === root))
    .map(({ name, root }) => `${name} ${createHash('sha256').update(root, 'base64').digest('hex')}`);
}

/** Also checks the clock of the log, which can be ahead of this machine's. */
async function assertAheadOf({ log }: Pick<Store, 'log'>, from: number): Promise<void> {
  assertAhead(from);
  const newest = (await log.announced()) ?? (await log.head());
  if (newest !== undefined && from <= newest.sealedAt)
    throw new OperatorError(
      `the log has a checkpoint of ${toRfc3339(newest.sealedAt)} already: you can plan or cancel only an epoch that begins later`,
    );
}

function assertAhead(from: number): void {
  if (from - systemClock() < LEAD_MS_MIN)
    throw new OperatorError(
      `${toRfc3339(from)} is too soon or in the past: you can plan or cancel an epoch up to ${LEAD_MS_MIN / 1000} s before it begins`,
    );
}

function assertChanges(config: Config, epoch: Epoch, inForce: Epoch): void {
  const spkis = ({ keys }: Epoch) =>
    keys
      .map(({ spki }) => spki)
      .toSorted()
      .join();
  if (spkis(epoch) !== spkis(inForce) || differences(config, inForce).length > 0) return;
  throw new OperatorError(
    'nothing would change: the epoch in force already has these keys, this quorum and these time-stamps',
  );
}

/** Checks the keys: everything else in the epoch comes from the configuration, so it agrees. */
function assertFitsConfig(config: Config, epoch: Epoch): void {
  if (config.witness.policy !== undefined && !canBeWitnessed(epoch.keys))
    throw new OperatorError(
      `${NOT_WITNESSABLE}: repeat the command with --algorithm ed25519 for at least one new key`,
    );
  const [fault] = differences(config, epoch);
  if (fault !== undefined)
    throw new OperatorError(
      `${fault}: correct the config file, or give this partition a new key with --new-keys`,
    );
}
