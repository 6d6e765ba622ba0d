/** Bytes that can be read at any position: of a file, or of a buffer in tests. */
export interface ByteSource {
  readonly bytes: number;
  /** `length` bytes from `position`, or as many as there are. The caller must not change them. */
  read(position: number, length: number): Buffer;
}

const WINDOW_BYTES = 64 * 1024;
/** Bytes kept before the requested one, so that looking back does not read again. */
const MARGIN_BYTES = 256;

/** A view of one piece of a source at a time, for access byte by byte. */
export class Window {
  readonly #source: ByteSource;
  #start = 0;
  #view: Buffer = Buffer.alloc(0);

  constructor(source: ByteSource) {
    this.#source = source;
  }

  /** The byte at `position`; undefined beyond the ends. */
  at(position: number): number | undefined {
    const offset = position - this.#start;
    if (offset >= 0 && offset < this.#view.length) return this.#view[offset];
    if (position < 0 || position >= this.#source.bytes) return undefined;
    this.#start = Math.max(0, position - MARGIN_BYTES);
    this.#view = this.#source.read(this.#start, WINDOW_BYTES);
    return this.#view[position - this.#start];
  }

  /** Whether the text is at `position`. */
  holds(position: number, text: string): boolean {
    for (let i = 0; i < text.length; i += 1) {
      if (this.at(position + i) !== text.charCodeAt(i)) return false;
    }
    return true;
  }
}

export function bufferSource(data: Buffer): ByteSource {
  return { bytes: data.length, read: (position, length) => data.subarray(position, position + length) };
}

/** A section of a source as a source of its own. */
export function part(source: ByteSource, { start, end }: { start: number; end: number }): ByteSource {
  const bytes = end - start;
  const read = (position: number, length: number) =>
    source.read(start + position, Math.max(0, Math.min(length, bytes - position)));
  return { bytes, read };
}
