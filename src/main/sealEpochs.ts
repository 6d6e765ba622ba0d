import { toRfc3339 } from '../base/clock.ts';
import type { Epoch } from '../log/epochs.ts';
import { epochObject } from '../manifest/sealedForm.ts';
import type { EpochSeal } from '../prove/epochs/epochSeal.ts';
import { actOfProcess } from '../store/acts.ts';
import type { Store } from '../store/store.ts';

/** Writes the missing record of the epoch in force if it began while no daemon was running. */
export async function completeEpochRecords(store: Store, epochSeal: EpochSeal, epoch: Epoch): Promise<void> {
  const { sealed } = await epochSeal.read();
  const own = sealed.list.find(({ form }) => form.from === toRfc3339(epoch.from));
  if (own?.isBegun === false) await recordBegin(store, epoch);
}

/** The first thing sealed in an epoch is the record of its beginning. */
export async function recordBegin(store: Store, epoch: Epoch): Promise<void> {
  await store.trail.append(
    actOfProcess('daemon', 'epoch.begin', epochObject(store.identity.logOrigin, epoch)),
  );
}
