/** What the console may do with the epochs, once two people want it: what `pdfseal epochs plan --new-keys none` and `cancel` do. */
import { createHash } from 'node:crypto';
import { presentEpochs } from '../admin/presentEpochs.ts';
import { assert } from '../base/assert.ts';
import { systemClock } from '../base/clock.ts';
import { type Config, loadConfig } from '../config/config.ts';
import {
  assertPlannable,
  cancelEpoch,
  changeEpochs,
  type EpochsChange,
  keptKeys,
  planEpoch,
} from '../config/epochPlan.ts';
import type { EpochActs, Prepared } from '../console/proposals.ts';
import { type Epochs, termAt } from '../log/epochs.ts';
import type { QuorumPolicy } from '../log/quorum.ts';
import { epochObject } from '../manifest/sealedForm.ts';
import type { EpochSeal } from '../prove/epochSeal.ts';
import type { Store } from '../store/store.ts';

/** The configuration is read anew each time, as a command does. No token is opened: the signers of the daemon make no keys. */
export function epochActsOf(
  store: Pick<Store, 'identity' | 'epochs' | 'log'>,
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
      sha256: createHash('sha256')
        .update(JSON.stringify([act, before.revision, object]))
        .digest('hex'),
      carryOut: (actor) => changeEpochs(store, config, change, actor),
    };
  };
  return {
    plan: (from) =>
      prepare((config, before) => {
        const inForce = assertPlannable(before, from);
        return planEpoch(store, config, { before, from, keys: keptKeys(config, inForce) });
      }),
    cancel: () => prepare((_, before) => cancelEpoch(store, before)),
  };
}

function presentedOf<One>(all: readonly One[], index: number): One {
  const found = all[index];
  assert(found, 'the epoch is on the list');
  return found;
}

function signaturesOf({ needed, postQuantum = 0 }: QuorumPolicy): number {
  return needed + postQuantum;
}
