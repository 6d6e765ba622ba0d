import { bytesEqual, toHex } from '../base/bytes.ts';
import { rememberEach } from '../base/remember.ts';
import {
  type Certificate,
  type Extension,
  readAuthorityKeyIdentifier,
  readExtensions,
  readSigned,
  usageFault,
} from './certificate.ts';
import {
  contentOf,
  contextTag,
  type Element,
  Fields,
  MalformedDer,
  parseTagged,
  readTime,
  TAG,
} from './der.ts';
import { describeName, readName } from './distinguishedName.ts';
import { OID } from './oid.ts';
import { readSignatureAlgorithm, type SignatureScheme, verifyScheme } from './signatureAlgorithm.ts';

/** A certificate revocation list (RFC 5280, section 5). {@link isListOf} verifies its signature. */
export interface RevocationList {
  readonly der: Uint8Array;
  /** The name of the issuer, for people. */
  readonly issuer: string;
  /** The same in DER, as {@link issuedAs} begins with it. */
  readonly issuerHex: string;
  /** From when to when the list is valid, milliseconds since the epoch. A list without `nextUpdate` is valid for ever. */
  readonly thisUpdate: number;
  readonly nextUpdate: number | undefined;
  /** The CRL number, which grows from list to list. */
  readonly number: bigint | undefined;
  /** The key of each is what {@link issuedAs} returns for the certificate. */
  readonly revoked: ReadonlyMap<string, Revocation>;
  /** Why the list does not say by itself which certificates of its issuer are revoked; undefined if it does. */
  readonly fault: string | undefined;
  readonly authorityKeyIdentifier: Uint8Array | undefined;
  /** The signed part, the algorithm, and the signature. No scheme: the algorithm is not supported. */
  readonly signedBytes: Uint8Array;
  readonly scheme: SignatureScheme | undefined;
  readonly signature: Uint8Array;
}

/** One entry of a list. Times are milliseconds since the epoch. */
export interface Revocation {
  /** Content octets of the serial number. */
  serial: Uint8Array;
  revokedAt: number;
  /** Absent: the list does not say why. */
  reason?: RevocationReason;
  /** From then on, the key is known or suspected to be compromised, or the certificate was invalid otherwise. */
  invalidSince?: number;
}

/** The values of CRLReason (RFC 5280, section 5.3.1), under the names of that section; 7 is not used. */
export const REASON_NUMBERS = {
  unspecified: 0,
  keyCompromise: 1,
  cACompromise: 2,
  affiliationChanged: 3,
  superseded: 4,
  cessationOfOperation: 5,
  certificateHold: 6,
  removeFromCRL: 8,
  privilegeWithdrawn: 9,
  aACompromise: 10,
} as const;
export type RevocationReason = keyof typeof REASON_NUMBERS;

/** Limits of the lists of time-stamp authorities, which list a handful of certificates in decades. */
export const LIST_BYTES_MAX = 131_072;
export const LIST_ENTRIES_MAX = 1_024;

/** Reads a list of any size, without a look at its `fault`. Throws MalformedDer. */
export function parseRevocationList(der: Uint8Array): RevocationList {
  const { fields, algorithm, ...signed } = readSigned(der);
  const version = fields.takeIf(TAG.integer);
  const innerAlgorithm = fields.take(TAG.sequence);
  const issuer = fields.take(TAG.sequence);
  const thisUpdate = takeTime(fields);
  const next = fields.takeIf(TAG.utcTime) ?? fields.takeIf(TAG.generalizedTime);
  const entries = fields.takeIf(TAG.sequence)?.elements ?? [];
  const explicit = fields.takeIf(contextTag(0));
  const extensions = readExtensions(explicit && new Fields(explicit, contextTag(0)).take(TAG.sequence));
  fields.end();

  const revoked = new Map<string, Revocation>();
  let entryFault: string | undefined;
  for (const entry of entries) {
    const { revocation, fault } = readEntry(entry);
    const name = nameAndSerial(issuer.der, revocation.serial);
    entryFault ??= revoked.has(name) ? 'lists a certificate twice' : fault;
    revoked.set(name, revocation);
  }
  const number = extensions.get(OID.cRLNumber);
  return {
    der,
    issuer: describeName(readName(issuer)),
    issuerHex: toHex(issuer.der),
    thisUpdate,
    nextUpdate: next && readTime(next),
    number: number && readNumber(parseTagged(number.value, TAG.integer)),
    revoked,
    fault:
      listFault(extensions, toHex(version?.content ?? new Uint8Array(0)), next !== undefined) ??
      // Only the inner one is signed (RFC 5280, section 5.1.1.2).
      (bytesEqual(algorithm.der, innerAlgorithm.der)
        ? entryFault
        : 'names two different signature algorithms'),
    authorityKeyIdentifier: readAuthorityKeyIdentifier(extensions),
    ...signed,
    scheme: readSignatureAlgorithm(algorithm),
  };
}

function takeTime(fields: Fields): number {
  return readTime(
    fields.takeIf(TAG.utcTime) ?? fields.takeIf(TAG.generalizedTime) ?? fields.take(TAG.utcTime),
  );
}

function readEntry(element: Element): { revocation: Revocation; fault: string | undefined } {
  const fields = new Fields(element);
  const serial = contentOf(fields.take(TAG.integer));
  const revokedAt = takeTime(fields);
  const extensions = readExtensions(fields.takeIf(TAG.sequence));
  fields.end();
  const code = extensions.get(OID.cRLReason);
  const reason = code && reasonOf(parseTagged(code.value, TAG.enumerated));
  const since = extensions.get(OID.invalidityDate);
  const invalidSince = since && readTime(parseTagged(since.value, TAG.generalizedTime));
  const unknown = unknownCritical(extensions, [OID.cRLReason, OID.invalidityDate]);
  return {
    revocation: {
      serial,
      revokedAt,
      ...(reason && { reason }),
      ...(invalidSince !== undefined && { invalidSince }),
    },
    fault: extensions.has(OID.certificateIssuer)
      ? 'is an indirect list, of certificates of other issuers'
      : reason === 'removeFromCRL'
        ? 'has an entry of a delta list'
        : unknown && `has an entry with the critical extension ${unknown}, which is not supported`,
  };
}

function reasonOf(element: Element): RevocationReason {
  const [octet, ...more] = contentOf(element);
  const found = Object.entries(REASON_NUMBERS).find(([, number]) => number === octet);
  if (found === undefined || more.length > 0)
    throw new MalformedDer('a reason for a revocation that does not exist');
  return found[0] as RevocationReason;
}

/** RFC 5280, section 5.2.3: not negative, at most 20 octets. */
function readNumber(element: Element): bigint {
  const content = contentOf(element);
  if (content.length > 20 || (content[0] ?? 0) >= 0x80) throw new MalformedDer('a CRL number out of range');
  return BigInt(`0x${toHex(content)}`);
}

function listFault(
  extensions: ReadonlyMap<string, Extension>,
  version: string,
  hasNext: boolean,
): string | undefined {
  if (version !== '01') return 'is not of version 2';
  if (!hasNext) return 'does not say when the next list comes';
  if (extensions.has(OID.deltaCRLIndicator)) return 'is a delta list, which says only what changed';
  if (extensions.has(OID.issuingDistributionPoint))
    return 'is for a part of the certificates, or an indirect list';
  if (!extensions.has(OID.cRLNumber)) return 'has no CRL number';
  const unknown = unknownCritical(extensions, [OID.cRLNumber, OID.authorityKeyIdentifier]);
  return unknown && `has the critical extension ${unknown}, which is not supported`;
}

function unknownCritical(
  extensions: ReadonlyMap<string, Extension>,
  known: readonly string[],
): string | undefined {
  return [...extensions].find(([id, { critical }]) => critical && !known.includes(id))?.[0];
}

/** Reads a list within {@link LIST_BYTES_MAX} and {@link LIST_ENTRIES_MAX} that has no `fault`. Throws MalformedDer. */
export function parseAuthorityList(der: Uint8Array): RevocationList {
  if (der.length > LIST_BYTES_MAX) throw new MalformedDer(`a list of more than ${LIST_BYTES_MAX} bytes`);
  const list = parseRevocationList(der);
  if (list.revoked.size > LIST_ENTRIES_MAX)
    throw new MalformedDer(`a list of more than ${LIST_ENTRIES_MAX} certificates`);
  if (list.fault !== undefined) throw new MalformedDer(`the list ${list.fault}`);
  return list;
}

/** Whether the holder of the certificate issued the list: its name, its key identifier if both have one, its right to, and its signature. */
export function isListOf(list: RevocationList, issuer: Certificate): boolean {
  return issuerCheckOf(list)(issuer);
}

const issuerCheckOf = rememberEach((list: RevocationList) =>
  rememberEach((issuer: Certificate) => {
    const { authorityKeyIdentifier: wanted, scheme, signedBytes, signature } = list;
    const { subjectKeyIdentifier: found, publicKey } = issuer;
    return (
      list.issuerHex === toHex(issuer.subject) &&
      (wanted === undefined || found === undefined || bytesEqual(wanted, found)) &&
      usageFault(issuer, 'cRLSign') === undefined &&
      scheme !== undefined &&
      publicKey !== undefined &&
      verifyScheme(scheme, publicKey, signedBytes, signature)
    );
  }),
);

/** A certificate of a chain that a list names. */
export interface ListedCertificate {
  certificate: Certificate;
  entry: Revocation;
}

/** The certificates of a chain, the root last, that lists of this root name: each time that one does. Throws MalformedDer. */
export function revocationsIn(
  chain: readonly Certificate[],
  lists: readonly RevocationList[],
): ListedCertificate[] {
  const root = chain.at(-1);
  const ofRoot = root === undefined ? [] : lists.filter((list) => isListOf(list, root));
  return chain.slice(0, -1).flatMap((certificate) => {
    const name = issuedAs(certificate.der);
    return ofRoot.flatMap(({ revoked }) => {
      const entry = revoked.get(name);
      return entry === undefined ? [] : [{ certificate, entry }];
    });
  });
}

/** Issuer and serial number of a certificate in DER, which together name it (RFC 5280, section 4.1.2.2). Throws MalformedDer. */
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
