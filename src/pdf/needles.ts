/** Bytes of a needle that the tables compare. */
const WINDOW_BYTES = 8;

/** A needle that was found, and its position. */
export interface Hit {
  needle: number;
  at: number;
}

/**
 * Finds many needles in one pass (Wu and Manber, 1994): for every pair of bytes, a table gives the distance to the end of any needle's
 * window, so most bytes are never read. Needles must have at least eight bytes.
 */
export class NeedleSearch {
  readonly #needles: readonly Buffer[];
  /** For each pair of bytes, how many bytes can be skipped; 0 if a window ends with this pair. */
  readonly #shifts = new Uint8Array(1 << 16).fill(WINDOW_BYTES - 1);
  readonly #endingWith = new Map<number, number[]>();

  constructor(needles: readonly Buffer[]) {
    this.#needles = needles;
    for (const [needle, window] of needles.entries()) {
      for (let i = 1; i < WINDOW_BYTES; i += 1) {
        const block = window.readUInt16BE(i - 1);
        this.#shifts[block] = Math.min(this.#shifts[block] ?? 0, WINDOW_BYTES - 1 - i);
      }
      const last = window.readUInt16BE(WINDOW_BYTES - 2);
      this.#endingWith.set(last, [...(this.#endingWith.get(last) ?? []), needle]);
    }
  }

  /** Matches that begin from `start` to `end`, in order; bytes after `end` are read only to complete a match. */
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

/** Every position from `start` to `end` at which the needle begins. */
export function* positionsOf(needle: string, data: Buffer, start: number, end: number): Iterable<number> {
  for (let at = data.indexOf(needle, start); at >= 0 && at < end; at = data.indexOf(needle, at + 1)) yield at;
}
