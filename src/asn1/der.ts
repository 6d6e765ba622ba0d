import { compareBytes, concatBytes, fromBinary, toBinary } from '../base/bytes.ts';
import { remember } from '../base/remember.ts';
import { contentFault } from './contents.ts';
import { decodeOid, encodeOid, OIDS_MAX } from './oid.ts';

/** Identifier octets as in the encoding: class, "constructed", and tag number. */
export const TAG = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  null: 0x05,
  oid: 0x06,
  enumerated: 0x0a,
  utf8String: 0x0c,
  printableString: 0x13,
  teletexString: 0x14,
  ia5String: 0x16,
  utcTime: 0x17,
  generalizedTime: 0x18,
  bmpString: 0x1e,
  sequence: 0x30,
  set: 0x31,
} as const;

/** `[n]` around elements (explicit, or implicit for a constructed type), and `[n]` in place of a primitive type. */
export const contextTag = (n: number): number => 0xa0 | n;
export const primitiveTag = (n: number): number => 0x80 | n;

/** Bit 6 of the identifier octet. */
const CONSTRUCTED = 0x20;

/** The bytes are not the expected DER. Readers in this folder throw it; the reader of the whole structure catches it. */
export class MalformedDer extends Error {
  override readonly name = 'MalformedDer';
}

// Writing: each function returns the DER of one element (ITU-T X.690).

export function primitive(tag: number, content: Uint8Array): Uint8Array {
  return concatBytes([header(tag, content.length), content]);
}

export function constructed(tag: number, elements: readonly (Uint8Array | undefined)[]): Uint8Array {
  const present = elements.filter((element) => element !== undefined);
  const length = present.reduce((sum, element) => sum + element.length, 0);
  return concatBytes([header(tag, length), ...present]);
}

/** Identifier and length octets: the length in the fewest octets (X.690, section 10.1). */
function header(tag: number, length: number): Uint8Array {
  if (length < 0x80) return Uint8Array.of(tag, length);
  const octets = octetsOf(length);
  return Uint8Array.of(tag, 0x80 | octets.length, ...octets);
}

/** Big-endian, without leading zeros. */
function octetsOf(value: number): number[] {
  const octets: number[] = [];
  for (let rest = value; rest > 0; rest = Math.floor(rest / 256)) octets.unshift(rest % 256);
  return octets;
}

/** The element with another tag. */
export function retagged(tag: number, element: Uint8Array): Uint8Array {
  return concatBytes([Uint8Array.of(tag), element.subarray(1)]);
}

/** SEQUENCE of the elements that are not undefined. */
export function sequence(...elements: (Uint8Array | undefined)[]): Uint8Array {
  return constructed(TAG.sequence, elements);
}

/** SET OF, or `[n] IMPLICIT SET OF`. DER sorts the elements by their encodings (X.690, section 11.6). */
export function setOf(elements: readonly Uint8Array[], tag: number = TAG.set): Uint8Array {
  return constructed(tag, elements.toSorted(compareBytes));
}

export const oid: (dotted: string) => Uint8Array = remember(OIDS_MAX, (dotted) =>
  primitive(TAG.oid, encodeOid(dotted)),
);

/** The BOOLEAN TRUE. */
export const TRUE: Uint8Array = primitive(TAG.boolean, Uint8Array.of(0xff));

export function octetString(content: Uint8Array): Uint8Array {
  return primitive(TAG.octetString, content);
}

/** A BIT STRING of whole octets. */
export function bitString(content: Uint8Array): Uint8Array {
  return primitive(TAG.bitString, concatBytes([new Uint8Array(1), content]));
}

/** A BIT STRING with named bits: bit 0 is the first, and trailing zeros are removed (X.690, section 11.2.2). */
export function namedBits(...bits: number[]): Uint8Array {
  const highest = Math.max(...bits);
  const content = new Uint8Array(2 + (highest >> 3));
  content[0] = 7 - (highest & 7);
  for (const bit of bits) content[1 + (bit >> 3)] = (content[1 + (bit >> 3)] ?? 0) | (0x80 >> (bit & 7));
  return primitive(TAG.bitString, content);
}

/** INTEGER of a number from 0 to 2^53 - 1. */
export function integer(value: number): Uint8Array {
  return primitive(TAG.integer, encodeUnsigned(value));
}

/** Content octets of the INTEGER of a number from 0 to 2^53 - 1. */
export function encodeUnsigned(value: number): Uint8Array {
  return unsignedContent(Uint8Array.from(octetsOf(value)));
}

/** Content octets of the INTEGER with these big-endian octets: no leading zeros, except one before a set sign bit. */
export function unsignedContent(octets: Uint8Array): Uint8Array {
  const first = octets.findIndex((octet) => octet !== 0);
  const digits = first === -1 ? new Uint8Array(1) : octets.subarray(first);
  return concatBytes([new Uint8Array((digits[0] ?? 0) >= 0x80 ? 1 : 0), digits]);
}

/** GeneralizedTime in UTC with milliseconds, without trailing zeros (RFC 3161, section 2.4.2). */
export function generalizedTime(epochMs: number): Uint8Array {
  const digits = new Date(epochMs).toISOString().replace(/[-:TZ]/g, '');
  return primitive(TAG.generalizedTime, fromBinary(`${digits.replace(/\.?0{1,3}$/, '')}Z`));
}

// Reading.

/** Deeper than any structure of this service. Limits the work caused by hostile bytes. */
const DEPTH_MAX = 32;

/** One element of DER: a view of the bytes that it was read from. Created by {@link parseDer}. */
export class Element {
  /** The identifier octet. */
  readonly tag: number;
  /** The elements of a constructed value; undefined for a primitive one. */
  readonly elements: readonly Element[] | undefined;
  /** Where the element ends in the bytes. */
  readonly end: number;
  readonly #bytes: Uint8Array;
  readonly #start: number;
  readonly #contentAt: number;

  /**
   * Reads the element at `start`, which must end at or before `limit`, with its descendants. Accepts only tags of one octet: the structures
   * of this service use no others. Throws MalformedDer.
   */
  constructor(bytes: Uint8Array, start: number, limit: number, depth: number) {
    const tag = bytes[start];
    if (tag === undefined || (tag & 0x1f) === 0x1f) throw new MalformedDer('not DER: no tag of one octet');
    if (depth === DEPTH_MAX) throw new MalformedDer('not DER: too many levels');
    const first = bytes[start + 1] ?? 0x80;
    const contentAt = start + 2 + (first < 0x80 ? 0 : first & 0x7f);
    const length = first < 0x80 ? first : readLength(bytes, start + 2, contentAt);
    const end = contentAt + length;
    if (end > limit) throw new MalformedDer('not DER: an element that is cut off');
    const fault = contentFault(tag, bytes, contentAt, end);
    if (fault !== undefined) throw new MalformedDer(fault);
    this.tag = tag;
    this.end = end;
    this.#bytes = bytes;
    this.#start = start;
    this.#contentAt = contentAt;
    if ((tag & CONSTRUCTED) === 0) return;
    const elements: Element[] = [];
    for (let at = contentAt; at < end; ) {
      const element = new Element(bytes, at, end, depth + 1);
      elements.push(element);
      at = element.end;
    }
    this.elements = elements;
  }

  /** Identifier, length and content octets. */
  get der(): Uint8Array {
    return this.#bytes.subarray(this.#start, this.end);
  }

  /** Content octets. */
  get content(): Uint8Array {
    return this.#bytes.subarray(this.#contentAt, this.end);
  }
}

/** The length in these octets, which must be the shortest form of a length above 127 (X.690, section 10.1). */
function readLength(bytes: Uint8Array, start: number, end: number): number {
  // Without any octets, it would be the indefinite form of BER.
  if (end === start || end > start + 4 || end > bytes.length)
    throw new MalformedDer('not DER: no valid length');
  let length = 0;
  for (let at = start; at < end; at++) length = length * 256 + (bytes[at] ?? 0);
  if (length < 0x80 || bytes[start] === 0) throw new MalformedDer('BER, but not DER');
  return length;
}

/** Parses the bytes as exactly one element, with its descendants. Accepts DER only. Throws MalformedDer. */
export function parseDer(bytes: Uint8Array): Element {
  const element = new Element(bytes, 0, bytes.length, 0);
  if (element.end < bytes.length) throw new MalformedDer('not DER: something after the element');
  return element;
}

/** Like {@link parseDer}, for an element that must have this tag. */
export function parseTagged(bytes: Uint8Array, tag: number): Element {
  return requireTag(parseDer(bytes), tag);
}

/** Throws MalformedDer if the element has another tag. */
export function requireTag(element: Element, tag: number): Element {
  if (element.tag === tag) return element;
  throw new MalformedDer(`tag ${hexTag(element.tag)} in place of ${hexTag(tag)}`);
}

/** Content octets of a primitive element. */
export function contentOf(element: Element): Uint8Array {
  if (element.elements !== undefined)
    throw new MalformedDer('a constructed value in place of a primitive one');
  return element.content;
}

export function readOid(element: Element): string {
  const dotted = decodeOid(contentOf(element));
  if (dotted === undefined) throw new MalformedDer('an invalid object identifier');
  return dotted;
}

/** The only element in an explicit tag `[0]`. */
export function readExplicit(element: Element, tag: number): Element {
  const fields = new Fields(element, contextTag(0));
  const inner = fields.take(tag);
  fields.end();
  return inner;
}

/** Octets of a BIT STRING of whole octets. */
export function readOctets(element: Element): Uint8Array {
  const content = contentOf(element);
  if (content[0] !== 0) throw new MalformedDer('a BIT STRING that is not of whole octets');
  return content.subarray(1);
}

/** Big-endian octets of an INTEGER above zero, without leading zeros. */
export function readPositive(element: Element): Uint8Array {
  const content = contentOf(element);
  const octets = content.subarray(content[0] === 0 ? 1 : 0);
  if (octets.length === 0 || (content[0] ?? 0) >= 0x80)
    throw new MalformedDer('an INTEGER that is not positive');
  return octets;
}

/** An INTEGER from 0 to 2^31 - 1. */
export function readInteger(element: Element): number {
  const content = contentOf(element);
  if (content.length === 0 || content.length > 4 || (content[0] ?? 0) >= 0x80)
    throw new MalformedDer('an INTEGER out of range');
  return content.reduce((value, octet) => value * 256 + octet, 0);
}

/** A BOOLEAN: DER allows two values (X.690, section 11.1). */
export function readBoolean(element: Element): boolean {
  const content = contentOf(element);
  if (content.length !== 1 || (content[0] !== 0 && content[0] !== 0xff))
    throw new MalformedDer('a BOOLEAN that is neither TRUE nor FALSE');
  return content[0] === 0xff;
}

/** The bits that are set in a BIT STRING with named bits. */
export function readNamedBits(element: Element): number[] {
  const [unused = 8, ...octets] = contentOf(element);
  if (unused > 7) throw new MalformedDer('a BIT STRING of impossible length');
  return octets.flatMap((octet, index) =>
    [0, 1, 2, 3, 4, 5, 6, 7].filter((bit) => octet & (0x80 >> bit)).map((bit) => index * 8 + bit),
  );
}

/** A time in a certificate (RFC 5280, section 4.1.2.5), as milliseconds since the epoch. */
export function readTime(element: Element): number {
  if (element.tag === TAG.generalizedTime) return readGeneralizedTime(element);
  const text = toBinary(contentOf(element));
  if (element.tag !== TAG.utcTime || !/^\d{12}Z$/.test(text))
    throw new MalformedDer('a time in another format');
  return parseTime((text < '5' ? '20' : '19') + text);
}

/** GeneralizedTime in UTC, seconds present (RFC 3161, section 2.4.2), as milliseconds since the epoch, rounded down. */
export function readGeneralizedTime(element: Element): number {
  return parseTime(toBinary(contentOf(element)));
}

const TIME = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(?:\.(\d{1,9}))?Z$/;

function parseTime(text: string): number {
  const [, year, month, day, hours, minutes, seconds, fraction = ''] = TIME.exec(text) ?? [];
  if (year === undefined) throw new MalformedDer('a GeneralizedTime in another format');
  const millis = fraction.slice(0, 3).padEnd(3, '0');
  const epochMs = Date.parse(`${year}-${month}-${day}T${hours}:${minutes}:${seconds}.${millis}Z`);
  // Date.parse reads the 30th of February as the 2nd of March, and 24:00 as the next day; NaN has no date.
  if (new Date(epochMs).getUTCDate() !== Number(day))
    throw new MalformedDer('a GeneralizedTime of a date that does not exist');
  return epochMs;
}

/** Takes the elements of a constructed value in order, each by its tag. Throws MalformedDer. */
export class Fields {
  readonly #elements: readonly Element[];
  #next = 0;

  constructor(element: Element, tag: number = TAG.sequence) {
    const { elements } = requireTag(element, tag);
    if (elements === undefined) throw new MalformedDer('a primitive value in place of a constructed one');
    this.#elements = elements;
  }

  take(tag: number): Element {
    const found = this.takeIf(tag);
    if (found === undefined) throw new MalformedDer(`an element with tag ${hexTag(tag)} is missing`);
    return found;
  }

  takeIf(tag: number): Element | undefined {
    const found = this.#elements[this.#next];
    if (found === undefined || found.tag !== tag) return undefined;
    this.#next += 1;
    return found;
  }

  /** Takes the next element, with any tag. */
  takeAny(): Element | undefined {
    const found = this.#elements[this.#next];
    this.#next += 1;
    return found;
  }

  rest(): Element[] {
    const rest = this.#elements.slice(this.#next);
    this.#next = this.#elements.length;
    return rest;
  }

  end(): void {
    if (this.#next < this.#elements.length) throw new MalformedDer('more elements than allowed');
  }
}

function hexTag(tag: number): string {
  return `0x${tag.toString(16).padStart(2, '0')}`;
}
