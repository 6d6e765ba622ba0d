import { createPublicKey, type KeyObject, verify, X509Certificate } from 'node:crypto';
import { SIGNATURE_ALGORITHMS, type SignatureAlgorithm } from '../log/verifierKey.ts';

/**
 * Algorithms of the keys that a partition can hold. The log is signed with the first three, certificates and time-stamps with ecdsa-p256
 * and rsa-3072.
 */
export const KEY_ALGORITHMS = [...SIGNATURE_ALGORITHMS, 'rsa-3072'] as const;
export type KeyAlgorithm = SignatureAlgorithm | 'rsa-3072';

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
 * A function that checks whether a signature is the key's over the message: 64 bytes for Ed25519; DER of r and s over SHA-256 for ECDSA;
 * PKCS#1 v1.5 over SHA-256 for RSA; 2,420 bytes for ML-DSA-44, whose context is empty. Any message and signature are safe; the key must be
 * a valid one, and is parsed once. Takes 0.1 to 0.2 ms, and blocks: waking a thread of the system's pool and being woken by it costs 0.05
 * ms more, which a caller who waits for a receipt notices.
 */
export function verifierOf({ algorithm, spki }: TokenPublicKey): VerifySignature {
  const publicKey = createPublicKey({ key: Buffer.from(spki, 'base64'), format: 'der', type: 'spki' });
  const digest = algorithm === 'ed25519' || algorithm === 'mldsa44' ? null : 'sha256';
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
  if (algorithm === undefined) throw new RangeError(`a key of another kind (${key.asymmetricKeyType})`);
  return { algorithm, spki: key.export({ format: 'der', type: 'spki' }).toString('base64') };
}

function algorithmOf({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): KeyAlgorithm | undefined {
  switch (asymmetricKeyType) {
    case 'ed25519':
      return 'ed25519';
    case 'ml-dsa-44':
      return 'mldsa44';
    case 'ec':
      return asymmetricKeyDetails?.namedCurve === 'prime256v1' ? 'ecdsa-p256' : undefined;
    case 'rsa':
      return asymmetricKeyDetails?.modulusLength === 3072 ? 'rsa-3072' : undefined;
    default:
      return undefined;
  }
}
