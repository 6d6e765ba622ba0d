import forge from 'node-forge/lib/asn1.js';
import { bytesEqual, compareBytes, concatBytes, fromBinary, fromHex, toBinary } from '../base/bytes.ts';
import { decodeOid, encodeOid } from './oid.ts';

/** One element of DER (ITU-T X.690). Opaque: only the functions below create and read it. */
export interface Element {
  /** Bits 8 and 7 of the identifier octet. */
  tagClass: number;
  /** Bits 5 to 1 of the identifier octet. */
  type: number;
  constructed: boolean;
  /** Content octets as a binary string, or the elements of a constructed value. */
  value: string | Element[];
}

/** Identifier octets as in the encoding: class, "constructed", and tag number. */
export const TAG = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  null: 0x05,
  oid: 0x06,
  utf8String: 0x0c,
  printableString: 0x13,
  teletexString: 0x14,
  ia5String: 0x16,
  utcTime: 0x17,
  generalizedTime: 0x18,
  sequence: 0x30,
  set: 0x31,
} as const;

/** `[n]` around elements (explicit, or implicit for a constructed type), and `[n]` in place of a primitive type. */
export const contextTag = (n: number): number => 0xa0 | n;
export const primitiveTag = (n: number): number => 0x80 | n;

/** The bytes are not the expected DER. Readers of this folder throw it; the reader of the whole structure catches it. */
export class MalformedDer extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'MalformedDer';
  }
}

/** Deeper than any structure of this service. Limits the work for hostile bytes. */
const DEPTH_MAX = 32;

// Writing. node-forge holds content octets as binary strings.

export function primitive(tag: number, content: Uint8Array): Element {
  return forge.create(tag & 0xc0, tag & 0x1f, false, toBinary(content));
}

export function constructed(tag: number, elements: readonly (Element | undefined)[]): Element {
  const present = elements.filter((element) => element !== undefined);
  return forge.create(tag & 0xc0, tag & 0x1f, true, present);
}

/** SEQUENCE of the elements that are not undefined. */
export function sequence(...elements: (Element | undefined)[]): Element {
  return constructed(TAG.sequence, elements);
}

/** SET OF, or `[n] IMPLICIT SET OF`. DER sorts the elements by their encodings (X.690, section 11.6). */
export function setOf(elements: readonly Element[], tag: number = TAG.set): Element {
  const sorted = elements
    .map((element) => ({ element, der: encodeDer(element) }))
    .sort((a, b) => compareBytes(a.der, b.der));
  return constructed(
    tag,
    sorted.map(({ element }) => element),
  );
}

export function oid(dotted: string): Element {
  return primitive(TAG.oid, encodeOid(dotted));
}

export function octetString(content: Uint8Array): Element {
  return primitive(TAG.octetString, content);
}

/** A BIT STRING of whole octets. */
export function bitString(content: Uint8Array): Element {
  return primitive(TAG.bitString, concatBytes([new Uint8Array(1), content]));
}

/** A BIT STRING with named bits: bit 0 is the first, and trailing zeros are removed (X.690, section 11.2.2). */
export function namedBits(...bits: number[]): Element {
  const highest = Math.max(...bits);
  const content = new Uint8Array(2 + (highest >> 3));
  content[0] = 7 - (highest & 7);
  for (const bit of bits) content[1 + (bit >> 3)] = (content[1 + (bit >> 3)] ?? 0) | (0x80 >> (bit & 7));
  return primitive(TAG.bitString, content);
}

/** INTEGER of a number from 0 to 2^53 - 1. */
export function integer(value: number): Element {
  return primitive(TAG.integer, encodeUnsigned(value));
}

/** Content octets of the INTEGER of a number from 0 to 2^53 - 1. */
export function encodeUnsigned(value: number): Uint8Array {
  return unsignedContent(fromHex(value.toString(16).padStart(14, '0')));
}

/** Content octets of the INTEGER with these big-endian octets: no leading zeros, except one before a set sign bit. */
export function unsignedContent(octets: Uint8Array): Uint8Array {
  const first = octets.findIndex((octet) => octet !== 0);
  const digits = first === -1 ? new Uint8Array(1) : octets.subarray(first);
  return concatBytes([new Uint8Array((digits[0] ?? 0) >= 0x80 ? 1 : 0), digits]);
}

/** GeneralizedTime in UTC with milliseconds, without trailing zeros (RFC 3161, section 2.4.2). */
export function generalizedTime(epochMs: number): Element {
  const [seconds = '', fraction = ''] = new Date(epochMs)
    .toISOString()
    .replace(/[-:TZ]/g, '')
    .split('.');
  // Three digits; as a number they would lose leading zeros.
  const fractionText = Number(`0.${fraction}`).toString().slice(1);
  return primitive(TAG.generalizedTime, fromBinary(`${seconds}${fractionText}Z`));
}

export function encodeDer(element: Element): Uint8Array {
  return fromBinary(forge.toDer(element).getBytes());
}

// Reading.

/**
 * Parses the one element that the bytes encode. Accepts DER only: it encodes the element again and refuses any
 * difference, so that a part that is encoded again has the same bytes. Throws MalformedDer.
 */
export function parseDer(bytes: Uint8Array): Element {
  let element: Element;
  try {
    element = forge.fromDer(toBinary(bytes), {
      strict: true,
      parseAllBytes: true,
      decodeBitStrings: false,
      maxDepth: DEPTH_MAX,
    });
  } catch (cause) {
    throw new MalformedDer(`not DER: ${(cause as Error).message}`);
  }
  if (!bytesEqual(encodeDer(element), bytes)) throw new MalformedDer('BER, but not DER');
  return element;
}

/** {@link parseDer} of an element that must have this tag. */
export function parseTagged(bytes: Uint8Array, tag: number): Element {
  return requireTag(parseDer(bytes), tag);
}

/** Throws MalformedDer for an element with another tag. */
export function requireTag(element: Element, tag: number): Element {
  if (tagOf(element) === tag) return element;
  throw new MalformedDer(`tag ${hexTag(tagOf(element))} in place of ${hexTag(tag)}`);
}

export function tagOf({ tagClass, type, constructed }: Element): number {
  return tagClass | type | (constructed ? 0x20 : 0);
}

/** Content octets of a primitive element. */
export function contentOf(element: Element): Uint8Array {
  if (typeof element.value !== 'string')
    throw new MalformedDer('a constructed value in place of a primitive one');
  return fromBinary(element.value);
}

export function readOid(element: Element): string {
  const dotted = decodeOid(contentOf(element));
  if (dotted === undefined) throw new MalformedDer('an invalid object identifier');
  return dotted;
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
  if (content.length === 0 || content.length > 4 || (content[0] ?? 0) >= 0x80) {
    throw new MalformedDer('an INTEGER out of range');
  }
  return content.reduce((value, octet) => value * 256 + octet, 0);
}

/** DER's two values of a BOOLEAN (X.690, section 11.1). */
export function readBoolean(element: Element): boolean {
  const content = contentOf(element);
  if (content.length !== 1 || (content[0] !== 0 && content[0] !== 0xff)) {
    throw new MalformedDer('a BOOLEAN that is neither TRUE nor FALSE');
  }
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
  if (tagOf(element) === TAG.generalizedTime) return readGeneralizedTime(element);
  const text = toBinary(contentOf(element));
  if (tagOf(element) !== TAG.utcTime || !/^\d{12}Z$/.test(text)) {
    throw new MalformedDer('a time in another format');
  }
  const century = text < '5' ? '20' : '19';
  return readGeneralizedTime(primitive(TAG.generalizedTime, fromBinary(century + text)));
}

/** GeneralizedTime in UTC, seconds present (RFC 3161, section 2.4.2), as milliseconds since the epoch, rounded down. */
export function readGeneralizedTime(element: Element): number {
  const text = toBinary(contentOf(element));
  const [, date, time, fraction = ''] = /^(\d{8})(\d{6})(?:\.(\d{1,9}))?Z$/.exec(text) ?? [];
  if (date === undefined || time === undefined) throw new MalformedDer('a GeneralizedTime in another format');
  const iso = `${date.replace(/(....)(..)(..)/, '$1-$2-$3')}T${time.replace(/(..)(..)(..)/, '$1:$2:$3')}`;
  const epochMs = Date.parse(`${iso}.${fraction.slice(0, 3).padEnd(3, '0')}Z`);
  // Date.parse reads the 30th of February as the 2nd of March.
  if (Number.isNaN(epochMs) || !new Date(epochMs).toISOString().startsWith(iso)) {
    throw new MalformedDer('a GeneralizedTime of a date that does not exist');
  }
  return epochMs;
}

/** Takes the elements of a constructed value in order, each by its tag. Throws MalformedDer. */
export class Fields {
  readonly #elements: readonly Element[];
  #next = 0;

  constructor(element: Element, tag: number = TAG.sequence) {
    const { value } = requireTag(element, tag);
    if (typeof value === 'string') throw new MalformedDer('a primitive value in place of a constructed one');
    this.#elements = value;
  }

  take(tag: number): Element {
    const found = this.takeIf(tag);
    if (found === undefined) throw new MalformedDer(`an element with tag ${hexTag(tag)} is missing`);
    return found;
  }

  takeIf(tag: number): Element | undefined {
    const found = this.#elements[this.#next];
    if (found === undefined || tagOf(found) !== tag) return undefined;
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
