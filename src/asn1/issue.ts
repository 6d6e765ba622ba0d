import forge from 'node-forge/lib/asn1.js';
import { assert } from '../base/assert.ts';
import { fromBase64, fromUtf8, toBinary } from '../base/bytes.ts';
import { sha256 } from '../base/crypto.ts';
import { type Certificate, KEY_USAGE } from './certificate.ts';
import {
  bitString,
  constructed,
  contextTag,
  Fields,
  generalizedTime,
  integer,
  namedBits,
  octetString,
  oid,
  parseDer,
  primitive,
  primitiveTag,
  readOctets,
  sequence,
  setOf,
  TAG,
  TRUE,
  unsignedContent,
} from './der.ts';
import { OID } from './oid.ts';
import { REASON_NUMBERS, type Revocation } from './revocationList.ts';
import { type AuthorityAlgorithm, signatureAlgorithm } from './signatureAlgorithm.ts';

/** The subject of a certificate (X.520), with the attributes that this service writes. */
export interface DistinguishedName {
  /** Two capital letters (ISO 3166). */
  country?: string;
  organization?: string;
  organizationalUnit?: string;
  commonName: string;
}

/** A public key and its signature algorithm. */
export interface SigningKey {
  algorithm: AuthorityAlgorithm;
  /** Base64 of the DER SubjectPublicKeyInfo. */
  spki: string;
}

interface Validity {
  /** Milliseconds since the epoch, whole seconds; both inclusive. */
  notBefore: number;
  notAfter: number;
  /** Big-endian, at most 20 octets (RFC 5280, section 4.1.2.2). */
  serial: Uint8Array;
}

/** The signed part of a root certificate, for an authority that issues only end certificates. */
export function encodeRootTbs(
  options: { subject: DistinguishedName; key: SigningKey } & Validity,
): Uint8Array {
  const { subject, key } = options;
  const name = encodeName(subject);
  return encodeTbs({
    ...options,
    signer: key,
    issuer: name,
    subject: name,
    extensions: [
      extension(OID.basicConstraints, true, sequence(TRUE, integer(0))),
      extension(OID.keyUsage, true, namedBits(KEY_USAGE.keyCertSign, KEY_USAGE.cRLSign)),
      extension(OID.subjectKeyIdentifier, false, octetString(keyIdentifier(key))),
    ],
  });
}

/** The signed part of a time-stamping unit's certificate (RFC 3161, section 2.3). */
export function encodeTimestampingTbs(
  options: {
    subject: DistinguishedName;
    key: SigningKey;
    issuer: Certificate;
    issuerKey: SigningKey;
  } & Validity,
): Uint8Array {
  const { subject, key, issuer, issuerKey } = options;
  return encodeTbs({
    ...options,
    signer: issuerKey,
    issuer: issuer.subject,
    subject: encodeName(subject),
    extensions: [
      ...timestampingExtensions(),
      extension(OID.subjectKeyIdentifier, false, octetString(keyIdentifier(key))),
      authorityKeyIdentifier(issuer, issuerKey),
    ],
  });
}

/** The signed part of a request for a time-stamping certificate (RFC 2986, section 4.1). */
export function encodeRequestInfo(subject: DistinguishedName, key: SigningKey): Uint8Array {
  const wanted = sequence(oid(OID.extensionRequest), setOf([sequence(...timestampingExtensions())]));
  return sequence(integer(0), encodeName(subject), spkiOf(key), setOf([wanted], contextTag(0)));
}

/** The content of a revocation list, apart from its issuer. */
export interface RevocationTerms {
  /** Milliseconds since the epoch, whole seconds. */
  thisUpdate: number;
  nextUpdate: number;
  /** CRL number, from 1 to 2^53 - 1. */
  number: number;
  revoked: readonly Revocation[];
}

/** The part of a revocation list that the issuer signs (RFC 5280, section 5.1.2). */
export function encodeRevocationTbs(
  options: RevocationTerms & { issuer: Certificate; issuerKey: SigningKey },
): Uint8Array {
  const { issuer, issuerKey, thisUpdate, nextUpdate, number, revoked } = options;
  return sequence(
    integer(1),
    signatureAlgorithm(issuerKey.algorithm),
    issuer.subject,
    encodeTime(thisUpdate),
    encodeTime(nextUpdate),
    // Absent if it would be empty.
    revoked.length === 0 ? undefined : sequence(...revoked.map(encodeRevocation)),
    constructed(contextTag(0), [
      sequence(authorityKeyIdentifier(issuer, issuerKey), extension(OID.cRLNumber, false, integer(number))),
    ]),
  );
}

function encodeRevocation({ serial, revokedAt, reason, invalidSince }: Revocation): Uint8Array {
  const extensions = [
    reason &&
      extension(OID.cRLReason, false, primitive(TAG.enumerated, Uint8Array.of(REASON_NUMBERS[reason]))),
    invalidSince !== undefined && extension(OID.invalidityDate, false, generalizedTime(invalidSince)),
  ].filter((one) => one instanceof Uint8Array);
  return sequence(
    primitive(TAG.integer, serial),
    encodeTime(revokedAt),
    extensions.length === 0 ? undefined : sequence(...extensions),
  );
}

/**
 * A certificate, a request or a revocation list: the signed part, the algorithm, and the signature. It is relied on for years, so
 * another implementation reads it back: what only this program can read is never given out.
 */
export function encodeSigned(tbs: Uint8Array, signer: SigningKey, signature: Uint8Array): Uint8Array {
  const signed = sequence(tbs, signatureAlgorithm(signer.algorithm), bitString(signature));
  const binary = toBinary(signed);
  const options = { strict: true, parseAllBytes: true, decodeBitStrings: false, maxDepth: 32 };
  const read = forge.fromDer(binary, options);
  assert(forge.toDer(read).getBytes() === binary, 'what was signed is not DER to another reader');
  return signed;
}

function encodeTbs(
  options: {
    key: SigningKey;
    signer: SigningKey;
    issuer: Uint8Array;
    subject: Uint8Array;
    extensions: Uint8Array[];
  } & Validity,
): Uint8Array {
  return sequence(
    constructed(contextTag(0), [integer(2)]),
    primitive(TAG.integer, unsignedContent(options.serial)),
    signatureAlgorithm(options.signer.algorithm),
    options.issuer,
    sequence(encodeTime(options.notBefore), encodeTime(options.notAfter)),
    options.subject,
    spkiOf(options.key),
    constructed(contextTag(3), [sequence(...options.extensions)]),
  );
}

function timestampingExtensions(): Uint8Array[] {
  return [
    extension(OID.keyUsage, true, namedBits(KEY_USAGE.digitalSignature)),
    extension(OID.extKeyUsage, true, sequence(oid(OID.timeStamping))),
  ];
}

function extension(id: string, critical: boolean, value: Uint8Array): Uint8Array {
  return sequence(oid(id), critical ? TRUE : undefined, octetString(value));
}

function encodeName(name: DistinguishedName): Uint8Array {
  const part = (type: string, value: string | undefined, tag: number = TAG.utf8String) =>
    value === undefined ? [] : [setOf([sequence(oid(type), primitive(tag, fromUtf8(value)))])];
  return sequence(
    ...part(OID.countryName, name.country, TAG.printableString),
    ...part(OID.organizationName, name.organization),
    ...part(OID.organizationalUnitName, name.organizationalUnit),
    ...part(OID.commonName, name.commonName),
  );
}

function authorityKeyIdentifier(issuer: Certificate, key: SigningKey): Uint8Array {
  const id = issuer.subjectKeyIdentifier ?? keyIdentifier(key);
  return extension(OID.authorityKeyIdentifier, false, sequence(primitive(primitiveTag(0), id)));
}

/** UTCTime through 2049, GeneralizedTime from 2050 on (RFC 5280, section 4.1.2.5). */
function encodeTime(epochMs: number): Uint8Array {
  if (new Date(epochMs).getUTCFullYear() >= 2050) return generalizedTime(epochMs);
  return primitive(TAG.utcTime, parseDer(generalizedTime(epochMs)).content.subarray(2));
}

function spkiOf({ spki }: SigningKey): Uint8Array {
  return parseDer(fromBase64(spki) ?? new Uint8Array(0)).der;
}

/** The first 160 bits of the SHA-256 of the public key (RFC 7093, section 2, method 1). */
function keyIdentifier(key: SigningKey): Uint8Array {
  const fields = new Fields(parseDer(spkiOf(key)));
  fields.take(TAG.sequence);
  return sha256(readOctets(fields.take(TAG.bitString))).subarray(0, 20);
}
