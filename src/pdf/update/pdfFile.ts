/** A PDF by its objects, each looked up when it is asked for: the file can be of any size. */
import { Budget } from '../budget.ts';
import { isObjectNumber } from '../numberSet.ts';
import { type ByteSource, bufferSource } from '../window.ts';
import {
  type Entries,
  isNamed,
  numbersOf,
  type Place,
  readSections,
  unpacked,
  type XrefSection,
} from './crossReferences.ts';
import { NotSealable } from './notSealable.ts';
import { type Node, type NodeOf, stringOf, TreeReader } from './syntaxTree.ts';

/** An object, and the source that its places are in: the file, or the data of an object stream. */
export interface PdfObject {
  number: number;
  generation: number;
  source: ByteSource;
  value: Node;
}

/** A value within an object. */
export interface Resolved {
  object: PdfObject;
  node: Node;
}
export type ResolvedOf<Kind extends Node['kind']> = { object: PdfObject; node: NodeOf<Kind> };

const HEADER = /^%PDF-\d\.\d/;
/** More objects than the planner ever asks for in an ordinary document. */
const OBJECTS_MAX = 200_000;

export class PdfFile {
  readonly source: ByteSource;
  /** The newest first. */
  readonly sections: readonly XrefSection[];
  /** Of the newest revision. */
  readonly trailer: Entries;
  readonly #budget: Budget;
  readonly #packs = new Map<number, Promise<{ data: Buffer; places: number[] }>>();
  #asked = 0;

  /** Use {@link openPdf}. */
  constructor(source: ByteSource, sections: readonly XrefSection[]) {
    this.source = source;
    this.sections = sections;
    this.trailer = sections[0]?.trailer ?? new Map();
    this.#budget = Budget.for(source.bytes);
  }

  /** The lowest number that no object has. */
  get size(): number {
    const sizes = this.sections.map(({ trailer }) => numbersOf(trailer.get('Size'))?.[0] ?? Number.NaN);
    const size = Math.max(...sizes);
    if (!isObjectNumber(size)) throw new NotSealable('its trailers do not say how many objects there are');
    return size;
  }

  /** The object that a reference means; undefined for null. Throws NotSealable if it cannot be told. */
  async object({
    number,
    generation,
  }: {
    number: number;
    generation: number;
  }): Promise<PdfObject | undefined> {
    this.#asked += 1;
    if (this.#asked > OBJECTS_MAX) throw new NotSealable('it refers to more objects than any document needs');
    const place = this.#placeOf(number);
    if (place === undefined) return undefined;
    if ('offset' in place) return this.#plain(number, generation, place);
    if (generation !== 0) throw new NotSealable(`object ${number} is referred to with a wrong generation`);
    const { data, places } = await this.#pack(place.stream);
    const at = places[2 * place.index] === number ? places[2 * place.index + 1] : undefined;
    if (at === undefined) throw new NotSealable(`object ${number} is not where its cross-reference says`);
    const source = bufferSource(data);
    return { number, generation: 0, source, value: new TreeReader(source, at, `object ${number}`).value() };
  }

  /** The value itself, or what it refers to; undefined for null, and for what is not there. */
  async follow(found: Resolved | undefined): Promise<Resolved | undefined> {
    let last = found;
    for (let steps = 0; last?.node.kind === 'reference'; steps += 1) {
      if (steps > 10) throw new NotSealable('its references form a circle');
      const object = await this.object(last.node);
      last = object && { object, node: object.value };
    }
    return last?.node.kind === 'null' ? undefined : last;
  }

  /** The entry of a dictionary, followed. */
  entry({ object, node }: ResolvedOf<'dictionary'>, key: string): Promise<Resolved | undefined> {
    const value = node.entries.get(key);
    return this.follow(value && { object, node: value });
  }

  /** The entry of a dictionary, which must be of that kind if it is there. Throws NotSealable. */
  async entryOf<Kind extends Node['kind']>(
    of: ResolvedOf<'dictionary'>,
    key: string,
    kind: Kind,
  ): Promise<ResolvedOf<Kind> | undefined> {
    const found = await this.entry(of, key);
    return found && requireKind(found, kind, `its /${key}`);
  }

  /** Each item of an array, followed. */
  async *items({ object, node }: ResolvedOf<'array'>): AsyncIterable<Resolved | undefined> {
    for (const item of node.items) yield await this.follow({ object, node: item });
  }

  /** The bytes that a string stands for, one character each. */
  text({ object, node: { start, end } }: ResolvedOf<'string'>): string {
    return stringOf(object.source.read(start, end - start).toString('latin1'));
  }

  /** The decoded data of an object that is a stream. */
  async data({ object }: ResolvedOf<'dictionary'>): Promise<Buffer> {
    const { number, source, value } = object;
    const name = `the stream of object ${number}`;
    if (value.kind !== 'dictionary') throw new NotSealable(`${name} is damaged`);
    const reader = new TreeReader(source, value.end, name);
    const node = value.entries.get('Length');
    const length = await this.follow(node && { object, node });
    return unpacked(source, reader, value.entries, name, this.#budget, length && numbersOf(length.node)?.[0]);
  }

  #placeOf(number: number): Place | undefined {
    for (const [n, section] of this.sections.entries()) {
      const place = section.find(number);
      const hidden = isHybrid(section) ? this.sections[n + 1]?.find(number) : undefined;
      if (typeof place === 'object' && typeof hidden === 'object')
        throw new NotSealable(`object ${number} has two places in one revision`);
      // In a hybrid file, the table has hidden objects as free.
      const found = place === 'free' && hidden !== undefined ? hidden : place;
      if (found === 'free') return undefined;
      if (found !== undefined) return found;
    }
    return undefined;
  }

  #plain(number: number, generation: number, place: { offset: number; generation: number }): PdfObject {
    const reader = new TreeReader(this.source, place.offset, `object ${number}`);
    const isThere =
      place.generation === generation &&
      reader.natural() === number &&
      reader.natural() === generation &&
      reader.takes('obj');
    if (!isThere) throw new NotSealable(`object ${number} is not where its cross-reference says`);
    const value = reader.value();
    return { number, generation, source: this.source, value };
  }

  #pack(number: number): Promise<{ data: Buffer; places: number[] }> {
    const pack = this.#packs.get(number) ?? this.#unpack(number);
    this.#packs.set(number, pack);
    return pack;
  }

  async #unpack(number: number): Promise<{ data: Buffer; places: number[] }> {
    const place = this.#placeOf(number);
    const object = place && 'offset' in place ? this.#plain(number, 0, place) : undefined;
    if (
      object === undefined ||
      object.value.kind !== 'dictionary' ||
      !isNamed(object.value.entries.get('Type'), 'ObjStm')
    )
      throw new NotSealable(`object ${number} is not an object stream`);
    const { entries } = object.value;
    const [count] = numbersOf(entries.get('N')) ?? [];
    const [first] = numbersOf(entries.get('First')) ?? [];
    const data = await this.data({ object, node: object.value });
    const reader = new TreeReader(bufferSource(data), 0, `the object stream ${number}`);
    if (count === undefined || first === undefined || first > data.length) return reader.refuse('is damaged');
    const places: number[] = [];
    for (let n = 0; n < count; n += 1) places.push(reader.natural(), first + reader.natural());
    return { data, places };
  }
}

function isHybrid({ form, trailer }: XrefSection): boolean {
  return form === 'table' && trailer.has('XRefStm');
}

/** Throws NotSealable. */
export function requireKind<Kind extends Node['kind']>(
  found: Resolved,
  kind: Kind,
  name: string,
): ResolvedOf<Kind> {
  if (found.node.kind !== kind)
    throw new NotSealable(`${name} is not ${kind === 'array' ? 'an array' : `a ${kind}`}`);
  return found as ResolvedOf<Kind>;
}

/** Reads the cross-references. Throws NotSealable. */
export async function openPdf(source: ByteSource): Promise<PdfFile> {
  if (!HEADER.test(source.read(0, 16).toString('latin1')))
    throw new NotSealable('%PDF- is not its beginning');
  return new PdfFile(source, await readSections(source));
}
