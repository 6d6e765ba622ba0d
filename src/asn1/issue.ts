import { fromBase64, fromUtf8 } from '../base/bytes.ts';
import { sha256 } from '../base/crypto.ts';
import { type Certificate, KEY_USAGE } from './certificate.ts';
import {
  bitString,
  constructed,
  contentOf,
  contextTag,
  type Element,
  encodeDer,
  Fields,
  generalizedTime,
  integer,
  namedBits,
  octetString,
  oid,
  parseDer,
  primitive,
  primitiveTag,
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

/** The part of a root certificate that the root signs: an authority that issues end certificates only. */
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

/** The part of a time-stamping unit's certificate that the issuer signs (RFC 3161, section 2.3). */
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
    issuer: parseDer(issuer.subject),
    subject: encodeName(subject),
    extensions: [
      ...timestampingExtensions(),
      extension(OID.subjectKeyIdentifier, false, octetString(keyIdentifier(key))),
      extension(OID.authorityKeyIdentifier, false, sequence(primitive(primitiveTag(0), issuerId))),
    ],
  });
}

/** The part of a request for a time-stamping certificate that the key signs (RFC 2986, section 4.1). */
export function encodeRequestInfo({
  subject,
  key,
}: {
  subject: DistinguishedName;
  key: SigningKey;
}): Uint8Array {
  const wanted = sequence(oid(OID.extensionRequest), setOf([sequence(...timestampingExtensions())]));
  return encodeDer(sequence(integer(0), encodeName(subject), spkiOf(key), setOf([wanted], contextTag(0))));
}

/** A certificate or a request: the signed part, the algorithm, and the signature. */
export function encodeSigned(tbs: Uint8Array, signer: SigningKey, signature: Uint8Array): Uint8Array {
  return encodeDer(sequence(parseDer(tbs), signatureAlgorithm(signer.algorithm), bitString(signature)));
}

function encodeTbs(
  options: {
    key: SigningKey;
    signer: SigningKey;
    issuer: Element;
    subject: Element;
    extensions: Element[];
  } & Validity,
): Uint8Array {
  return encodeDer(
    sequence(
      constructed(contextTag(0), [integer(2)]),
      primitive(TAG.integer, unsignedContent(options.serial)),
      signatureAlgorithm(options.signer.algorithm),
      options.issuer,
      sequence(encodeTime(options.notBefore), encodeTime(options.notAfter)),
      options.subject,
      spkiOf(options.key),
      constructed(contextTag(3), [sequence(...options.extensions)]),
    ),
  );
}

function timestampingExtensions(): Element[] {
  return [
    extension(OID.keyUsage, true, namedBits(KEY_USAGE.digitalSignature)),
    extension(OID.extKeyUsage, true, sequence(oid(OID.timeStamping))),
  ];
}

function extension(id: string, critical: boolean, value: Element): Element {
  const flag = critical ? primitive(TAG.boolean, Uint8Array.of(0xff)) : undefined;
  return sequence(oid(id), flag, octetString(encodeDer(value)));
}

function encodeName({ country, organization, organizationalUnit, commonName }: DistinguishedName): Element {
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
function encodeTime(epochMs: number): Element {
  if (new Date(epochMs).getUTCFullYear() >= 2050) return generalizedTime(epochMs);
  return primitive(TAG.utcTime, contentOf(generalizedTime(epochMs)).subarray(2));
}

function spkiOf({ spki }: SigningKey): Element {
  return parseDer(fromBase64(spki) ?? new Uint8Array(0));
}

/** The first 160 bits of the SHA-256 of the public key (RFC 7093, section 2, method 1). */
function keyIdentifier(key: SigningKey): Uint8Array {
  const fields = new Fields(spkiOf(key));
  fields.take(TAG.sequence);
  const publicKey = contentOf(fields.take(TAG.bitString)).subarray(1);
  return sha256(publicKey).subarray(0, 20);
}
