import type { Clock } from './base/clock.ts';
import { QUOTA_RETENTION_MS } from './limits/quotas.ts';
import { IDEMPOTENCY_RETENTION_MS } from './store/idempotency.ts';
import type { Store } from './store/store.ts';

const INTERVAL_MS = 60_000;
/** Entries removed in one transaction: small enough that a batch waiting behind it does not notice. */
const STEP_ENTRIES_MAX = 500;

export interface SweepOptions {
  store: Pick<Store, 'sweepIdempotency' | 'sweepQuotas'>;
  clock: Clock;
  /** Told when the store can no longer be written. */
  onFatal(error: unknown): void;
}

/** Removes expired idempotency entries, and counts of quotas whose windows are long over, every minute. Returns the function that ends it, after the step under way. */
export function startSweeping({ store, clock, onFatal }: SweepOptions): () => Promise<void> {
  let stopped = false;
  let sweeping: Promise<void> = Promise.resolve();
  const sweepAll = async (step: () => Promise<number>) => {
    while (!stopped) {
      if ((await step()) < STEP_ENTRIES_MAX) return;
    }
  };
  const sweep = async () => {
    await sweepAll(() => store.sweepIdempotency(clock() - IDEMPOTENCY_RETENTION_MS, STEP_ENTRIES_MAX));
    await sweepAll(() => store.sweepQuotas(clock() - QUOTA_RETENTION_MS, STEP_ENTRIES_MAX));
  };
  const timer = setInterval(() => {
    sweeping = sweeping.then(sweep).catch(onFatal);
  }, INTERVAL_MS);
  return async () => {
    stopped = true;
    clearInterval(timer);
    await sweeping;
  };
}
