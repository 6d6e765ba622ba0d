/** Bytes of a needle that are compared by the tables. */
const WINDOW_BYTES = 8;

/** One of the needles, and where it begins. */
export interface Hit {
  needle: number;
  at: number;
}

/**
 * Finds many needles in one pass (Wu and Manber, 1994): a table tells for two bytes how far the end of any needle's window is, so
 * most bytes are never looked at. Needles have eight bytes at least.
 */
export class NeedleSearch {
  readonly #needles: readonly Buffer[];
  /** By two bytes, how many bytes may be passed over; 0 where windows end with these two. */
  readonly #shifts = new Uint8Array(1 << 16).fill(WINDOW_BYTES - 1);
  readonly #endingWith = new Map<number, number[]>();

  constructor(needles: readonly Buffer[]) {
    this.#needles = needles;
    for (const [needle, bytes] of needles.entries()) this.#add(needle, bytes.subarray(0, WINDOW_BYTES));
  }

  /** In order, those that begin from `start` to `end`; what follows `end` is looked at only to see them whole. */
  find(data: Uint8Array, start = 0, end = data.length): Hit[] {
    const hits: Hit[] = [];
    const shifts = this.#shifts;
    const limit = Math.min(data.length, end + WINDOW_BYTES - 1);
    for (let last = start + WINDOW_BYTES - 1; last < limit; ) {
      const block = ((data[last - 1] as number) << 8) | (data[last] as number);
      const shift = shifts[block] as number;
      if (shift === 0) {
        this.#compare(data, last - WINDOW_BYTES + 1, block, hits);
        last += 1;
      } else last += shift;
    }
    return hits;
  }

  #add(needle: number, window: Buffer): void {
    for (let i = 1; i < WINDOW_BYTES; i += 1) {
      const block = window.readUInt16BE(i - 1);
      this.#shifts[block] = Math.min(this.#shifts[block] ?? 0, WINDOW_BYTES - 1 - i);
      if (i === WINDOW_BYTES - 1)
        this.#endingWith.set(block, [...(this.#endingWith.get(block) ?? []), needle]);
    }
  }

  #compare(data: Uint8Array, at: number, block: number, hits: Hit[]): void {
    for (const needle of this.#endingWith.get(block) ?? []) {
      if (holds(data, at, this.#needles[needle] as Buffer)) hits.push({ needle, at });
    }
  }
}

function holds(data: Uint8Array, at: number, bytes: Buffer): boolean {
  for (let i = 0; i < bytes.length; i += 1) if (data[at + i] !== bytes[i]) return false;
  return true;
}

/** Every position of one needle that begins from `start` to `end`. */
export function* positionsOf(needle: string, data: Buffer, start: number, end: number): Iterable<number> {
  for (let at = data.indexOf(needle, start); at >= 0 && at < end; at = data.indexOf(needle, at + 1)) yield at;
}
