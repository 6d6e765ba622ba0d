/** Collections that clients or unauthenticated parties can fill. Each has a maximum, and defines what happens beyond it. */

interface Bound {
  max: number;
  /** The treatment of a new entry if there are already `max`. */
  whenFull: 'refuse it' | 'forget the oldest';
}

/** A Map with a maximum size. Replacing an entry does not change its age. */
export class BoundedMap<Key, Value> {
  readonly #bound: Bound;
  readonly #entries = new Map<Key, Value>();

  constructor(bound: Bound) {
    this.#bound = bound;
  }

  get size(): number {
    return this.#entries.size;
  }

  get isFull(): boolean {
    return this.#entries.size >= this.#bound.max;
  }

  get(key: Key): Value | undefined {
    return this.#entries.get(key);
  }

  has(key: Key): boolean {
    return this.#entries.has(key);
  }

  /** Returns false if the entry was refused. */
  set(key: Key, value: Value): boolean {
    if (this.isFull && !this.#entries.has(key)) {
      if (this.#bound.whenFull === 'refuse it') return false;
      for (const oldest of this.#entries.keys()) {
        this.#entries.delete(oldest);
        break;
      }
    }
    this.#entries.set(key, value);
    return true;
  }

  delete(key: Key): void {
    this.#entries.delete(key);
  }

  clear(): void {
    this.#entries.clear();
  }

  values(): Iterable<Value> {
    return this.#entries.values();
  }

  /** The oldest entry is first. */
  [Symbol.iterator](): Iterator<[Key, Value]> {
    return this.#entries[Symbol.iterator]();
  }
}

/** A Set with a maximum size. */
export class BoundedSet<Value> {
  readonly #values: BoundedMap<Value, true>;

  constructor(bound: Bound) {
    this.#values = new BoundedMap(bound);
  }

  has(value: Value): boolean {
    return this.#values.has(value);
  }

  /** Returns whether the value is in the set afterwards. */
  add(value: Value): boolean {
    return this.#values.set(value, true);
  }
}

/** Counts by name: separately for the first `max` names, and together for all others. */
export class BoundedCounts {
  readonly #counts: BoundedMap<string, number>;
  readonly #others: string;
  #ofOthers = 0;

  constructor({ max, others }: { max: number; others: string }) {
    this.#counts = new BoundedMap({ max, whenFull: 'refuse it' });
    this.#others = others;
  }

  /** Adds one, and returns the count of that name, or of the others. */
  add(name: string): number {
    const count = (this.#counts.get(name) ?? 0) + 1;
    if (this.#counts.set(name, count)) return count;
    this.#ofOthers += 1;
    return this.#ofOthers;
  }

  clear(): void {
    this.#counts.clear();
    this.#ofOthers = 0;
  }

  *[Symbol.iterator](): Iterator<[name: string, count: number]> {
    yield* this.#counts;
    if (this.#ofOthers > 0) yield [this.#others, this.#ofOthers];
  }
}

/**
 * Bytes that arrive in pieces. The pieces are copied: a body sent byte by byte would make each byte an object of 200 bytes, so a list of
 * pieces could take much more memory than the maximum number of bytes.
 */
export class BoundedBytes {
  readonly #max: number;
  #memory = Buffer.alloc(0);
  #length = 0;

  constructor(max: number) {
    this.#max = max;
  }

  get length(): number {
    return this.#length;
  }

  /** Returns false, without adding anything, if the maximum would be exceeded. */
  add(piece: Uint8Array): boolean {
    const length = this.#length + piece.length;
    if (length > this.#max) return false;
    if (length > this.#memory.length) {
      const larger = Buffer.alloc(Math.min(Math.max(length, 2 * this.#memory.length), this.#max));
      this.#memory.copy(larger, 0, 0, this.#length);
      this.#memory = larger;
    }
    this.#memory.set(piece, this.#length);
    this.#length = length;
    return true;
  }

  /** All bytes so far. */
  get bytes(): Buffer {
    return this.#memory.subarray(0, this.#length);
  }
}
