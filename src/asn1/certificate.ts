import { type KeyObject, X509Certificate } from 'node:crypto';
import { bytesEqual } from '../base/bytes.ts';
import { readSignatureAlgorithm, type SignatureScheme } from './algorithm.ts';
import {
  contentOf,
  contextTag,
  type Element,
  encodeDer,
  Fields,
  MalformedDer,
  parseDer,
  primitiveTag,
  readBoolean,
  readInteger,
  readNamedBits,
  readOid,
  TAG,
} from './der.ts';
import { OID } from './oid.ts';

/** A certificate (RFC 5280): parts for the rules of this service, `x509` for OpenSSL's. */
export interface Certificate {
  der: Buffer;
  x509: X509Certificate;
  publicKey: KeyObject;
  /** DER of the Name. */
  subject: Buffer;
  issuer: Buffer;
  /** Content octets of the serial number. */
  serial: Buffer;
  /** Milliseconds since the epoch, both inclusive. */
  notBefore: number;
  notAfter: number;
  /** DER SubjectPublicKeyInfo. */
  spki: Buffer;
  /** How its issuer signed it; undefined for an algorithm that is not trusted here. */
  scheme: SignatureScheme | undefined;
  extensions: ReadonlyMap<string, Extension>;
}

interface Extension {
  critical: boolean;
  /** DER inside the extension's OCTET STRING. */
  value: Buffer;
}

/** Bits of KeyUsage (RFC 5280, section 4.2.1.3). */
export const KEY_USAGE = { digitalSignature: 0, nonRepudiation: 1, keyCertSign: 5, cRLSign: 6 } as const;

const CERTIFICATE_BYTES_MAX = 16_384;

/** Extensions that may be critical: those whose rules are applied, and policies, which restrict nothing where none is demanded. */
const PROCESSED: readonly string[] = [
  OID.basicConstraints,
  OID.keyUsage,
  OID.extKeyUsage,
  OID.certificatePolicies,
];

/** Reads a certificate. Throws MalformedDer for anything but the DER of one. */
export function parseCertificate(der: Uint8Array): Certificate {
  if (der.length > CERTIFICATE_BYTES_MAX) throw new MalformedDer('a certificate of more than 16 KiB');
  const outer = new Fields(parseDer(der));
  const tbs = new Fields(outer.take(TAG.sequence));
  const version = tbs.takeIf(contextTag(0));
  if (version !== undefined) new Fields(version, contextTag(0)).take(TAG.integer);
  const serial = contentOf(tbs.take(TAG.integer));
  tbs.take(TAG.sequence);
  const issuer = encodeDer(tbs.take(TAG.sequence));
  tbs.take(TAG.sequence);
  const subject = encodeDer(tbs.take(TAG.sequence));
  const spki = encodeDer(tbs.take(TAG.sequence));
  tbs.takeIf(primitiveTag(1));
  tbs.takeIf(primitiveTag(2));
  const extensions = readExtensions(tbs.takeIf(contextTag(3)));
  tbs.end();
  const scheme = readScheme(outer.take(TAG.sequence));
  const { x509, publicKey } = readX509(der);
  return {
    der: Buffer.from(der),
    x509,
    publicKey,
    subject,
    issuer,
    serial,
    notBefore: x509.validFromDate.getTime(),
    notAfter: x509.validToDate.getTime(),
    spki,
    scheme,
    extensions,
  };
}

function readX509(der: Uint8Array): { x509: X509Certificate; publicKey: KeyObject } {
  try {
    const x509 = new X509Certificate(der);
    // OpenSSL is asked for PEM first, and finds it even in the middle of DER: then it read another certificate.
    if (bytesEqual(x509.raw, der)) return { x509, publicKey: x509.publicKey };
  } catch {
    // Says nothing that helps.
  }
  throw new MalformedDer('a certificate that OpenSSL does not take');
}

/** A scheme with parameters of its own (RSASSA-PSS) is as good as unknown. */
function readScheme(element: Element): SignatureScheme | undefined {
  return readSignatureAlgorithm(element);
}

function readExtensions(element: Element | undefined): Map<string, Extension> {
  const extensions = new Map<string, Extension>();
  if (element === undefined) return extensions;
  const list = new Fields(element, contextTag(3)).take(TAG.sequence);
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

/** The subject in one line, for people. */
export function describeSubject({ x509 }: Certificate): string {
  return x509.subject === undefined ? '(no name)' : x509.subject.split('\n').join(', ');
}

export function isValidAt({ notBefore, notAfter }: Certificate, epochMs: number): boolean {
  return notBefore <= epochMs && epochMs <= notAfter;
}

/** Content octets of the subject key identifier, where there is one. Throws MalformedDer. */
export function subjectKeyIdentifier(certificate: Certificate): Buffer | undefined {
  const extension = certificate.extensions.get(OID.subjectKeyIdentifier);
  return extension && contentOf(parseDer(extension.value));
}

/**
 * Why the certificate may not issue others, `below` intermediate ones between it and the end (RFC 5280, sections 4.2.1.3
 * and 4.2.1.9); undefined when it may. Throws MalformedDer.
 */
export function issuingFault(certificate: Certificate, below: number): string | undefined {
  const constraints = certificate.extensions.get(OID.basicConstraints);
  if (constraints === undefined) return 'has no basic constraints';
  const fields = new Fields(parseDer(constraints.value));
  const ca = fields.takeIf(TAG.boolean);
  if (ca === undefined || !readBoolean(ca)) return 'is no certificate authority';
  const pathLength = fields.takeIf(TAG.integer);
  if (pathLength !== undefined && readInteger(pathLength) < below)
    return 'stands too high for its path length';
  const usage = keyUsage(certificate);
  if (usage !== undefined && !usage.includes(KEY_USAGE.keyCertSign)) return 'may not sign certificates';
  return unprocessedExtension(certificate);
}

/**
 * Why the certificate is not one of a time-stamping unit: the extended key usage must be timeStamping, alone and critical
 * (RFC 3161, section 2.3). undefined when it is. Throws MalformedDer.
 */
export function timestampingFault(certificate: Certificate): string | undefined {
  const extension = certificate.extensions.get(OID.extKeyUsage);
  if (extension === undefined) return 'has no extended key usage';
  if (!extension.critical) return 'has an extended key usage that is not critical';
  const purposes = new Fields(parseDer(extension.value)).rest().map(readOid);
  if (purposes.length !== 1 || purposes[0] !== OID.timeStamping) {
    return 'has an extended key usage other than timeStamping alone';
  }
  const signing: readonly number[] = [KEY_USAGE.digitalSignature, KEY_USAGE.nonRepudiation];
  const usage = keyUsage(certificate);
  if (usage !== undefined && (usage.length === 0 || usage.some((bit) => !signing.includes(bit)))) {
    return 'has a key usage other than digital signatures';
  }
  return unprocessedExtension(certificate);
}

function keyUsage(certificate: Certificate): number[] | undefined {
  const extension = certificate.extensions.get(OID.keyUsage);
  return extension && readNamedBits(parseDer(extension.value));
}

/** RFC 5280, section 4.2: a critical extension that is not processed makes the certificate unusable. */
function unprocessedExtension({ extensions }: Certificate): string | undefined {
  for (const [id, { critical }] of extensions) {
    if (critical && !PROCESSED.includes(id))
      return `has the critical extension ${id}, which is not known here`;
  }
  return undefined;
}
