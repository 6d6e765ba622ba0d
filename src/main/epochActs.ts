/**
 * The console's acts on epochs, after two people have agreed: the same as `pdfseal epochs plan` and `cancel`, but without creating keys.
 */
import { createHash } from 'node:crypto';
import { assert } from '../base/assert.ts';
import { systemClock } from '../base/clock.ts';
import { OperatorError } from '../base/errors.ts';
import { type Config, loadConfig } from '../config/config.ts';
import {
  assertPlannable,
  cancelEpoch,
  changeEpochs,
  type EpochsChange,
  planEpoch,
} from '../config/epochPlan.ts';
import type { EpochActs, Prepared } from '../console/proposals.ts';
import { findExisting, keysForEpoch } from '../kms/epochKeys.ts';
import { type Epochs, termAt } from '../log/epochs.ts';
import type { QuorumPolicy } from '../log/quorum.ts';
import { kmsKeyId } from '../log/verifierKey.ts';
import { epochObject } from '../manifest/sealedForm.ts';
import { presentEpochs } from '../ops/presentEpochs.ts';
import type { EpochSeal } from '../prove/epochs/epochSeal.ts';
import type { Store } from '../store/store.ts';

/** The configuration is read again each time, as by a command. New keys must already exist: the daemon's signers do not create any. */
export function epochActsOf(
  store: Pick<Store, 'identity' | 'epochs' | 'log' | 'trail'>,
  { file, epochSeal }: { file: string; epochSeal: Pick<EpochSeal, 'read'> },
): EpochActs {
  const prepare = async (
    make: (config: Config, before: Epochs) => Promise<EpochsChange>,
  ): Promise<Prepared> => {
    const config = loadConfig(file);
    const { epochs } = await epochSeal.read();
    const change = await make(config, epochs);
    const { act, before, after, epoch } = change;
    const inForce = termAt(before, systemClock()).epoch;
    const longer = act === 'epoch.plan' ? after : before.list;
    const presented = presentEpochs({ list: longer }, systemClock());
    const object = epochObject(store.identity.logOrigin, epoch);
    return {
      act,
      inForce: presentedOf(presented, longer.indexOf(inForce)),
      epoch: presentedOf(presented, longer.indexOf(epoch)),
      lowersQuorum: act === 'epoch.plan' && signaturesOf(epoch.quorum) < signaturesOf(inForce.quorum),
      newRoots: change.newRoots,
      sha256: createHash('sha256')
        .update(JSON.stringify([act, before.revision, object]))
        .digest('hex'),
      carryOut: (actor) => changeEpochs(store, config, change, actor),
    };
  };
  return {
    plan: ({ from, newKeys, suffix }) =>
      prepare(async (config, before) => {
        const inForce = assertPlannable(before, from);
        const keys = await keysForEpoch(config.kms.partitions, before.list, inForce, {
          newKeys,
          suffix: suffix === '' ? `e${before.list.length + 1}` : suffix,
          useExistingKeys: true,
          find: findExisting,
          make: refuseToMake,
          tell: () => {},
        });
        return planEpoch(store, config, { before, from, keys });
      }),
    cancel: () => prepare((_, before) => cancelEpoch(store, before)),
  };
}

async function refuseToMake({ region, keyLabel }: { region: string; keyLabel: string }): Promise<never> {
  throw new OperatorError(
    `there is no key ${kmsKeyId({ region, keyLabel })}: first make it with pdfseal hsm init-key --new-label ${keyLabel}`,
  );
}

function presentedOf<One>(all: readonly One[], index: number): One {
  const found = all[index];
  assert(found, 'the epoch is on the list');
  return found;
}

function signaturesOf({ needed, postQuantum = 0 }: QuorumPolicy): number {
  return needed + postQuantum;
}
