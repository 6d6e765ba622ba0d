/** The chain of cross-reference sections, which tells where each object is (ISO 32000-2, 7.5.4 to 7.5.8). */
import { Budget } from '../budget.ts';
import { NotStrippable, Undecodable } from '../notStrippable.ts';
import { type Dictionary, OTHER, type Value } from '../objects.ts';
import { decoded, encodingOf } from '../streams.ts';
import { afterWhitespace, dataStart } from '../syntax.ts';
import { type ByteSource, Window } from '../window.ts';
import { NotSealable } from './notSealable.ts';
import { type Node, TreeReader } from './syntaxTree.ts';

/** Where an object is: at an offset of the file, or in an object stream. */
export type Place = { offset: number; generation: number } | { stream: number; index: number };
export type Entries = ReadonlyMap<string, Node>;

export interface XrefSection {
  /** Its offset, to which `startxref` or `/Prev` points. */
  at: number;
  form: 'table' | 'stream';
  trailer: Entries;
  find(number: number): Place | 'free' | undefined;
}

const TAIL_BYTES = 1024;
const LAST_LINES = /^startxref[\0\t\n\f\r ]+(\d{1,15})[\0\t\n\f\r ]+%%EOF/;
const ENTRY_BYTES = 20;
const ENTRY = /^(\d{10}) (\d{5}) ([nf])(?: \r| \n|\r\n)$/;
/** More revisions than any document has. */
const SECTIONS_MAX = 1000;
const PARTS_MAX = 100_000;
const PACKED_BYTES_MAX = 64 << 20;
const UNPACKED_BYTES_MAX = 256 << 20;

/** Reads the sections, the newest first. Throws NotSealable. */
export async function readSections(source: ByteSource): Promise<XrefSection[]> {
  const sections: XrefSection[] = [];
  const visited = new Set<number>();
  for (let at: number | undefined = lastSection(source); at !== undefined; ) {
    if (visited.has(at) || visited.size === SECTIONS_MAX)
      throw new NotSealable('its cross-reference sections form a circle, or are too many');
    visited.add(at);
    const section = await readSection(source, at);
    sections.push(section);
    // The objects that older readers do not see: they count before those of earlier revisions (7.5.8.4).
    const hidden = section.form === 'table' ? offsetIn(section.trailer, 'XRefStm') : undefined;
    if (hidden !== undefined) sections.push(await readStream(source, hidden));
    at = offsetIn(section.trailer, 'Prev');
  }
  return sections;
}

/** The offset at the end of the file. What follows %%EOF is ignored as by all readers. */
function lastSection(source: ByteSource): number {
  const from = Math.max(0, source.bytes - TAIL_BYTES);
  const tail = source.read(from, TAIL_BYTES).toString('latin1');
  const lines = tail.slice(Math.max(0, tail.lastIndexOf('startxref')));
  const found = LAST_LINES.exec(lines);
  if (found === null || lines.indexOf('%%EOF') !== lines.lastIndexOf('%%EOF'))
    throw new NotSealable('its last lines do not say where its cross-references are');
  return Number(found[1]);
}

function offsetIn(trailer: Entries, key: 'Prev' | 'XRefStm'): number | undefined {
  const value = trailer.get(key);
  if (value === undefined || value.kind === 'null') return undefined;
  if (value.kind === 'number' && Number.isSafeInteger(value.value) && value.value >= 0) return value.value;
  throw new NotSealable(`its cross-references have a /${key} that is not an offset`);
}

async function readSection(source: ByteSource, at: number): Promise<XrefSection> {
  const reader = new TreeReader(source, at, `the cross-reference section at byte ${at}`);
  if (at >= source.bytes) reader.refuse('is missing');
  return reader.takes('xref') ? readTable(source, at, reader) : readStream(source, at);
}

/** Reads the headings of the subsections only: entries are read when they are asked for. */
function readTable(source: ByteSource, at: number, reader: TreeReader): XrefSection {
  const window = new Window(source, ENTRY_BYTES * 8);
  const parts: { first: number; count: number; at: number }[] = [];
  let next = reader;
  while (!next.takes('trailer')) {
    const [first, count] = [next.natural(), next.natural()];
    const entries = afterWhitespace(window, next.position);
    parts.push({ first, count, at: entries });
    if (parts.length > PARTS_MAX) next.refuse('has too many parts');
    next = new TreeReader(source, entries + count * ENTRY_BYTES, `the cross-reference table at byte ${at}`);
  }
  const trailer = next.value();
  if (trailer.kind !== 'dictionary') return next.refuse('has no trailer');
  const find = (number: number): Place | 'free' | undefined => {
    const part = parts.find(({ first, count }) => number >= first && number < first + count);
    if (part === undefined) return undefined;
    const entry = source.read(part.at + (number - part.first) * ENTRY_BYTES, ENTRY_BYTES).toString('latin1');
    const [, offset, generation, use] =
      ENTRY.exec(entry) ?? next.refuse(`has a damaged entry for object ${number}`);
    return use === 'f' ? 'free' : { offset: Number(offset), generation: Number(generation) };
  };
  return { at, form: 'table', trailer: trailer.entries, find };
}

async function readStream(source: ByteSource, at: number): Promise<XrefSection> {
  const name = `the cross-reference stream at byte ${at}`;
  const reader = new TreeReader(source, at, name);
  reader.natural();
  reader.natural();
  if (!reader.takes('obj')) reader.refuse('is damaged');
  const value = reader.value();
  if (value.kind !== 'dictionary' || !isNamed(value.entries.get('Type'), 'XRef'))
    return reader.refuse('is damaged');
  const { entries } = value;
  const data = await unpacked(source, reader, entries, name, Budget.for(source.bytes));
  const [typeBytes = 0, placeBytes = 0, restBytes = 0] =
    numbersOf(entries.get('W')) ?? reader.refuse('has no /W');
  const size = numbersOf(entries.get('Size'))?.[0] ?? reader.refuse('has no /Size');
  const index = entries.has('Index')
    ? (numbersOf(entries.get('Index')) ?? reader.refuse('has no /Index'))
    : [0, size];
  const bytes = typeBytes + placeBytes + restBytes;
  const counts = index.filter((_, n) => n % 2 === 1).reduce((sum, count) => sum + count, 0);
  if (
    bytes === 0 ||
    [typeBytes, placeBytes, restBytes].some((each) => each > 7) ||
    data.length < counts * bytes
  )
    return reader.refuse('has fewer entries than it says');
  const find = (number: number): Place | 'free' | undefined => {
    for (let n = 0, before = 0; n < index.length; before += index[n + 1] ?? 0, n += 2) {
      const nth = number - (index[n] ?? 0);
      if (nth < 0 || nth >= (index[n + 1] ?? 0)) continue;
      const entry = (before + nth) * bytes;
      const type = typeBytes === 0 ? 1 : uintAt(data, entry, typeBytes);
      const place = uintAt(data, entry + typeBytes, placeBytes);
      const rest = uintAt(data, entry + typeBytes + placeBytes, restBytes);
      if (type === 0) return 'free';
      if (type === 1) return { offset: place, generation: rest };
      if (type === 2) return { stream: place, index: rest };
      return undefined; // an unknown type stands for null
    }
    return undefined;
  };
  return { at, form: 'stream', trailer: entries, find };
}

/** Not with bit operations: an offset can have 40 bits. */
function uintAt(data: Buffer, at: number, bytes: number): number {
  let value = 0;
  for (let n = 0; n < bytes; n += 1) value = value * 256 + (data[at + n] ?? 0);
  return value;
}

export function isNamed(node: Node | undefined, name: string): boolean {
  return node?.kind === 'name' && node.value === name;
}

/** The natural numbers of an array, or a single one; undefined for anything else. */
export function numbersOf(node: Node | undefined): number[] | undefined {
  const items = node?.kind === 'array' ? node.items : node === undefined ? [] : [node];
  const numbers = items.flatMap((item) =>
    item.kind === 'number' && Number.isSafeInteger(item.value) && item.value >= 0 ? [item.value] : [],
  );
  return numbers.length === items.length && numbers.length > 0 ? numbers : undefined;
}

/** The decoded data of the stream whose dictionary has just been read. Its length and filters must be in the dictionary itself. */
export async function unpacked(
  source: ByteSource,
  reader: TreeReader,
  entries: Entries,
  name: string,
  budget: Budget,
  length = numbersOf(entries.get('Length'))?.[0],
): Promise<Buffer> {
  if (!reader.takes('stream') || length === undefined) return reader.refuse('is damaged');
  if (length > PACKED_BYTES_MAX) return reader.refuse('is larger than any needs to be');
  const window = new Window(source, 64);
  const start = dataStart(window, reader.position);
  const end = start + length;
  if (!window.holds(afterWhitespace(window, end), 'endstream')) return reader.refuse('has a wrong /Length');
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    const encoding = encodingOf(filterEntries(entries), resolved);
    if (encoding.codec !== undefined) throw new Undecodable('it is an image');
    for await (const chunk of decoded(source, { start, end }, encoding, (each) =>
      budget.spend(each.length),
    )) {
      bytes += chunk.length;
      if (bytes > UNPACKED_BYTES_MAX) return reader.refuse('is larger than any needs to be');
      chunks.push(chunk);
    }
  } catch (error) {
    if (error instanceof NotStrippable) throw new NotSealable(`${name} cannot be decoded: ${error.message}`);
    throw error;
  }
  return Buffer.concat(chunks);
}

function resolved(value: Value): Value {
  if (value === OTHER) throw new Undecodable('its filters are named in another object');
  return value;
}

/** As the filters take them. A reference counts as something that is not known. */
function filterEntries(entries: Entries): Dictionary {
  return new Map([...entries].map(([key, node]) => [key, filterValue(node)]));
}

function filterValue(node: Node): Value {
  if (node.kind === 'number') return node.value;
  if (node.kind === 'name') return `/${node.value}`;
  if (node.kind === 'array') return node.items.map(filterValue);
  if (node.kind === 'dictionary') return filterEntries(node.entries);
  return node.kind === 'null' ? undefined : OTHER;
}
