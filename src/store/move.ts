import { toRfc3339 } from '../base/clock.ts';
import { OperatorError } from '../base/errors.ts';
import type { StoreIdentity } from './store.ts';
import type { StoreMove } from './storeMove.ts';

/** Versions that do not know moves refuse a store with such a high layout. */
const SCHEMA_UNKNOWN = 1_000_000_000;

/** The identity of a store with such a mark. */
export function withMark(identity: StoreIdentity, move: Omit<StoreMove, 'schema'>): StoreIdentity {
  const { schema } = withoutMark(identity);
  return { ...identity, schema: SCHEMA_UNKNOWN, move: { ...move, schema } };
}

/** The identity of the same store once the mark is gone. */
export function withoutMark({ move, ...identity }: StoreIdentity): StoreIdentity {
  return { ...identity, schema: move?.schema ?? identity.schema };
}

/** Throws OperatorError, with the remedy, for a store that a log is leaving, has left, or has not reached yet. */
export function assertNotMoving(where: string, { move }: StoreIdentity): void {
  if (move === undefined) return;
  const since = toRfc3339(move.begunAt);
  switch (move.state) {
    case 'leaving':
      throw new OperatorError(
        `the log in ${where} is on its way to ${move.other} since ${since}: run \`pdfseal store migrate\` again, to its end, or with --cancel`,
      );
    case 'left':
      throw new OperatorError(
        `the log has moved from ${where} to ${move.other}, where it has grown since; a daemon here would contradict it`,
        { remedy: 'use the configuration that names the other store, and keep this one only as a copy' },
      );
    case 'arriving':
      throw new OperatorError(
        `${where} does not have the whole log from ${move.other} yet: run \`pdfseal store migrate\` again, to its end`,
      );
  }
}
