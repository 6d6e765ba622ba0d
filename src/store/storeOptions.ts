/** What every engine is told of a store that it makes or opens, and whether a store is the one that is meant. */
import type { Clock } from '../base/clock.ts';
import { OperatorError } from '../base/errors.ts';
import type { Epoch } from '../log/epochs.ts';
import type { Act } from '../manifest/auditRecord.ts';
import type { StoreIdentity } from './store.ts';

export interface NewStore {
  identity: Omit<StoreIdentity, 'schema'>;
  /** The first epoch of the log. */
  epoch: Epoch;
  /** The first record of the audit trail: who makes the store. */
  act?: Act;
}

export interface OpenOptions {
  /** What the configuration says the store is for. */
  expected?: Partial<Pick<StoreIdentity, 'environment' | 'logOrigin'>>;
  /** Also opens a store whose repair was interrupted. */
  repairing?: boolean;
  /** Also opens a store that a log moves to or from. */
  moving?: boolean;
  clock?: Clock;
  /** For tests: the monotonic clock of service time, milliseconds. */
  monotonicMs?: Clock;
  /** So many messages may wait for one webhook endpoint, and so many may be dead letters. */
  backlogMax?: number;
}

export const BACKLOG_MAX_DEFAULT = 50_000;

/** The keys of the configuration file. */
const KEYS = { environment: 'environment', logOrigin: 'log.origin' } as const;

/** Throws OperatorError when the configuration is for another store. `place` is where this one is, by the key that `remedy` names. */
export function assertExpected(
  identity: StoreIdentity,
  expected: NonNullable<OpenOptions['expected']>,
  { place, remedy }: { place: string; remedy: string },
): void {
  for (const field of ['environment', 'logOrigin'] as const) {
    const wanted = expected[field];
    if (wanted === undefined || wanted === identity[field]) continue;
    throw new OperatorError(
      `the store in ${place} is for ${KEYS[field]} "${identity[field]}", the configuration says "${wanted}"`,
      { remedy },
    );
  }
}
