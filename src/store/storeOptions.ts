/** Options of every engine for making or opening a store, and the check that a store is the expected one. */
import type { Clock } from '../base/clock.ts';
import { OperatorError } from '../base/errors.ts';
import type { Epoch } from '../log/epochs.ts';
import type { Act } from '../manifest/auditRecord.ts';
import type { StoreIdentity } from './store.ts';

export interface NewStore {
  identity: Omit<StoreIdentity, 'schema'>;
  /** The first epoch of the log. */
  epoch: Epoch;
  /** The first record of the audit trail: the person who makes the store. */
  act?: Act;
}

export interface OpenOptions {
  /** The purpose of the store, according to the configuration. */
  expected?: Partial<Pick<StoreIdentity, 'environment' | 'logOrigin'>>;
  /** Also opens a store whose repair was interrupted. */
  repairing?: boolean;
  /** Also opens a store to or from which a log moves. */
  moving?: boolean;
  clock?: Clock;
  /** For tests: the monotonic clock of service time, milliseconds. */
  monotonicMs?: Clock;
  /** Maximum number of waiting messages, and of dead letters, for one webhook endpoint. */
  backlogMax?: number;
}

export const BACKLOG_MAX_DEFAULT = 50_000;

/** The keys of the configuration file. */
const KEYS = { environment: 'environment', logOrigin: 'log.origin' } as const;

/**
 * Throws OperatorError if the configuration is for another store. `place` is the location of this one, according to the key that `remedy`
 * names.
 */
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
