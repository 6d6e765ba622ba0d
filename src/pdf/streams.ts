import { type Chunks, FILTERS, type Filter } from './filters.ts';
import type { Extent } from './images.ts';
import { isWhitespace } from './lexer.ts';
import { NotStrippable } from './notStrippable.ts';
import { type Dictionary, Reference, type Value } from './objects.ts';
import { type ByteSource, Window } from './window.ts';

/** The entries of a stream's dictionary that tell how to read it (ISO 32000-2, table 5), with the abbreviations readers take. */
export const STREAM_KEYS: readonly string[] = ['Length', 'Filter', 'F', 'DecodeParms', 'DP'];

/** How a stream is encoded: what can be undone, and the image codec (or whatever else) that is left after that. */
export interface Encoding {
  filters: { filter: Filter; parameters: Dictionary }[];
  codec: string | undefined;
}

const FILTERS_MAX = 8;
const READ_BYTES = 256 * 1024;

export function encodingOf(dictionary: Dictionary): Encoding {
  const names = listOf(dictionary.get('Filter') ?? dictionary.get('F'));
  const parameters = listOf(dictionary.get('DecodeParms') ?? dictionary.get('DP'));
  if (names.length > FILTERS_MAX)
    throw new NotStrippable('a stream of it goes through more filters than any needs');
  const encoding: Encoding = { filters: [], codec: undefined };
  for (const [i, name] of names.entries()) {
    const filter = FILTERS.get(nameOf(name));
    if (filter === undefined) return { ...encoding, codec: nameOf(name) };
    const own = parameters[i];
    encoding.filters.push({ filter, parameters: own instanceof Map ? own : new Map() });
  }
  return encoding;
}

/** A name that stands in another object is nearly always this one; where it is not, nothing comes of it. */
function nameOf(value: Value): string {
  if (value instanceof Reference) return '/FlateDecode';
  return typeof value === 'string' ? value : '';
}

function listOf(value: Value): Value[] {
  if (value === undefined) return [];
  return Array.isArray(value) ? value : [value];
}

/** The bytes of a stream with every filter undone that can be. `expand` is told of every byte that any of them makes. */
export function decoded(
  source: ByteSource,
  extent: Extent,
  { filters }: Encoding,
  expand: (bytes: number) => void,
): Chunks {
  return filters.reduce<Chunks>(
    (input, { filter, parameters }) => counted(filter(input, parameters), expand),
    raw(source, extent),
  );
}

async function* counted(chunks: Chunks, count: (bytes: number) => void): Chunks {
  for await (const chunk of chunks) {
    count(chunk.length);
    yield chunk;
  }
}

async function* raw(source: ByteSource, { start, end }: Extent): Chunks {
  for (let position = start; position < end; position += READ_BYTES) {
    yield source.read(position, Math.min(READ_BYTES, end - position));
  }
}

/** Where streams end, which their dictionaries do not always tell, nor truthfully. */
export class StreamEnds {
  readonly #source: ByteSource;
  readonly #window: Window;
  readonly #spend: (bytes: number) => void;
  #lengths: Map<number, number[]> | undefined;

  /** `spend` is told how many bytes were searched. */
  constructor(source: ByteSource, spend: (bytes: number) => void) {
    this.#source = source;
    this.#window = new Window(source);
    this.#spend = spend;
  }

  /** Of the word `endstream` that ends the data which begins at `start`; undefined if there is none. */
  find(start: number, length: Value): number | undefined {
    for (const bytes of this.#candidates(length)) {
      const end = this.#afterWhitespace(start + bytes);
      if (this.#window.holds(end, 'endstream')) return end;
    }
    return this.#search(start);
  }

  /** Of the word `endobj` after an `endstream`; undefined if something else is there. */
  objectEnd(endstream: number): number | undefined {
    const end = this.#afterWhitespace(endstream + 'endstream'.length);
    return this.#window.holds(end, 'endobj') ? end : undefined;
  }

  #candidates(length: Value): readonly number[] {
    if (typeof length === 'number') return [length];
    if (!(length instanceof Reference)) return [];
    this.#lengths ??= this.#readLengths();
    return this.#lengths.get(length.objectNumber) ?? [];
  }

  /** Every object that is a number: of which a Length is one, whatever the revision. */
  #readLengths(): Map<number, number[]> {
    const lengths = new Map<number, number[]>();
    const pattern =
      /(\d{1,8})[\0\t\n\f\r ]+\d{1,5}[\0\t\n\f\r ]+obj[\0\t\n\f\r ]+(\d{1,15})[\0\t\n\f\r ]+endobj/g;
    let kept = 0;
    for (let position = 0; position < this.#source.bytes; position += READ_BYTES) {
      const text = this.#source.read(position, READ_BYTES + OVERLAP_BYTES).toString('latin1');
      for (const [, number, length] of text.matchAll(pattern)) {
        const known = lengths.get(Number(number)) ?? [];
        if (!known.includes(Number(length))) known.push(Number(length));
        lengths.set(Number(number), known);
        kept += 1;
        if (kept > LENGTHS_MAX)
          throw new NotStrippable('it has more stream lengths apart than any document needs');
      }
    }
    this.#spend(this.#source.bytes);
    return lengths;
  }

  #search(start: number): number | undefined {
    for (let position = start; position < this.#source.bytes; position += READ_BYTES) {
      const data = this.#source.read(position, READ_BYTES + OVERLAP_BYTES);
      const at = data.indexOf('endstream');
      this.#spend(at < 0 ? data.length : at);
      if (at >= 0) return position + at;
    }
    return undefined;
  }

  #afterWhitespace(position: number): number {
    let after = position;
    while (after < position + WHITESPACE_BYTES_MAX && isWhitespace(this.#window.at(after))) after += 1;
    return after;
  }
}

const OVERLAP_BYTES = 256;
const LENGTHS_MAX = 2_000_000;
const WHITESPACE_BYTES_MAX = 64;
