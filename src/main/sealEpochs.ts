import { toRfc3339 } from '../base/clock.ts';
import type { Epoch } from '../log/epochs.ts';
import { epochObject } from '../manifest/sealedForm.ts';
import type { EpochSeal } from '../prove/epochSeal.ts';
import { actOfProcess } from '../store/acts.ts';
import type { Store } from '../store/store.ts';

/** Writes the record that the epoch in force still lacks if it began while no daemon ran. */
export async function completeEpochRecords(store: Store, epochSeal: EpochSeal, epoch: Epoch): Promise<void> {
  const { sealed } = await epochSeal.read();
  const own = sealed.list.find(({ form }) => form.from === toRfc3339(epoch.from));
  if (own?.isBegun === false) await recordBegin(store, epoch);
}

/** The first thing that an epoch seals is the record that it began. */
export async function recordBegin(store: Store, epoch: Epoch): Promise<void> {
  await store.trail.append(
    actOfProcess('daemon', 'epoch.begin', epochObject(store.identity.logOrigin, epoch)),
  );
}
