import type { Logger } from 'pino';
import { fromUtf8, toHex } from '../base/bytes.ts';
import { toRfc3339 } from '../base/clock.ts';
import { sha256 } from '../base/crypto.ts';
import { OperatorError } from '../base/errors.ts';
import type { Config } from '../config/config.ts';
import { trustOf } from '../config/trustAnchors.ts';
import type { Epoch } from '../log/epochs.ts';
import { encodeForms, epochObject, sealedForms } from '../manifest/sealedForm.ts';
import { encodeTrust } from '../manifest/trustFile.ts';
import type { EpochSeal } from '../prove/epochSeal.ts';
import { actOfProcess } from '../store/acts.ts';
import type { Store } from '../store/store.ts';

export interface SealEpochsOptions {
  epochSeal: EpochSeal;
  config: Config;
  /** The epoch in force. */
  epoch: Epoch;
  logger: Logger;
}

/** Writes the records that the epochs still lack: of epochs from an earlier version, or of one that began while no daemon ran. */
export async function completeEpochRecords(
  store: Store,
  { epochSeal, config, epoch, logger }: SealEpochsOptions,
): Promise<void> {
  const { logOrigin } = store.identity;
  for (;;) {
    const { epochs, sealed } = await epochSeal.read();
    if (sealed.base !== undefined) {
      const own = sealed.list.find(({ form }) => form.from === toRfc3339(epoch.from));
      if (own?.isBegun === false) await recordBegin(store, epoch);
      return;
    }
    const object = encodeForms(sealedForms(logOrigin, epochs.list));
    const act = actOfProcess('daemon', 'epoch.adopt', object);
    // The same list again: so nobody can change it at the same time. If they did, look again.
    if (!(await store.epochs.change(epochs.list, epochs.revision, act))) continue;
    const fields = { event: 'epochs_adopted', epochs: epochs.list.length };
    logger.warn(
      { ...fields, ...digestOf(() => encodeTrust(trustOf(store.identity, epochs.list, config))) },
      'an earlier version made this log; its epochs, as the store has them, are now sealed: compare the SHA-256 with that of the trust file you handed out',
    );
  }
}

/** What is wrong with a trust file is no reason to end: `pdfseal trust export` says it. */
function digestOf(encode: () => string): object {
  try {
    return { trust_sha256: toHex(sha256(fromUtf8(encode()))) };
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return { trust_error: error.message };
  }
}

/** The first thing that an epoch seals is the record that it began. */
export async function recordBegin(store: Store, epoch: Epoch): Promise<void> {
  await store.trail.append(
    actOfProcess('daemon', 'epoch.begin', epochObject(store.identity.logOrigin, epoch)),
  );
}
