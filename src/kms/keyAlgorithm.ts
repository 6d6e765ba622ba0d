import { createPublicKey, type KeyObject, verify, X509Certificate } from 'node:crypto';
import { AUTHORITY_ALGORITHMS, type AuthorityAlgorithm, signingDigest } from '../asn1/signatureAlgorithm.ts';
import { SIGNATURE_ALGORITHMS, type SignatureAlgorithm } from '../log/verifierKey.ts';

export type KeyAlgorithm = SignatureAlgorithm | AuthorityAlgorithm;
/** Algorithms of the keys that a partition can hold: for the log, and for certificates and time-stamps. */
export const KEY_ALGORITHMS: readonly KeyAlgorithm[] = [
  ...new Set([...SIGNATURE_ALGORITHMS, ...AUTHORITY_ALGORITHMS]),
];

export function signsLogs(algorithm: KeyAlgorithm): algorithm is SignatureAlgorithm {
  return SIGNATURE_ALGORITHMS.some((one) => one === algorithm);
}

/** A public key as read from the token. */
export interface TokenPublicKey<Algorithm extends KeyAlgorithm = KeyAlgorithm> {
  algorithm: Algorithm;
  /** Base64 of the DER SubjectPublicKeyInfo (RFC 5280, section 4.1). */
  spki: string;
  /** Whether the private key is in a file. */
  software?: true;
}

/** A key and the partition that holds it. */
export interface HeldKey<Algorithm extends KeyAlgorithm = KeyAlgorithm> extends TokenPublicKey<Algorithm> {
  region: string;
  keyLabel: string;
}

export type VerifySignature = (message: Uint8Array, signature: Uint8Array) => boolean;

/**
 * A function that checks whether a signature is the key's over the message: 64 bytes for Ed25519; DER of r and s for ECDSA, over SHA-256
 * with P-256 and SHA-384 with P-384;
 * PKCS#1 v1.5 over SHA-256 for RSA; 2,420 bytes for ML-DSA-44, whose context is empty. Any message and signature are safe; the key must be
 * a valid one, and is parsed once. Takes 0.1 to 0.2 ms, and blocks: waking a thread of the system's pool and being woken by it costs 0.05
 * ms more, which a caller who waits for a receipt notices.
 */
export function verifierOf({ algorithm, spki }: TokenPublicKey): VerifySignature {
  const publicKey = createPublicKey({ key: Buffer.from(spki, 'base64'), format: 'der', type: 'spki' });
  const digest = algorithm === 'ed25519' || algorithm === 'mldsa44' ? null : signingDigest(algorithm);
  return (message, signature) => verify(digest, message, publicKey, signature);
}

/** The key of a SubjectPublicKeyInfo, DER. Throws RangeError for a key of another kind, and the errors of OpenSSL. */
export function parsePublicKey(spki: Uint8Array): TokenPublicKey {
  return describePublicKey(createPublicKey({ key: Buffer.from(spki), format: 'der', type: 'spki' }));
}

/** The public key, or that of a certificate, in PEM. Throws like {@link parsePublicKey}. */
export function parsePublicKeyFile(pem: string): TokenPublicKey {
  const isCertificate = pem.includes('-----BEGIN CERTIFICATE-----');
  return describePublicKey(isCertificate ? new X509Certificate(pem).publicKey : createPublicKey(pem));
}

function describePublicKey(key: KeyObject): TokenPublicKey {
  const algorithm = algorithmOf(key);
  if (algorithm === undefined) throw new RangeError(describeKind(key));
  return { algorithm, spki: key.export({ format: 'der', type: 'spki' }).toString('base64') };
}

function describeKind({ asymmetricKeyType, asymmetricKeyDetails = {} }: KeyObject): string {
  const { modulusLength, namedCurve } = asymmetricKeyDetails;
  if (modulusLength !== undefined) return `an RSA key of ${modulusLength} bits`;
  return namedCurve === undefined ? `a key for ${asymmetricKeyType}` : `a key on the curve ${namedCurve}`;
}

/** By the names of OpenSSL. */
const CURVES: Record<string, KeyAlgorithm> = { prime256v1: 'ecdsa-p256', secp384r1: 'ecdsa-p384' };

function algorithmOf({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): KeyAlgorithm | undefined {
  switch (asymmetricKeyType) {
    case 'ed25519':
      return 'ed25519';
    case 'ml-dsa-44':
      return 'mldsa44';
    case 'ec':
      return CURVES[asymmetricKeyDetails?.namedCurve ?? ''];
    case 'rsa':
      return KEY_ALGORITHMS.find((one) => one === `rsa-${asymmetricKeyDetails?.modulusLength}`);
    default:
      return undefined;
  }
}
