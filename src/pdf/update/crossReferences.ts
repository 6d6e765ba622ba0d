/**
 * The chain of cross-reference sections, which says where each object is (ISO 32000-2, 7.5.4 to 7.5.8). Only what every reader reads alike
 * is accepted: if one repaired a document and another did not, they could show different objects.
 */
import type { FileText } from './fileText.ts';
import { readObject, streamData } from './indirectObject.ts';
import { NotSealable } from './notSealable.ts';
import {
  GENERATION_MAX,
  isNamed,
  type Node,
  naturalOf,
  OBJECT_NUMBER_MAX,
  type Parser,
} from './strictSyntax.ts';

/** Where an object is: at an offset of the file, or in an object stream. */
export type ObjectPlace = { offset: number; generation: number } | { stream: number; index: number };
export type Entries = ReadonlyMap<string, Node>;

/** A section, with the places of its entries one after the other. */
export interface XrefSection {
  /** Its offset, to which `startxref` or `/Prev` points. */
  at: number;
  form: 'table' | 'stream';
  trailer: Entries;
  /** The text that the trailer is in. */
  text: string;
  /** Sorted, without overlaps. `from` is the index of the first entry. */
  runs: { first: number; count: number; from: number }[];
  kinds: Uint8Array;
  places: Float64Array;
  rests: Uint32Array;
  /** The objects of a hybrid file that older readers do not see. They count before those of earlier sections (7.5.8.4). */
  hidden?: XrefSection | undefined;
}

export const KIND = { free: 0, plain: 1, packed: 2 } as const;

const TAIL_BYTES = 1024;
const LAST_LINES = /startxref[\0\t\n\f\r ]+(\d{1,13})[\0\t\n\f\r ]+%%EOF[\0\t\n\f\r ]*$/;
const ENTRY_BYTES = 20;
const ENTRY = /^(\d{10}) (\d{5}) ([nf])(?: \r| \n|\r\n)$/;
/** A multiple of an entry. */
const ENTRIES_READ_BYTES = 3200 * ENTRY_BYTES;
const SECTIONS_MAX = 1000;
const RUNS_MAX = 100_000;
const ENTRIES_MAX = 1_000_000;
const OFFSET_MAX = 2 ** 40;

/** Reads the sections, the newest first. Throws NotSealable. */
export async function readSections(file: FileText): Promise<XrefSection[]> {
  const sections: XrefSection[] = [];
  const visited = new Set<number>();
  let entries = 0;
  for (let at: number | undefined = await lastSection(file); at !== undefined; ) {
    const section = await readSection(file, at);
    const hidden = section.form === 'table' ? offsetIn(section, 'XRefStm') : undefined;
    if (hidden !== undefined) section.hidden = await readStream(file, hidden);
    // Some readers go on there.
    if (section.hidden?.trailer.has('Prev')) throw new NotSealable('its hidden cross-references name others');
    for (const one of [section, section.hidden]) {
      if (one === undefined) continue;
      if (visited.has(one.at)) throw new NotSealable('its cross-reference sections form a circle');
      visited.add(one.at);
      entries += one.kinds.length;
    }
    if (visited.size > SECTIONS_MAX || entries > ENTRIES_MAX)
      throw new NotSealable('it has more cross-references than any document needs');
    sections.push(section);
    at = offsetIn(section, 'Prev');
  }
  return sections;
}

export function placeIn(section: XrefSection, number: number): ObjectPlace | 'free' | undefined {
  const place = entryOf(section, number);
  const hidden = section.hidden && entryOf(section.hidden, number);
  if (typeof place === 'object' && hidden !== undefined)
    throw new NotSealable(`object ${number} has two places in one revision`, number);
  return typeof hidden === 'object' ? hidden : (place ?? hidden);
}

function entryOf(section: XrefSection, number: number): ObjectPlace | 'free' | undefined {
  const { runs, kinds } = section;
  let [low, high] = [0, runs.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((runs[middle]?.first ?? 0) <= number) low = middle + 1;
    else high = middle;
  }
  const run = runs[low - 1];
  if (run === undefined || number >= run.first + run.count) return undefined;
  const n = run.from + number - run.first;
  return kinds[n] === KIND.free ? 'free' : placeAt(section, n);
}

function placeAt({ kinds, places, rests }: XrefSection, n: number): ObjectPlace {
  const [place = 0, rest = 0] = [places[n], rests[n]];
  return kinds[n] === KIND.plain ? { offset: place, generation: rest } : { stream: place, index: rest };
}

/** The objects of a section, and of what it hides from older readers. */
export function* entriesOf(section: XrefSection): Iterable<{ number: number; place: ObjectPlace }> {
  for (const { first, count, from } of section.runs)
    for (let n = 0; n < count; n += 1)
      if (section.kinds[from + n] !== KIND.free)
        yield { number: first + n, place: placeAt(section, from + n) };
  if (section.hidden) yield* entriesOf(section.hidden);
}

/** The offset at the end of the file. Nothing but white space may follow. */
async function lastSection(file: FileText): Promise<number> {
  const from = Math.max(0, file.reader.size - TAIL_BYTES);
  const tail = await file.textAt(from, file.reader.size - from, 'its end');
  const found = LAST_LINES.exec(tail.slice(Math.max(0, tail.lastIndexOf('startxref'))));
  if (found === null) throw new NotSealable('its last lines do not say where its cross-references are');
  return Number(found[1]);
}

function offsetIn({ trailer }: XrefSection, key: 'Prev' | 'XRefStm'): number | undefined {
  if (!trailer.has(key)) return undefined;
  const offset = naturalOf(trailer.get(key));
  if (offset === undefined)
    throw new NotSealable(`its cross-references have a /${key} that is not an offset`);
  return offset;
}

async function readSection(file: FileText, at: number): Promise<XrefSection> {
  const name = `the cross-reference section at byte ${at}`;
  const isTable = await file.parse(at, { name }, (parser) => parser.take(/xref(?=[\t\r\n ])/y) !== undefined);
  return isTable ? readTable(file, at) : readStream(file, at);
}

async function readTable(file: FileText, at: number): Promise<XrefSection> {
  const name = `the cross-reference table at byte ${at}`;
  const section = new SectionBuilder(name);
  for (let next = at + 'xref'.length; ; ) {
    const heading = await file.parse(next, { name }, (parser, { offset, text }) => {
      parser.skipBlank();
      if (parser.take(/trailer/y)) return { trailer: trailerOf(parser), text };
      const [, first = 0, count = 0] = parser
        .expect(/(\d{1,10}) (\d{1,10}) {0,9}(?:\r\n|\n|\r)/y)
        .map(Number);
      return { first, count, from: offset + parser.position };
    });
    if (heading.trailer !== undefined)
      return section.build({ at, form: 'table', trailer: heading.trailer, text: heading.text });
    const { first, count, from } = heading;
    section.run(first, count);
    next = from + count * ENTRY_BYTES;
    for (let start = from; start < next; start += ENTRIES_READ_BYTES) {
      const length = Math.min(ENTRIES_READ_BYTES, next - start);
      const rows = await file.parse(start, { name }, (parser) => parser.characters(length), length);
      for (let row = 0; row < length; row += ENTRY_BYTES) {
        const [, offset, generation, use] =
          ENTRY.exec(rows.slice(row, row + ENTRY_BYTES)) ?? section.refuse();
        section.entry(use === 'n' ? KIND.plain : KIND.free, Number(offset), Number(generation));
      }
    }
  }
}

/** The dictionary of a trailer, without comments: some readers do not expect them there. */
function trailerOf(parser: Parser): Entries {
  parser.skipBlank();
  const trailer = parser.value();
  if (parser.hasComments || trailer.kind !== 'dictionary') return parser.refuse('has no trailer');
  return trailer.entries;
}

async function readStream(file: FileText, at: number): Promise<XrefSection> {
  const name = `the cross-reference stream at byte ${at}`;
  const section = new SectionBuilder(name);
  const object = await readObject(file, at, { name });
  const { value, text } = object;
  if (value.kind !== 'dictionary' || object.data === undefined || !isNamed(value.entries.get('Type'), 'XRef'))
    return section.refuse();
  const trailer = value.entries;
  const length = naturalOf(trailer.get('Length')) ?? section.refuse();
  const size = naturalOf(trailer.get('Size')) ?? section.refuse();
  const widths = naturals(trailer.get('W')) ?? section.refuse();
  const index = trailer.has('Index') ? (naturals(trailer.get('Index')) ?? section.refuse()) : [0, size];
  const [kindBytes = 0, placeBytes = 0, restBytes = 0] = widths;
  const bytes = kindBytes + placeBytes + restBytes;
  if (
    widths.length !== 3 ||
    kindBytes > 1 ||
    placeBytes > 6 ||
    restBytes > 4 ||
    placeBytes === 0 ||
    index.length % 2 !== 0
  )
    return section.refuse();
  const data = await streamData(file, object, length);
  let row = 0;
  for (let n = 0; n < index.length; n += 2) {
    const [first = 0, count = 0] = index.slice(n, n + 2);
    section.run(first, count);
    if (row + count * bytes > data.length) return section.refuse();
    for (const end = row + count * bytes; row < end; row += bytes) {
      const kind = kindBytes === 0 ? KIND.plain : uintAt(data, row, kindBytes);
      const place = uintAt(data, row + kindBytes, placeBytes);
      section.entry(kind, place, uintAt(data, row + kindBytes + placeBytes, restBytes));
    }
  }
  if (row !== data.length) return section.refuse('has more entries than it says');
  return section.build({ at, form: 'stream', trailer, text });
}

/** Not with bit operations: an offset can have 40 bits. */
function uintAt(data: Uint8Array, at: number, bytes: number): number {
  let value = 0;
  for (let n = 0; n < bytes; n += 1) value = value * 256 + (data[at + n] ?? 0);
  return value;
}

/** The natural numbers of an array; undefined for anything else. */
function naturals(node: Node | undefined): number[] | undefined {
  if (node?.kind !== 'array' || node.items.length > 2 * RUNS_MAX) return undefined;
  const numbers = node.items.map(naturalOf);
  return numbers.includes(undefined) ? undefined : (numbers as number[]);
}

/** Collects the entries of a section, and checks each. */
class SectionBuilder {
  readonly #name: string;
  readonly #runs: XrefSection['runs'] = [];
  readonly #kinds: number[] = [];
  readonly #places: number[] = [];
  readonly #rests: number[] = [];

  constructor(name: string) {
    this.#name = name;
  }

  refuse(why = 'is damaged'): never {
    throw new NotSealable(`${this.#name} ${why}`);
  }

  run(first: number, count: number): void {
    if (first + count > OBJECT_NUMBER_MAX + 1) this.refuse('has numbers that not all readers accept');
    if (this.#runs.length === RUNS_MAX || this.#kinds.length + count > ENTRIES_MAX)
      this.refuse('has more entries than any document needs');
    this.#runs.push({ first, count, from: this.#kinds.length });
  }

  entry(kind: number, place: number, rest: number): void {
    const run = this.#runs.at(-1) as XrefSection['runs'][number];
    const number = run.first + this.#kinds.length - run.from;
    const isSane =
      kind === KIND.free ||
      (number > 0 &&
        (kind === KIND.plain
          ? place > 0 && place < OFFSET_MAX && rest <= GENERATION_MAX
          : kind === KIND.packed && place > 0 && place <= OBJECT_NUMBER_MAX));
    if (!isSane) this.refuse(`has a damaged entry for object ${number}`);
    this.#kinds.push(kind);
    this.#places.push(place);
    this.#rests.push(rest);
  }

  build({ at, form, trailer, text }: Pick<XrefSection, 'at' | 'form' | 'trailer' | 'text'>): XrefSection {
    // Some readers take such numbers for those from 0.
    const isShifted = (run: XrefSection['runs'][number]) =>
      run.first === 1 && run.count > 0 && this.#kinds[run.from] === KIND.free;
    if (form === 'table' && this.#runs.some(isShifted)) this.refuse('begins at 1, with the entry of 0');
    const runs = this.#runs.filter(({ count }) => count > 0).sort((a, b) => a.first - b.first);
    if (runs.some((run, n) => n > 0 && run.first < endOf(runs[n - 1])))
      this.refuse('has two entries for one object');
    const size = naturalOf(trailer.get('Size')) ?? this.refuse('has no /Size');
    if (endOf(runs.at(-1)) > size) this.refuse('has an entry beyond its /Size');
    const [kinds, places, rests] = [
      Uint8Array.from(this.#kinds),
      Float64Array.from(this.#places),
      Uint32Array.from(this.#rests),
    ];
    return { at, form, trailer, text, runs, kinds, places, rests };
  }
}

/** The lowest number above those of its entries. */
export function endOfSection({ runs }: XrefSection): number {
  return endOf(runs.at(-1));
}

function endOf(run: XrefSection['runs'][number] | undefined): number {
  return run === undefined ? 0 : run.first + run.count;
}
