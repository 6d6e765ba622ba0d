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
  unsignedContent,
} from './der.ts';
import { OID } from './oid.ts';
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
      extension(
        OID.basicConstraints,
        true,
        sequence(primitive(TAG.boolean, Uint8Array.of(0xff)), integer(0)),
      ),
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
  const issuerId = issuer.subjectKeyIdentifier ?? keyIdentifier(issuerKey);
  return encodeTbs({
    ...options,
    signer: issuerKey,
    issuer: issuer.subject,
    subject: encodeName(subject),
    extensions: [
      ...timestampingExtensions(),
      extension(OID.subjectKeyIdentifier, false, octetString(keyIdentifier(key))),
      extension(OID.authorityKeyIdentifier, false, sequence(primitive(primitiveTag(0), issuerId))),
    ],
  });
}

/** The signed part of a request for a time-stamping certificate (RFC 2986, section 4.1). */
export function encodeRequestInfo({
  subject,
  key,
}: {
  subject: DistinguishedName;
  key: SigningKey;
}): Uint8Array {
  const wanted = sequence(oid(OID.extensionRequest), setOf([sequence(...timestampingExtensions())]));
  return sequence(integer(0), encodeName(subject), spkiOf(key), setOf([wanted], contextTag(0)));
}

/**
 * A certificate or a request: the signed part, the algorithm, and the signature. It is used for years, so another implementation reads it
 * back first: output that only this program can read is never issued.
 */
export function encodeSigned(tbs: Uint8Array, signer: SigningKey, signature: Uint8Array): Uint8Array {
  const signed = sequence(tbs, signatureAlgorithm(signer.algorithm), bitString(signature));
  const binary = toBinary(signed);
  const read = forge.fromDer(binary, {
    strict: true,
    parseAllBytes: true,
    decodeBitStrings: false,
    maxDepth: 32,
  });
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
  const flag = critical ? primitive(TAG.boolean, Uint8Array.of(0xff)) : undefined;
  return sequence(oid(id), flag, octetString(value));
}

function encodeName({
  country,
  organization,
  organizationalUnit,
  commonName,
}: DistinguishedName): Uint8Array {
  const part = (type: string, value: string | undefined, tag: number = TAG.utf8String) =>
    value === undefined ? [] : [setOf([sequence(oid(type), primitive(tag, fromUtf8(value)))])];
  return sequence(
    ...part(OID.countryName, country, TAG.printableString),
    ...part(OID.organizationName, organization),
    ...part(OID.organizationalUnitName, organizationalUnit),
    ...part(OID.commonName, commonName),
  );
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
