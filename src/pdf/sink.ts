/** Collects bytes, one by one or in runs, to be taken out as a whole. */
export class Sink {
  #bytes: Buffer;
  #length = 0;

  /** `room`: initial capacity in bytes. */
  constructor(room = 64 * 1024) {
    this.#bytes = Buffer.alloc(room);
  }

  get length(): number {
    return this.#length;
  }

  push(byte: number): void {
    if (this.#length === this.#bytes.length) this.#grow(1);
    this.#bytes[this.#length] = byte;
    this.#length += 1;
  }

  append(bytes: Uint8Array): void {
    if (this.#length + bytes.length > this.#bytes.length) this.#grow(bytes.length);
    this.#bytes.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  repeat(byte: number, count: number): void {
    if (this.#length + count > this.#bytes.length) this.#grow(count);
    this.#bytes.fill(byte, this.#length, this.#length + count);
    this.#length += count;
  }

  /** Returns a copy of the content, and empties the sink. */
  take(): Buffer {
    const taken = Buffer.from(this.#bytes.subarray(0, this.#length));
    this.#length = 0;
    return taken;
  }

  #grow(bytes: number): void {
    const larger = Buffer.alloc(Math.max(2 * this.#bytes.length, this.#length + bytes));
    larger.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = larger;
  }
}
