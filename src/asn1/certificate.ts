import { bytesEqual, fromBinary, toBinary } from '../base/bytes.ts';
import type { PublicKey } from '../base/crypto.ts';
import { remember, rememberEach } from '../base/remember.ts';
import {
  contentOf,
  contextTag,
  type Element,
  Fields,
  MalformedDer,
  parseDer,
  parseTagged,
  primitiveTag,
  readBoolean,
  readExplicit,
  readInteger,
  readNamedBits,
  readOctets,
  readOid,
  readTime,
  requireTag,
  TAG,
} from './der.ts';
import { describeName, type NameAttribute, readName } from './distinguishedName.ts';
import { OID } from './oid.ts';
import { readPublicKey } from './publicKey.ts';
import { readSignatureAlgorithm, type SignatureScheme, verifyScheme } from './signatureAlgorithm.ts';

/** A certificate (RFC 5280). */
export interface Certificate {
  readonly der: Uint8Array;
  /** DER of the Name. */
  readonly subject: Uint8Array;
  readonly issuer: Uint8Array;
  /** The subject, for display. */
  readonly name: readonly NameAttribute[];
  /** Content octets of the serial number. */
  readonly serial: Uint8Array;
  /** Milliseconds since the epoch, both inclusive. */
  readonly notBefore: number;
  readonly notAfter: number;
  /** DER SubjectPublicKeyInfo. */
  readonly spki: Uint8Array;
  /** Undefined if the key is of an unsupported type, or too weak. */
  readonly publicKey: PublicKey | undefined;
  /** The signed part (DER TBSCertificate), the algorithm, and the signature. The scheme is undefined if the algorithm is not supported. */
  readonly signedBytes: Uint8Array;
  readonly scheme: SignatureScheme | undefined;
  readonly signature: Uint8Array;
  /** Content octets of the key identifiers (RFC 5280, sections 4.2.1.1 and 4.2.1.2), if present. */
  readonly subjectKeyIdentifier: Uint8Array | undefined;
  readonly authorityKeyIdentifier: Uint8Array | undefined;
  readonly extensions: ReadonlyMap<string, Extension>;
}

export interface Extension {
  critical: boolean;
  /** DER inside the extension's OCTET STRING. */
  value: Uint8Array;
}

/** Bits of KeyUsage (RFC 5280, section 4.2.1.3). */
export const KEY_USAGE = { digitalSignature: 0, nonRepudiation: 1, keyCertSign: 5, cRLSign: 6 } as const;

/** The fault of a certificate without `publicKey`. */
export const UNTRUSTED_KEY = 'has a key that is too weak or of an unsupported type';

const CERTIFICATE_BYTES_MAX = 16_384;

/** Extensions that may be critical: those with rules applied here, and policies, which matter only if one is required. */
const PROCESSED: readonly string[] = [
  OID.basicConstraints,
  OID.keyUsage,
  OID.extKeyUsage,
  OID.certificatePolicies,
];

/** If an issuer's certificate names purposes, one of these must be among them. */
const PURPOSES_OF_ISSUERS: readonly string[] = [OID.timeStamping, OID.anyExtendedKeyUsage];

/** A chain has about three, and an authority uses one chain for years. */
const REMEMBERED_MAX = 64;

/** Reads a certificate. Throws MalformedDer for anything but a certificate in DER. */
export function parseCertificate(der: Uint8Array): Certificate {
  if (der.length > CERTIFICATE_BYTES_MAX) throw new MalformedDer('a certificate of more than 16 KiB');
  return parse(toBinary(der));
}

/** The same bytes give the same object each time, so that derived values can be cached with it. */
const parse = remember(REMEMBERED_MAX, (binary): Certificate => {
  const der = fromBinary(binary);
  const { fields, algorithm, ...signed } = readSigned(der);
  const explicitVersion = fields.takeIf(contextTag(0));
  // The number is the INTEGER plus one.
  const version = explicitVersion ? readInteger(readExplicit(explicitVersion, TAG.integer)) + 1 : 1;
  const serial = contentOf(fields.take(TAG.integer));
  const innerAlgorithm = fields.take(TAG.sequence);
  const issuer = fields.take(TAG.sequence);
  const [notBefore, notAfter] = readValidity(fields.take(TAG.sequence));
  const subject = fields.take(TAG.sequence);
  const spki = fields.take(TAG.sequence);
  fields.takeIf(primitiveTag(1));
  fields.takeIf(primitiveTag(2));
  const explicit = fields.takeIf(contextTag(3));
  const extensions = readExtensions(explicit && new Fields(explicit, contextTag(3)).take(TAG.sequence));
  fields.end();
  // Only the inner algorithm is signed (RFC 5280, section 4.1.1.2).
  if (!bytesEqual(algorithm.der, innerAlgorithm.der))
    throw new MalformedDer('two different signature algorithms');
  if (extensions.size > 0 && version !== 3) throw new MalformedDer(`extensions in version ${version}`);
  const identifier = extensions.get(OID.subjectKeyIdentifier);
  readName(issuer);
  return {
    der,
    subject: subject.der,
    issuer: issuer.der,
    name: readName(subject),
    serial,
    notBefore,
    notAfter,
    spki: spki.der,
    publicKey: readPublicKey(spki),
    ...signed,
    scheme: readSignatureAlgorithm(algorithm),
    subjectKeyIdentifier: identifier && contentOf(parseTagged(identifier.value, TAG.octetString)),
    authorityKeyIdentifier: readAuthorityKeyIdentifier(extensions),
    extensions,
  };
});

/**
 * Reads what an authority signed, a certificate or a revocation list: the fields of the signed part, its algorithm, and the signature.
 * Throws MalformedDer.
 */
export function readSigned(der: Uint8Array) {
  const outer = new Fields(parseDer(der));
  const tbs = outer.take(TAG.sequence);
  const algorithm = outer.take(TAG.sequence);
  const signature = readOctets(outer.take(TAG.bitString));
  outer.end();
  return { fields: new Fields(tbs), algorithm, signedBytes: tbs.der, signature };
}

function readValidity(element: Element): [number, number] {
  const [notBefore, notAfter, more] = new Fields(element).rest();
  if (notBefore === undefined || notAfter === undefined || more !== undefined)
    throw new MalformedDer('a validity that does not have two times');
  return [readTime(notBefore), readTime(notAfter)];
}

/** The extensions in a SEQUENCE, each once, by their object identifiers. Throws MalformedDer. */
export function readExtensions(list: Element | undefined): Map<string, Extension> {
  const extensions = new Map<string, Extension>();
  if (list === undefined) return extensions;
  for (const one of new Fields(list).rest()) {
    const fields = new Fields(one);
    const id = readOid(fields.take(TAG.oid));
    const critical = fields.takeIf(TAG.boolean);
    const value = contentOf(fields.take(TAG.octetString));
    fields.end();
    if (extensions.has(id)) throw new MalformedDer(`the extension ${id} twice`);
    extensions.set(id, { critical: critical !== undefined && readBoolean(critical), value });
  }
  return extensions;
}

export function readAuthorityKeyIdentifier(extensions: Certificate['extensions']): Uint8Array | undefined {
  const extension = extensions.get(OID.authorityKeyIdentifier);
  const identifier = extension && new Fields(parseDer(extension.value)).takeIf(primitiveTag(0));
  return identifier && contentOf(identifier);
}

/** The subject in one line, for display. */
export const describeSubject: (certificate: Certificate) => string = rememberEach(({ name }) =>
  describeName(name),
);

/** Whether the issuer's name is that of `issuer`, and the key identifiers, if present, are equal. This does not prove anything. */
export function namesAsIssuer(certificate: Certificate, issuer: Certificate): boolean {
  const { authorityKeyIdentifier: wanted } = certificate;
  const { subjectKeyIdentifier: found } = issuer;
  return (
    bytesEqual(certificate.issuer, issuer.subject) &&
    (wanted === undefined || found === undefined || bytesEqual(wanted, found))
  );
}

/** Whether the certificate claims to be a root. Only a verifier can decide to trust it. */
export function isSelfIssued(certificate: Certificate): boolean {
  return namesAsIssuer(certificate, certificate);
}

/** Whether the certificate was signed with the key of `issuer`. */
export function isSignedBy(certificate: Certificate, issuer: Certificate): boolean {
  return signatureCheckOf(certificate)(issuer);
}

const signatureCheckOf = rememberEach(({ scheme, signedBytes, signature }: Certificate) =>
  rememberEach(
    ({ publicKey }: Certificate) =>
      scheme !== undefined &&
      publicKey !== undefined &&
      verifyScheme(scheme, publicKey, signedBytes, signature),
  ),
);

export function isValidAt({ notBefore, notAfter }: Certificate, epochMs: number): boolean {
  return notBefore <= epochMs && epochMs <= notAfter;
}

/**
 * Why the certificate must not issue certificates for time-stamping, with `below` intermediate certificates between it and the end
 * certificate (RFC 5280, sections 4.2.1.3, 4.2.1.9 and 4.2.1.12); undefined if it may. Throws MalformedDer.
 */
export function issuingFault(certificate: Certificate, below: number): string | undefined {
  const constraints = basicConstraints(certificate);
  if (constraints === undefined) return 'has no basic constraints';
  if (!constraints.isAuthority) return 'is not a certificate authority';
  if (constraints.pathLength < below) return 'has more certificates below it than its path length allows';
  const unfit = usageFault(certificate, 'keyCertSign');
  if (unfit !== undefined) return unfit;
  const purposes = extendedKeyUsage(certificate);
  if (purposes !== undefined && !PURPOSES_OF_ISSUERS.some((purpose) => purposes.includes(purpose)))
    return 'is for other purposes than time-stamping';
  return unprocessedExtension(certificate);
}

/** Why the key usage of the certificate does not allow that its key signs certificates, or revocation lists. Throws MalformedDer. */
export function usageFault(certificate: Certificate, use: 'keyCertSign' | 'cRLSign'): string | undefined {
  const usage = keyUsage(certificate);
  if (usage === undefined || usage.includes(KEY_USAGE[use])) return undefined;
  return use === 'cRLSign' ? 'must not sign revocation lists' : 'must not sign certificates';
}

/**
 * Why the certificate does not belong to a time-stamping unit: the extended key usage must be timeStamping only, and critical (RFC 3161,
 * section 2.3). Undefined if it does. Throws MalformedDer.
 */
export function timestampingFault(certificate: Certificate): string | undefined {
  const extension = certificate.extensions.get(OID.extKeyUsage);
  if (extension === undefined) return 'has no extended key usage';
  if (!extension.critical) return 'has an extended key usage that is not critical';
  const purposes = extendedKeyUsage(certificate);
  if (purposes?.length !== 1 || purposes[0] !== OID.timeStamping)
    return 'has an extended key usage other than timeStamping alone';
  const signing: readonly number[] = [KEY_USAGE.digitalSignature, KEY_USAGE.nonRepudiation];
  const usage = keyUsage(certificate);
  if (usage !== undefined && (usage.length === 0 || usage.some((bit) => !signing.includes(bit))))
    return 'has a key usage other than digital signatures';
  return unprocessedExtension(certificate);
}

const basicConstraints = rememberEach(({ extensions }: Certificate) => {
  const extension = extensions.get(OID.basicConstraints);
  if (extension === undefined) return undefined;
  const fields = new Fields(parseDer(extension.value));
  const ca = fields.takeIf(TAG.boolean);
  if (ca === undefined || !readBoolean(ca)) return { isAuthority: false, pathLength: 0 };
  const pathLength = fields.takeIf(TAG.integer);
  fields.end();
  return { isAuthority: true, pathLength: pathLength === undefined ? Infinity : readInteger(pathLength) };
});

const keyUsage = rememberEach(({ extensions }: Certificate) => {
  const extension = extensions.get(OID.keyUsage);
  return extension && readNamedBits(parseTagged(extension.value, TAG.bitString));
});

const extendedKeyUsage = rememberEach(({ extensions }: Certificate) => {
  const extension = extensions.get(OID.extKeyUsage);
  const purposes = extension && new Fields(parseDer(extension.value)).rest();
  return purposes?.map((purpose) => readOid(requireTag(purpose, TAG.oid)));
});

/** RFC 5280, section 4.2: a critical extension that is not processed makes the certificate unusable. */
function unprocessedExtension({ extensions }: Certificate): string | undefined {
  const [id] = [...extensions].find(([id, { critical }]) => critical && !PROCESSED.includes(id)) ?? [];
  return id && `has the critical extension ${id}, which is not supported`;
}
