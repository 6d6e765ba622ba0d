import { toHex } from '../base/bytes.ts';
import { contentOf, contextTag, Fields, parseTagged, readTime, TAG } from './der.ts';
import { describeName, readName } from './distinguishedName.ts';

/** A certificate revocation list (RFC 5280, section 5). Its signature is not verified here. */
export interface RevocationList {
  /** The name of the issuer, for display. */
  issuer: string;
  /** The name in DER, which is the beginning of {@link issuedAs}. */
  issuerHex: string;
  /** The validity of the list, milliseconds since the epoch. A list without `nextUpdate` is valid for ever. */
  thisUpdate: number;
  nextUpdate: number | undefined;
  /** The value of {@link issuedAs} for each certificate on the list. */
  revoked: ReadonlySet<string>;
}

/** Throws MalformedDer. */
export function parseRevocationList(der: Uint8Array): RevocationList {
  const list = new Fields(new Fields(parseTagged(der, TAG.sequence)).take(TAG.sequence));
  list.takeIf(TAG.integer);
  list.take(TAG.sequence);
  const issuer = list.take(TAG.sequence);
  const takeTime = () => list.takeIf(TAG.utcTime) ?? list.takeIf(TAG.generalizedTime);
  const thisUpdate = readTime(takeTime() ?? list.take(TAG.utcTime));
  const next = takeTime();
  const entries = list.takeIf(TAG.sequence)?.elements ?? [];
  const serialOf = (entry: (typeof entries)[number]) => contentOf(new Fields(entry).take(TAG.integer));
  return {
    issuer: describeName(readName(issuer)),
    issuerHex: toHex(issuer.der),
    thisUpdate,
    nextUpdate: next && readTime(next),
    revoked: new Set(entries.map((entry) => nameAndSerial(issuer.der, serialOf(entry)))),
  };
}

/** Issuer and serial number of a certificate in DER, which together identify it (RFC 5280, section 4.1.2.2). Throws MalformedDer. */
export function issuedAs(certificate: Uint8Array): string {
  const fields = new Fields(new Fields(parseTagged(certificate, TAG.sequence)).take(TAG.sequence));
  fields.takeIf(contextTag(0));
  const serial = contentOf(fields.take(TAG.integer));
  fields.take(TAG.sequence);
  return nameAndSerial(fields.take(TAG.sequence).der, serial);
}

function nameAndSerial(issuer: Uint8Array, serial: Uint8Array): string {
  return `${toHex(issuer)} ${toHex(serial)}`;
}
