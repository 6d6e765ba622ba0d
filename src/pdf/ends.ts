import type { Extent } from './images.ts';
import type { Reference, Value } from './objects.ts';
import { lengthsOf } from './streams.ts';
import { afterWhitespace } from './syntax.ts';
import { type ByteSource, Window } from './window.ts';

/** The end of a stream's data, for readers that find the end in different ways. */
export interface DataExtent extends Extent {
  /** The furthest end that any reader finds. */
  furthest: number;
  /** Whether the dictionary states the end, without ambiguity. */
  isCertain: boolean;
}

/** The end is usually near. */
const READ_BYTES_MIN = 1024;
const READ_BYTES_MAX = 256 * 1024;
const END = 'endstream';

/** Finds the ends of streams. Their dictionaries may state no end, or a wrong one. */
export class StreamEnds {
  readonly #source: ByteSource;
  readonly #window: Window;
  readonly #valuesOf: (reference: Reference) => readonly Value[];
  readonly #spend: (bytes: number) => void;
  /** The result of the last search: there is no match between these two positions. */
  #searched = { from: 0, found: -1 };

  /** `spend` is called with the number of bytes searched. */
  constructor(
    source: ByteSource,
    valuesOf: (reference: Reference) => readonly Value[],
    spend: (bytes: number) => void,
  ) {
    this.#source = source;
    this.#window = new Window(source);
    this.#valuesOf = valuesOf;
    this.#spend = spend;
  }

  /** The extent of the data that begins at `start`. Throws Undecodable for an invalid length. */
  find(start: number, length: Value): DataExtent {
    const lengths = lengthsOf(length, this.#valuesOf);
    const told = new Set(lengths.map((bytes) => this.#endAfter(start + bytes)).filter((end) => end >= 0));
    if (told.size === 0) {
      // Streams come in order, so no part is searched twice.
      const { from, found } = this.#searched;
      if (found < start || start < from) this.#searched = { from: start, found: this.#search(start) };
    }
    const end = told.size > 0 ? Math.min(...told) : this.#searched.found;
    const furthest = Math.max(end, ...lengths.map((bytes) => Math.min(start + bytes, this.#source.bytes)));
    return { start, end, furthest, isCertain: told.size === 1 };
  }

  /** The position of `endobj` after an `endstream`; undefined if something else is there. */
  objectEnd(endstream: number): number | undefined {
    const end = afterWhitespace(this.#window, endstream + END.length);
    return this.#window.holds(end, 'endobj') ? end : undefined;
  }

  /** The position of the word that ends data, after white space; -1 if the word is not there. */
  #endAfter(position: number): number {
    if (position > this.#source.bytes) return -1;
    const end = afterWhitespace(this.#window, position);
    return this.#window.holds(end, END) ? end : -1;
  }

  /** The next position from `start`, or the end of the file. */
  #search(start: number): number {
    let bytes = READ_BYTES_MIN;
    for (let position = start; position < this.#source.bytes; ) {
      const data = this.#source.read(position, bytes + END.length - 1);
      this.#spend(data.length);
      const at = data.indexOf(END);
      if (at >= 0) return position + at;
      position += bytes;
      bytes = Math.min(2 * bytes, READ_BYTES_MAX);
    }
    return this.#source.bytes;
  }
}
