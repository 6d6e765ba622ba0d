import type { Clock } from './base/clock.ts';
import { IDEMPOTENCY_RETENTION_MS } from './store/idempotency.ts';
import type { Store } from './store/store.ts';

const INTERVAL_MS = 60_000;
/** Entries removed in one transaction: small enough that a batch waiting behind it does not notice. */
const STEP_ENTRIES_MAX = 500;

export interface SweepOptions {
  store: Pick<Store, 'sweepIdempotency'>;
  clock: Clock;
  /** Told when the store can no longer be written. */
  onFatal(error: unknown): void;
}

/** Removes expired idempotency entries every minute. Returns the function that ends it, after the step under way. */
export function startSweeping({ store, clock, onFatal }: SweepOptions): () => Promise<void> {
  let stopped = false;
  let sweeping: Promise<void> = Promise.resolve();
  const sweep = async () => {
    while (!stopped) {
      const removed = await store.sweepIdempotency(clock() - IDEMPOTENCY_RETENTION_MS, STEP_ENTRIES_MAX);
      if (removed < STEP_ENTRIES_MAX) return;
    }
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
