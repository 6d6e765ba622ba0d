/** Events of the last hour and the last day, for the charts. Kept in bounded memory, and lost when the process ends. */

import { BoundedCounts, BoundedMap } from '../base/bounded.ts';

/** An interval, and the events in it. */
export interface Slot {
  /** Milliseconds since the epoch. */
  from: number;
  sealed: number;
  /** Number of jobs by the class of their duration. */
  durations: Uint32Array;
  failures: BoundedCounts;
}

export interface Span {
  name: '1h' | '24h';
  slotMs: number;
  slots: number;
}

export const SPANS: readonly [Span, Span] = [
  { name: '1h', slotMs: 10_000, slots: 360 },
  { name: '24h', slotMs: 300_000, slots: 288 },
];

/**
 * Each class ends at 2^(1/8) times the end of the one before, from a quarter of a millisecond to an hour: a percentile is accurate within 9
 * %.
 */
const CLASSES_PER_DOUBLING = 8;
const SHORTEST_MS = 0.25;
const CLASSES = 24 * CLASSES_PER_DOUBLING;
/** There are about sixty codes; any beyond these in one slot are counted together. */
const CODES_MAX = 40;
const OTHER_CODES = '(others)';

interface Kept {
  span: Span;
  /** By the time at which they begin. */
  slots: BoundedMap<number, Slot>;
  newest?: Slot;
}

/** Collects events that the daemon reports through `admin/metrics.ts`. */
export class History {
  readonly since: number;
  readonly #clock: () => number;
  readonly #kept = SPANS.map((span): Kept => {
    return { span, slots: new BoundedMap({ max: span.slots, whenFull: 'forget the oldest' }) };
  });

  constructor(clock: () => number) {
    this.#clock = clock;
    this.since = clock();
  }

  /** A client's job was sealed that many milliseconds after it was accepted. */
  sealed(durationMs: number): void {
    const place = classOf(durationMs);
    for (const slot of this.#current()) {
      slot.sealed += 1;
      slot.durations[place] = (slot.durations[place] ?? 0) + 1;
    }
  }

  /** A request or a job failed with that error code. */
  failed(code: string): void {
    for (const { failures } of this.#current()) failures.add(code);
  }

  /** The slots of a span up to now, oldest first, without gaps. The last one is still in progress. */
  slots(span: Span): Slot[] {
    const { slotMs, slots: count } = span;
    const last = Math.floor(this.#clock() / slotMs) * slotMs;
    const kept = this.#kept.find((one) => one.span === span)?.slots;
    return Array.from({ length: count }, (_, n) => {
      const from = last - (count - 1 - n) * slotMs;
      return kept?.get(from) ?? emptySlot(from);
    });
  }

  #current(): Slot[] {
    return this.#kept.map((kept) => {
      const { span, slots, newest } = kept;
      const from = Math.floor(this.#clock() / span.slotMs) * span.slotMs;
      // If the clock was set back, the newest slot continues until the clock reaches its time again.
      if (newest !== undefined && from <= newest.from) return newest;
      const slot = emptySlot(from);
      slots.set(from, slot);
      kept.newest = slot;
      return slot;
    });
  }
}

function emptySlot(from: number): Slot {
  return {
    from,
    sealed: 0,
    durations: new Uint32Array(CLASSES),
    failures: new BoundedCounts({ max: CODES_MAX, others: OTHER_CODES }),
  };
}

function classOf(durationMs: number): number {
  const place = Math.ceil(Math.log2(Math.max(durationMs, SHORTEST_MS) / SHORTEST_MS) * CLASSES_PER_DOUBLING);
  return Math.min(place, CLASSES - 1);
}

/** Totals over the slots: all seals, all failures by code, and the time within which a given share of the jobs was sealed. */
interface Totals {
  sealed: number;
  failures: [code: string, count: number][];
  percentile(share: number): number | undefined;
}

export function totalsOf(slots: readonly Slot[]): Totals {
  const durations = new Uint32Array(CLASSES);
  const failures = new Map<string, number>();
  for (const slot of slots) {
    for (const [n, count] of slot.durations.entries()) durations[n] = (durations[n] ?? 0) + count;
    for (const [code, count] of slot.failures) failures.set(code, (failures.get(code) ?? 0) + count);
  }
  const sealed = slots.reduce((sum, slot) => sum + slot.sealed, 0);
  return {
    sealed,
    failures: [...failures].sort(([, a], [, b]) => b - a),
    percentile: (share) => percentile(durations, sealed, share),
  };
}

/** In milliseconds: the end of the class that reaches that share of the jobs; undefined if there are none. */
function percentile(durations: Uint32Array, count: number, share: number): number | undefined {
  let seen = 0;
  for (const [n, jobs] of durations.entries()) {
    seen += jobs;
    if (count > 0 && seen >= share * count) return SHORTEST_MS * 2 ** (n / CLASSES_PER_DOUBLING);
  }
  return undefined;
}
