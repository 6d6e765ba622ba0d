import * as node from 'node:crypto';
import { isWeakPoint } from './ed25519.ts';
import { rememberEach } from './remember.ts';

// Browser bundles use `crypto.browser.ts` instead of this file (package.json, "browser").

/** Hash functions that evidence may use (ETSI TS 119 312). */
export type DigestName = 'sha256' | 'sha384' | 'sha512';

export type Curve = 'P-256' | 'P-384' | 'P-521';

/** The parts of a public key, already decoded. */
export type PublicKey =
  /** 32 bytes (RFC 8032). */
  | { type: 'ed25519'; point: Uint8Array }
  /** The uncompressed point (SEC 1, section 2.3.3): 0x04, x, y. */
  | { type: 'ec'; curve: Curve; point: Uint8Array }
  /** Big-endian, without leading zeros. */
  | { type: 'rsa'; modulus: Uint8Array; exponent: Uint8Array }
  /** 1,312 bytes (FIPS 204, table 2). */
  | { type: 'mldsa44'; key: Uint8Array };

/** SubjectPublicKeyInfo of an ML-DSA-44 key, up to the key itself (RFC 9881, section 4). */
const ML_DSA_44_SPKI = Buffer.from('30820532300b06096086480165030403110382052100', 'hex');

// The digest passes through a binary string: for the short inputs of a Merkle tree this is twice as fast as a
// Buffer, which node:crypto allocates outside the pool.

/** SHA-1 is used only to identify a certificate in the oldest form of that attribute (RFC 2634, ESSCertID). */
export function digestOf(name: DigestName | 'sha1', data: Uint8Array): Uint8Array {
  return Buffer.from(node.hash(name, data, 'binary'), 'binary');
}

/** SHA-256 of the bytes: 32 bytes. */
export function sha256(data: Uint8Array): Uint8Array {
  return Buffer.from(node.hash('sha256', data, 'binary'), 'binary');
}

/** Hashes bytes that come in pieces. */
export function runningDigest(name: DigestName): RunningDigest {
  const hash = node.createHash(name);
  return {
    update(data) {
      hash.update(data);
    },
    digest: () => hash.digest(),
  };
}

export interface RunningDigest {
  update(data: Uint8Array): void;
  /** Once, after the last piece. */
  digest(): Uint8Array;
}

/** SHA-512 of the bytes: 64 bytes. */
export function sha512(data: Uint8Array): Uint8Array {
  return Buffer.from(node.hash('sha512', data, 'binary'), 'binary');
}

/**
 * Whether the signature over the message was made with the key: Ed25519 (RFC 8032, section 5.1.7, without the cofactor, no point of small
 * order), DER of r and s for ECDSA (RFC 3279, section 2.2.3), PKCS#1 v1.5 for RSA (RFC 8017, section 8.2.2), pure ML-DSA with an empty
 * context (FIPS 204, algorithm 3). Ed25519 and ML-DSA hash internally and ignore `digest`. Any key, message and signature are safe.
 */
export function verify(
  key: PublicKey,
  digest: DigestName,
  message: Uint8Array,
  signature: Uint8Array,
): boolean {
  if (key.type === 'ed25519' && (isWeakPoint(key.point) || isWeakPoint(signature.subarray(0, 32))))
    return false;
  // OpenSSL accepts a longer key and ignores its end.
  if (key.type === 'mldsa44' && key.key.length !== 1312) return false;
  try {
    const hashesItself = key.type === 'ed25519' || key.type === 'mldsa44';
    return node.verify(hashesItself ? null : digest, message, keyObject(key), signature);
  } catch {
    // OpenSSL throws for some malformed keys and signatures.
    return false;
  }
}

/** Whether the point is on its curve; true for a key without a curve to check. */
export function isOnCurve(key: PublicKey): boolean {
  if (key.type !== 'ec') return true;
  try {
    keyObject(key);
    return true;
  } catch {
    return false;
  }
}

/** Importing a key costs as much as verifying with it, and the same few keys are used repeatedly. */
const keyObject = rememberEach((key: PublicKey) =>
  key.type === 'mldsa44'
    ? node.createPublicKey({ key: Buffer.concat([ML_DSA_44_SPKI, key.key]), format: 'der', type: 'spki' })
    : node.createPublicKey({ key: toJwk(key), format: 'jwk' }),
);

function toJwk(key: Exclude<PublicKey, { type: 'mldsa44' }>): node.JsonWebKey {
  const base64url = (data: Uint8Array) => Buffer.from(data).toString('base64url');
  switch (key.type) {
    case 'ed25519':
      return { kty: 'OKP', crv: 'Ed25519', x: base64url(key.point) };
    case 'ec': {
      const middle = (key.point.length + 1) / 2;
      const [x, y] = [key.point.subarray(1, middle), key.point.subarray(middle)];
      return { kty: 'EC', crv: key.curve, x: base64url(x), y: base64url(y) };
    }
    case 'rsa':
      return { kty: 'RSA', n: base64url(key.modulus), e: base64url(key.exponent) };
  }
}
