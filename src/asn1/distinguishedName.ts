import { toBinary, toHex } from '../base/bytes.ts';
import { contentOf, type Element, Fields, readOid, TAG, tagOf } from './der.ts';
import { OID } from './oid.ts';

/** One attribute of a Name (X.501), for people: whether two names are the same, their DER decides. */
export interface NameAttribute {
  /** Dotted object identifier. */
  type: string;
  text: string;
}

/** RFC 4514, section 3, and what OpenSSL calls the rest. */
const LABELS: Record<string, string> = {
  [OID.commonName]: 'CN',
  [OID.countryName]: 'C',
  [OID.organizationName]: 'O',
  [OID.organizationalUnitName]: 'OU',
  [OID.localityName]: 'L',
  [OID.stateOrProvinceName]: 'ST',
  [OID.serialNumber]: 'serialNumber',
  [OID.organizationIdentifier]: 'organizationIdentifier',
};

const BMP_STRING = 0x1e;

/** The attributes of a Name, in the order they are written. Throws MalformedDer. */
export function readName(element: Element): NameAttribute[] {
  return new Fields(element).rest().flatMap((relative) =>
    new Fields(relative, TAG.set).rest().map((attribute) => {
      const fields = new Fields(attribute);
      const type = readOid(fields.take(TAG.oid));
      const text = readText(fields.takeAny());
      fields.end();
      return { type, text };
    }),
  );
}

/** In one line: commas and what cannot be printed are escaped. */
export function describeName(name: readonly NameAttribute[]): string {
  if (name.length === 0) return '(no name)';
  return name.map(({ type, text }) => `${LABELS[type] ?? type}=${escaped(text)}`).join(', ');
}

function escaped(text: string): string {
  return text
    .replace(/[\\,+"<>;]/g, '\\$&')
    .replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (c) => `\\u{${c.codePointAt(0)?.toString(16)}}`);
}

/** A value of the string types; of any other, its octets. */
function readText(value: Element | undefined): string {
  if (value === undefined) return '';
  if (value.constructed) return '#';
  const content = contentOf(value);
  switch (tagOf(value)) {
    case TAG.utf8String:
      return new TextDecoder().decode(content);
    case BMP_STRING:
      return new TextDecoder('utf-16be').decode(content);
    case TAG.printableString:
    case TAG.ia5String:
    case TAG.teletexString:
      return toBinary(content);
    default:
      return `#${toHex(content)}`;
  }
}
