/** A PDF by its objects, each looked up when it is asked for: the file can be of any size. */
import { toBinary } from '../../base/bytes.ts';
import { type ObjectPlace, placeIn, readSections, type XrefSection } from './crossReferences.ts';
import { FileText, type PdfReader } from './fileText.ts';
import { endOfStream, type PdfObject, readObject, streamData } from './indirectObject.ts';
import { NotSealable } from './notSealable.ts';
import { isNamed, type Node, type NodeOf, naturalOf, Parser, stringOf } from './strictSyntax.ts';

/** A value, and the object that it is in. */
export interface FoundValue {
  object: PdfObject;
  node: Node;
}
export type FoundOf<Kind extends Node['kind']> = { object: PdfObject; node: NodeOf<Kind> };

/** The objects of an object stream: their numbers, and where they begin in its text. */
interface Pack {
  text: string;
  numbers: number[];
  starts: number[];
}

const HEADER = /^%PDF-\d\.\d/;
const REFERENCES_MAX = 10;
/** Small objects that were asked for last. */
const KEPT_MAX = 16;
const KEPT_CHARS_MAX = 4096;

export class PdfFile {
  readonly text: FileText;
  /** The newest first. */
  readonly sections: readonly XrefSection[];
  readonly #packs = new Map<number, Pack>();
  readonly #kept = new Map<number, PdfObject>();
  readonly #lengths = new Map<number, number>();

  /** Use {@link openPdf}. */
  constructor(text: FileText, sections: readonly XrefSection[]) {
    this.text = text;
    this.sections = sections;
  }

  /** Where an object is now; undefined if there is none. */
  placeOf(number: number): ObjectPlace | undefined {
    this.text.spend(this.sections.length);
    for (const section of this.sections) {
      const place = placeIn(section, number);
      if (place !== undefined) return place === 'free' ? undefined : place;
    }
    return undefined;
  }

  /** Whether the object that a reference means is there. */
  has({ number, generation }: NodeOf<'reference'>): boolean {
    const place = this.placeOf(number);
    return place !== undefined && generation === ('offset' in place ? place.generation : 0);
  }

  /** The object that a reference means; undefined for null. Throws NotSealable if that is not certain. */
  async object({ number, generation }: NodeOf<'reference'>): Promise<PdfObject | undefined> {
    const place = this.placeOf(number);
    if (place === undefined) return undefined;
    if (generation !== ('offset' in place ? place.generation : 0))
      throw new NotSealable(`object ${number} is referred to with a wrong generation`, number);
    const kept = this.#kept.get(number);
    if (kept !== undefined) return kept;
    const object = 'offset' in place ? await this.plain(number, place) : await this.packed(number, place);
    this.keep(object);
    return object;
  }

  /** Keeps the object, which is the one that has its number now, for those who ask for it soon. */
  keep(object: PdfObject): void {
    if (object.value.end - object.value.start > KEPT_CHARS_MAX) return;
    const [oldest] = this.#kept.keys();
    if (oldest !== undefined && this.#kept.size === KEPT_MAX) this.#kept.delete(oldest);
    this.#kept.set(object.number, object);
  }

  /** The object at an offset, which must be that object. */
  async plain(
    number: number,
    { offset, generation }: { offset: number; generation: number },
  ): Promise<PdfObject> {
    const name = `object ${number}`;
    const object = await readObject(this.text, offset, { name, number });
    if (object.number !== number || object.generation !== generation)
      throw new NotSealable(`${name} is not where its cross-reference says`, number);
    return object;
  }

  /** Throws NotSealable if the object is not there. */
  async requirePacked(number: number, { stream, index }: { stream: number; index: number }): Promise<Pack> {
    const pack = await this.#pack(stream);
    if (pack.numbers[index] === number) return pack;
    throw new NotSealable(`object ${number} is not where its cross-reference says`, number);
  }

  async packed(number: number, place: { stream: number; index: number }): Promise<PdfObject> {
    const { text, starts } = await this.requirePacked(number, place);
    const { index } = place;
    const name = `object ${number}`;
    const start = starts[index] ?? 0;
    const end = starts[index + 1] ?? text.length;
    const parser = new Parser(text, start, true, name, number);
    const value = parser.value();
    parser.skipSpace();
    this.text.spendOn(parser, start);
    if (value.end > end || parser.position < end || value.kind === 'reference') parser.refuse('is damaged');
    return { number, generation: 0, text, value, end };
  }

  /** Where an object of the file ends. */
  async endOf(object: PdfObject): Promise<number> {
    return object.data === undefined
      ? object.end
      : endOfStream(this.text, object, await this.#lengthOf(object));
  }

  /** The value itself, or what it refers to; undefined for null, and for what is not there. */
  async follow(found: FoundValue | undefined): Promise<FoundValue | undefined> {
    let last = found;
    for (let steps = 0; last?.node.kind === 'reference'; steps += 1) {
      if (steps === REFERENCES_MAX) throw new NotSealable('its references form a circle', last.node.number);
      const object = await this.object(last.node);
      last = object && { object, node: object.value };
    }
    return last?.node.kind === 'null' ? undefined : last;
  }

  /** The entry of a dictionary, followed. */
  entry({ object, node }: FoundOf<'dictionary'>, key: string): Promise<FoundValue | undefined> {
    const value = node.entries.get(key);
    return this.follow(value && { object, node: value });
  }

  /** The entry of a dictionary, which must be of that kind if it is there, and not a stream. Throws NotSealable. */
  async entryOf<Kind extends Node['kind']>(
    of: FoundOf<'dictionary'>,
    key: string,
    kind: Kind,
  ): Promise<FoundOf<Kind> | undefined> {
    const found = await this.entry(of, key);
    return found && requireKind(found, kind, `its /${key}`);
  }

  /** The data of a stream without its filter. */
  async data(stream: PdfObject): Promise<Uint8Array> {
    return streamData(this.text, stream, await this.#lengthOf(stream));
  }

  /** Kept, because many streams can refer to one object. */
  async #lengthOf({ number, value }: PdfObject): Promise<number> {
    const node = value.kind === 'dictionary' ? value.entries.get('Length') : undefined;
    const known = node?.kind === 'reference' ? this.#lengths.get(node.number) : naturalOf(node);
    if (known !== undefined) return known;
    const object = node?.kind === 'reference' ? await this.object(node) : undefined;
    const length = object && object.data === undefined ? naturalOf(object.value) : undefined;
    if (object === undefined || length === undefined)
      throw new NotSealable(`the stream of object ${number} has no /Length`, number);
    this.#lengths.set(object.number, length);
    return length;
  }

  async #pack(number: number): Promise<Pack> {
    const pack = this.#packs.get(number) ?? (await this.#unpack(number));
    this.#packs.set(number, pack);
    return pack;
  }

  async #unpack(number: number): Promise<Pack> {
    const place = this.placeOf(number);
    const object = place && 'offset' in place ? await this.plain(number, place) : undefined;
    const entries = object?.value.kind === 'dictionary' ? object.value.entries : undefined;
    if (object?.data === undefined || !isNamed(entries?.get('Type'), 'ObjStm'))
      throw new NotSealable(`object ${number} is not an object stream`, number);
    const text = toBinary(await this.data(object));
    const parser = new Parser(text, 0, true, `the object stream ${number}`, number);
    const [count, first] = [naturalOf(entries?.get('N')), naturalOf(entries?.get('First'))];
    if (count === undefined || first === undefined || first > text.length) return parser.refuse('is damaged');
    const pack: Pack = { text, numbers: [], starts: [] };
    for (let n = 0; n < count; n += 1) {
      const [, own = 0, offset = 0] = parser.expect(PAIR).map(Number);
      const start = first + offset;
      if (start <= (pack.starts.at(-1) ?? 0) || start > text.length) return parser.refuse('is damaged');
      pack.numbers.push(own);
      pack.starts.push(start);
    }
    if (parser.position > first) return parser.refuse('is damaged');
    // Readers differ in which of them they take.
    if (new Set(pack.numbers).size < pack.numbers.length) return parser.refuse('has an object twice');
    this.text.spend(4 * first);
    return pack;
  }

  /** Each object of an object stream, also those that no cross-reference names: some readers read them all. */
  async *packedIn(stream: number): AsyncIterable<PdfObject> {
    const { numbers } = await this.#pack(stream);
    for (const [index, number] of numbers.entries()) yield this.packed(number, { stream, index });
  }
}

const PAIR = /[\0\t\n\f\r ]{0,20}(\d{1,10})[\0\t\n\f\r ]{1,20}(\d{1,10})(?!\d)/y;

/** Throws NotSealable. */
export function requireKind<Kind extends Node['kind']>(
  found: FoundValue,
  kind: Kind,
  name: string,
): FoundOf<Kind> {
  const isStream = found.object.data !== undefined && found.node === found.object.value;
  if (found.node.kind !== kind || isStream)
    throw new NotSealable(
      `${name} is not ${kind === 'array' ? 'an array' : `a ${kind}`}`,
      found.object.number,
    );
  return found as FoundOf<Kind>;
}

/** The bytes of a value. */
export function textOf({ object, node }: FoundValue): string {
  return object.text.slice(node.start, node.end);
}

/** Text in place of what lies between two positions of an object's text. */
export interface TextEdit {
  start: number;
  end: number;
  text: string;
}

/** The bytes of a value with edits within it. */
export function edited({ object, node }: FoundValue, edits: readonly TextEdit[]): string {
  let [text, from] = ['', node.start];
  for (const edit of edits.toSorted((a, b) => a.start - b.start)) {
    text += object.text.slice(from, edit.start) + edit.text;
    from = edit.end;
  }
  return text + object.text.slice(from, node.end);
}

/** Gives an entry of a dictionary another value, or adds it before the brackets that close it. */
export function withEntry({ node }: FoundOf<'dictionary'>, key: string, value: string): TextEdit {
  const old = node.entries.get(key);
  if (old !== undefined) return { start: old.start, end: old.end, text: value };
  return { start: node.end - 2, end: node.end - 2, text: ` /${key} ${value} ` };
}

/** The bytes that a string stands for, one character each. */
export function stringIn(found: FoundOf<'string'>): string {
  return stringOf(textOf(found));
}

/** Reads the cross-references. Throws NotSealable. */
export async function openPdf(reader: PdfReader): Promise<PdfFile> {
  const text = new FileText(reader);
  const isPdf = await text.parse(0, { name: 'it' }, (parser) => HEADER.test(parser.text));
  if (!isPdf) throw new NotSealable('%PDF- is not its beginning');
  return new PdfFile(text, await readSections(text));
}
