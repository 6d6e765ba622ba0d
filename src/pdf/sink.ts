/** Bytes that are put together one by one or by the run, and taken away as a whole. */
export class Sink {
  #bytes: Buffer;
  #length = 0;

  /** With room for so many bytes at first. */
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

  /** A copy of what is in it; then it is empty. */
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
