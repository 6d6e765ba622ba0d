import { toBinary, toHex } from '../base/bytes.ts';
import { contentOf, type Element, Fields, readOid, TAG } from './der.ts';
import { OID } from './oid.ts';

/** One attribute of a Name (X.501), for display. To compare two names, compare their DER. */
export interface NameAttribute {
  /** Dotted object identifier. */
  type: string;
  text: string;
}

/** Short names from RFC 4514, section 3; the others are those of OpenSSL. */
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

/** The attributes of a Name, in the order of the encoding. Throws MalformedDer. */
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

/** The name in one line. Commas and unprintable characters are escaped. */
export function describeName(name: readonly NameAttribute[]): string {
  if (name.length === 0) return '(no name)';
  const escaped = (text: string) =>
    text
      .replace(/[\\,+"<>;]/g, '\\$&')
      .replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (c) => `\\u{${c.codePointAt(0)?.toString(16)}}`);
  return name.map(({ type, text }) => `${LABELS[type] ?? type}=${escaped(text)}`).join(', ');
}

/** The text of a string type; for any other type, its octets. */
function readText(value: Element | undefined): string {
  if (value === undefined) return '';
  if (value.elements !== undefined) return '#';
  const content = contentOf(value);
  switch (value.tag) {
    case TAG.utf8String:
      return new TextDecoder().decode(content);
    case TAG.bmpString:
      return new TextDecoder('utf-16be').decode(content);
    case TAG.printableString:
    case TAG.ia5String:
    case TAG.teletexString:
      return toBinary(content);
    default:
      return `#${toHex(content)}`;
  }
}
