/**
 * A mark in a store while a log moves from it to another, or to it. At every moment a daemon can start on at most one of the two: first the
 * store that is left is marked, then the other is made, filled and compared; then the first is `left`, permanently; and only then the other
 * loses its mark. Two that grow from the same log would contradict each other.
 */
export interface StoreMove {
  state: 'leaving' | 'left' | 'arriving';
  /** The same in both stores. */
  id: string;
  /** The other store, as its configuration names it. */
  other: string;
  /** Time at which it began, milliseconds since the epoch. */
  begunAt: number;
  /** Number of the audit record with which it began. */
  concludes: number;
  /** The layout of the store, in the one that the log leaves. */
  schema?: number;
}
