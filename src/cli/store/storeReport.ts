import { INDEXES, type IndexFlaw } from '../../store/indexStore.ts';

/** The findings of a check of a store. */
export interface StoreReport {
  leaves: number;
  batches: number;
  completed: number;
  failed: number;
  waiting: number;
  /** Number of contradictions that only another copy of the store mends; the first in words, `problemsMax` at most. */
  problemCount: number;
  problems: string[];
  /** Entries that a repair mends, by index. Absent if there are problems: nothing follows from damaged data. */
  indexes?: IndexReport;
  /**
   * Whether the log sealed its current epochs; absent if that cannot be determined. `contradicted`: it sealed others, and everything else
   * is good.
   */
  epochs?: 'sealed' | 'contradicted';
  /** Number of leaves that seal missing audit records; absent if there are none. */
  records_missing?: number;
  /** Records of epochs that change nothing, in words; absent if there are none. */
  void_records?: string[];
  /** Signers of the log whose memory is unknown, in words: the store can be older than it; absent if all are known or none was queried. */
  signers_unknown?: string[];
  /** Time-stamps that ended without being renewed, in words; absent if there are none. */
  lapses?: string[];
  /** The first flaws of indexes in words, `problemsMax` at most. */
  flaws: string[];
}

/** Number of faulty entries in each index. */
export type IndexReport = Record<IndexFlaw['index'], Record<IndexFlaw['kind'], number>>;

/** Whether the store needs neither a repair nor a restore. */
export function isWhole({ problemCount, indexes }: StoreReport): boolean {
  return problemCount === 0 && indexes !== undefined && flawCount(indexes) === 0;
}

export function emptyIndexReport(): IndexReport {
  const none = () => ({ missing: 0, superfluous: 0, wrong: 0 });
  return Object.fromEntries(INDEXES.map((index) => [index, none()])) as IndexReport;
}

export function flawCount(indexes: IndexReport): number {
  return Object.values(indexes).reduce(
    (sum, { missing, superfluous, wrong }) => sum + missing + superfluous + wrong,
    0,
  );
}
