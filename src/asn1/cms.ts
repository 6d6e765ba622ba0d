import { type DigestName, digestOf, sha256 } from '../base/crypto.ts';
import { rememberEach } from '../base/remember.ts';
import type { Certificate } from './certificate.ts';
import {
  constructed,
  contentOf,
  contextTag,
  type Element,
  Fields,
  integer,
  MalformedDer,
  octetString,
  oid,
  parseDer,
  primitive,
  primitiveTag,
  readExplicit,
  readInteger,
  readOid,
  retagged,
  sequence,
  setOf,
  TAG,
} from './der.ts';
import { OID } from './oid.ts';
import {
  type AuthorityAlgorithm,
  digestAlgorithm,
  readDigestAlgorithm,
  readSignatureAlgorithm,
  type SignatureScheme,
  signatureAlgorithm,
  signingDigest,
} from './signatureAlgorithm.ts';

/** A SignedData (RFC 5652, section 5) with encapsulated content and exactly one signer, with signed attributes. */
export interface SignedData {
  contentType: string;
  content: Uint8Array;
  /** DER of each certificate, in the order of the encoding. */
  certificates: Uint8Array[];
  signer: SignerInfo;
}

export interface SignerInfo {
  /** The claimed signer: DER Name and content octets of the serial number, or a subject key identifier. */
  id: { issuer: Uint8Array; serial: Uint8Array } | { subjectKeyIdentifier: Uint8Array };
  /** Undefined if the algorithm is not supported. */
  digest: DigestName | undefined;
  scheme: SignatureScheme | undefined;
  /** The values of the attributes, by attribute type. */
  attributes: ReadonlyMap<string, readonly Element[]>;
  /** The signed bytes: the attributes as a SET OF (section 5.4). */
  signedBytes: Uint8Array;
  signature: Uint8Array;
}

/** More certificates than any authority sends. */
const CERTIFICATES_MAX = 16;
/** The parts of a Certificate (RFC 5280, section 4.1). */
const CERTIFICATE_TAGS = [TAG.sequence, TAG.sequence, TAG.bitString].join();

/**
 * The bytes that the signer signs: the DER SET OF its attributes (RFC 5652, section 5.4). They include the
 * certificate's digest (RFC 5035, ESSCertIDv2 with SHA-256), which binds the signature to this certificate. `digest`: that of the
 * signature ({@link signingDigest}).
 */
export function encodeSignedAttributes(
  contentType: string,
  content: Uint8Array,
  certificate: Certificate,
  digest: DigestName,
): Uint8Array {
  return setOf([
    attribute(OID.contentType, oid(contentType)),
    attribute(OID.messageDigest, octetString(digestOf(digest, content))),
    signingCertificate(certificate),
  ]);
}

/** ContentInfo of a SignedData with one signer. `signature` is over {@link encodeSignedAttributes}. */
export function encodeSignedData(options: {
  contentType: string;
  content: Uint8Array;
  signedAttributes: Uint8Array;
  signature: Uint8Array;
  algorithm: AuthorityAlgorithm;
  certificate: Certificate;
  /** The certificates to include, if any. */
  certificates: readonly Certificate[];
}): Uint8Array {
  const { contentType, content, signedAttributes, signature, algorithm, certificate, certificates } = options;
  const digest = digestAlgorithm(signingDigest(algorithm));
  const signerInfo = sequence(
    integer(1),
    issuerAndSerial(certificate),
    digest,
    retagged(contextTag(0), signedAttributes),
    signatureAlgorithm(algorithm),
    octetString(signature),
  );
  const ders = certificates.map(({ der }) => der);
  const signedData = sequence(
    // Version 3: the content type is not id-data (section 5.1).
    integer(3),
    setOf([digest]),
    sequence(oid(contentType), constructed(contextTag(0), [octetString(content)])),
    certificates.length === 0 ? undefined : setOf(ders, contextTag(0)),
    setOf([signerInfo]),
  );
  return sequence(oid(OID.signedData), constructed(contextTag(0), [signedData]));
}

/** Reads a SignedData from {@link encodeSignedData} or from another implementation. Throws MalformedDer. */
export function parseSignedData(der: Uint8Array): SignedData {
  const info = new Fields(parseDer(der));
  if (readOid(info.take(TAG.oid)) !== OID.signedData) throw new MalformedDer('not a SignedData');
  const fields = new Fields(readExplicit(info.take(contextTag(0)), TAG.sequence));
  info.end();
  readInteger(fields.take(TAG.integer));
  for (const algorithm of new Fields(fields.take(TAG.set), TAG.set).rest()) readDigestAlgorithm(algorithm);
  const encapsulated = new Fields(fields.take(TAG.sequence));
  const contentType = readOid(encapsulated.take(TAG.oid));
  const content = contentOf(readExplicit(encapsulated.take(contextTag(0)), TAG.octetString));
  encapsulated.end();
  const certificates = readCertificates(fields.takeIf(contextTag(0)));
  fields.takeIf(contextTag(1));
  const [signer, second] = new Fields(fields.take(TAG.set), TAG.set).rest();
  fields.end();
  if (signer === undefined || second !== undefined) throw new MalformedDer('not exactly one signer');
  return { contentType, content, certificates, signer: readSignerInfo(signer) };
}

/** The value of an attribute that must occur once, with one value (RFC 5652, section 11). Throws MalformedDer. */
export function readAttribute({ attributes }: SignerInfo, type: string): Element {
  const [value, second] = attributes.get(type) ?? [];
  if (value === undefined || second !== undefined)
    throw new MalformedDer(`not exactly one attribute ${type}`);
  return value;
}

/**
 * The digest of the signer's certificate in the signed attributes: from SigningCertificateV2 (RFC 5035), or else from SigningCertificate
 * with SHA-1 (RFC 2634), which some authorities still send alone. RFC 5816 allows both. Undefined if the hash function is not supported.
 * Throws MalformedDer.
 */
export function readSigningCertificate(
  signer: SignerInfo,
): { digest: DigestName | 'sha1'; hash: Uint8Array } | undefined {
  const isV2 = signer.attributes.has(OID.signingCertificateV2);
  const value = readAttribute(signer, isV2 ? OID.signingCertificateV2 : OID.signingCertificate);
  const list = new Fields(value).take(TAG.sequence);
  const id = new Fields(new Fields(list).take(TAG.sequence));
  const algorithm = isV2 ? id.takeIf(TAG.sequence) : undefined;
  const digest = algorithm === undefined ? (isV2 ? 'sha256' : 'sha1') : readDigestAlgorithm(algorithm);
  return digest && { digest, hash: contentOf(id.take(TAG.octetString)) };
}

function attribute(type: string, value: Uint8Array): Uint8Array {
  return sequence(oid(type), setOf([value]));
}

const issuerAndSerial = rememberEach(({ issuer, serial }: Certificate) =>
  sequence(issuer, primitive(TAG.integer, serial)),
);

/** Attribute SigningCertificateV2 with one ESSCertIDv2. SHA-256 is the default, so DER omits it. */
const signingCertificate = rememberEach(({ der, issuer, serial }: Certificate) => {
  const generalNames = sequence(constructed(contextTag(4), [issuer]));
  const essCertId = sequence(
    octetString(sha256(der)),
    sequence(generalNames, primitive(TAG.integer, serial)),
  );
  return attribute(OID.signingCertificateV2, sequence(sequence(essCertId)));
});

/** Ignores attribute certificates and other formats (section 10.2.2), which are not needed here. */
function readCertificates(element: Element | undefined): Uint8Array[] {
  if (element === undefined) return [];
  const choices = new Fields(element, contextTag(0)).rest();
  if (choices.length > CERTIFICATES_MAX) throw new MalformedDer(`more than ${CERTIFICATES_MAX} certificates`);
  const certificates = choices.filter(({ tag }) => tag === TAG.sequence);
  if (certificates.some(({ elements = [] }) => elements.map(({ tag }) => tag).join() !== CERTIFICATE_TAGS))
    throw new MalformedDer('no certificate where one belongs');
  return certificates.map(({ der }) => der);
}

function readSignerInfo(element: Element): SignerInfo {
  const fields = new Fields(element);
  readInteger(fields.take(TAG.integer));
  const keyIdentifier = fields.takeIf(primitiveTag(0));
  const id = keyIdentifier
    ? { subjectKeyIdentifier: contentOf(keyIdentifier) }
    : readIssuerAndSerial(fields.take(TAG.sequence));
  const digest = readDigestAlgorithm(fields.take(TAG.sequence));
  const attributes = fields.take(contextTag(0));
  const scheme = readSignatureAlgorithm(fields.take(TAG.sequence), digest);
  const signature = contentOf(fields.take(TAG.octetString));
  fields.takeIf(contextTag(1));
  fields.end();
  return {
    id,
    digest,
    scheme,
    attributes: readAttributes(new Fields(attributes, contextTag(0)).rest()),
    // Keeps the order of the encoding: some authorities do not sort the attributes, and sign the unsorted ones.
    signedBytes: retagged(TAG.set, attributes.der),
    signature,
  };
}

function readIssuerAndSerial(element: Element): { issuer: Uint8Array; serial: Uint8Array } {
  const names = new Fields(element);
  const issuer = names.take(TAG.sequence).der;
  const serial = contentOf(names.take(TAG.integer));
  names.end();
  return { issuer, serial };
}

function readAttributes(elements: readonly Element[]): Map<string, Element[]> {
  const attributes = new Map<string, Element[]>();
  for (const element of elements) {
    const fields = new Fields(element);
    const type = readOid(fields.take(TAG.oid));
    const values = new Fields(fields.take(TAG.set), TAG.set).rest();
    fields.end();
    attributes.set(type, [...(attributes.get(type) ?? []), ...values]);
  }
  return attributes;
}
