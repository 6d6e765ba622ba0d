import { toRfc3339 } from '../base/clock.ts';
import { OperatorError } from '../base/errors.ts';

/** Entries that follow from other entries of the store; an index comes after those it follows from. */
export const INDEXES = [
  'tiles',
  'outcomes',
  'sources',
  'waiting',
  'scopes',
  'lookups',
  'expiry',
  'quotas',
  'endpoint_revisions',
  'outbox',
  'dead_letters',
  'tallies',
] as const;

export interface IndexStore {
  /**
   * Compares every index with the entries it follows from, which must be whole. Writes of a running daemon meanwhile are not flaws. Memory
   * grows with the number of flaws, not with the store.
   */
  check(): AsyncIterable<IndexFlaw>;

  /**
   * Mends the findings of {@link check}, in bounded transactions, while no other process uses the store. Until `isGood` returns true the
   * store bears a mark and opens only for another repair, which continues this one. Returns the result of `isGood`.
   */
  repair(options: RepairOptions): Promise<boolean>;
}

/** An entry of an index that does not follow from the rest of the store. */
export interface IndexFlaw {
  index: (typeof INDEXES)[number];
  kind: 'missing' | 'superfluous' | 'wrong';
  /** The job, tile or endpoint of the entry; or its key in hex. */
  entry: string;
}

/** A mark in the store while its indexes are under repair, or after a repair was interrupted. */
export interface RepairMark {
  begunAt: number;
  /** Location of the copy of the store from before; absent if none was made. */
  backup?: string;
}

export interface RepairOptions {
  /** Location of a copy of the store. A repair that continues another keeps the copy of the first. */
  backup?: string;
  /** Called for each flaw once it is mended on disk. */
  onMended(flaw: IndexFlaw): void;
  isGood(): Promise<boolean>;
}

/** Throws OperatorError for a store whose repair was interrupted. */
export function assertNotUnderRepair(path: string, { repair }: { repair?: RepairMark }): void {
  if (repair === undefined) return;
  throw new OperatorError(
    `the indexes of ${path} are under repair since ${toRfc3339(repair.begunAt)}: run \`pdfseal repair-index\` again, to its end`,
  );
}
