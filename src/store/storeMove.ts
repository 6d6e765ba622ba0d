/**
 * In a store while a log moves from it to another, or to it. At every moment a daemon starts on one of the two at most: first the store that
 * is left is marked, then the other is made, filled and compared; then the first is `left`, for ever; and only then the other loses its mark.
 * Two that grow from the same log would contradict each other.
 */
export interface StoreMove {
  state: 'leaving' | 'left' | 'arriving';
  /** The same in both stores. */
  id: string;
  /** The other store, as its configuration names it. */
  other: string;
  /** When it began, milliseconds since the epoch. */
  begunAt: number;
  /** Of the audit record with which it began. */
  concludes: number;
  /** The layout of the store, in the one that the log leaves. */
  schema?: number;
}
