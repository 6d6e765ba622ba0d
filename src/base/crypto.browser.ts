/** Browser implementation of `crypto.ts`, without Node. It does not handle secrets, so constant time is not needed. */
import { mod, pow } from '@noble/curves/abstract/modular.js';
import { ed25519 } from '@noble/curves/ed25519.js';
import { p256, p384, p521 } from '@noble/curves/nist.js';
import { sha1 } from '@noble/hashes/legacy.js';
import { sha256 as sha2_256, sha512 as sha2_512, sha384 } from '@noble/hashes/sha2.js';
import { ml_dsa44 } from '@noble/post-quantum/ml-dsa.js';
import { bytesEqual, concatBytes, toHex } from './bytes.ts';
import type { Curve, DigestName, PublicKey, RunningDigest } from './crypto.ts';
import { isWeakPoint } from './ed25519.ts';

const DIGESTS = { sha1, sha256: sha2_256, sha384, sha512: sha2_512 };
const CURVES = { 'P-256': p256, 'P-384': p384, 'P-521': p521 };

/** The prefix of the digest in a PKCS#1 v1.5 signature, DER of a DigestInfo (RFC 8017, section 9.2, note 1). */
const DIGEST_INFOS: Record<DigestName, string> = {
  sha256: '3031300d060960864801650304020105000420',
  sha384: '3041300d060960864801650304020205000430',
  sha512: '3051300d060960864801650304020305000440',
};

export function digestOf(name: DigestName | 'sha1', data: Uint8Array): Uint8Array {
  return DIGESTS[name](data);
}

export function sha256(data: Uint8Array): Uint8Array {
  return sha2_256(data);
}

export function runningDigest(name: DigestName): RunningDigest {
  return DIGESTS[name].create();
}

export function sha512(data: Uint8Array): Uint8Array {
  return sha2_512(data);
}

export function verify(
  key: PublicKey,
  digest: DigestName,
  message: Uint8Array,
  signature: Uint8Array,
): boolean {
  try {
    switch (key.type) {
      case 'ed25519':
        return verifyEd25519(key.point, message, signature);
      case 'ec':
        return verifyEcdsa(key.curve, key.point, digestOf(digest, message), signature);
      case 'rsa':
        return verifyRsa(key, digest, digestOf(digest, message), signature);
      case 'mldsa44':
        return ml_dsa44.verify(signature, message, key.key);
    }
  } catch {
    // A point off its curve, numbers out of range, a signature that is not DER, or a key of the wrong length.
    return false;
  }
}

export function isOnCurve(key: PublicKey): boolean {
  if (key.type !== 'ec') return true;
  try {
    CURVES[key.curve].Point.fromBytes(key.point).assertValidity();
    return true;
  } catch {
    return false;
  }
}

/**
 * RFC 8032, section 5.1.7, without the cofactor, as in OpenSSL: the recomputed R must equal the R in the signature. noble's own
 * verification multiplies by the cofactor, and therefore accepts signatures that OpenSSL rejects and that only the key's owner can make.
 */
function verifyEd25519(publicKey: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean {
  if (signature.length !== 64 || isWeakPoint(publicKey) || isWeakPoint(signature.subarray(0, 32)))
    return false;
  const { Point } = ed25519;
  const [r, s] = [signature.subarray(0, 32), littleEndian(signature.subarray(32))];
  if (s >= Point.Fn.ORDER) return false;
  const k = mod(littleEndian(sha512(concatBytes([r, publicKey, message]))), Point.Fn.ORDER);
  const negatedKey = Point.fromBytes(publicKey).negate();
  const expected = Point.BASE.multiplyUnsafe(s).add(negatedKey.multiplyUnsafe(k));
  return bytesEqual(expected.toBytes(), r);
}

function verifyEcdsa(curve: Curve, point: Uint8Array, digest: Uint8Array, signature: Uint8Array): boolean {
  const options = { prehash: false, lowS: false, format: 'der' } as const;
  return CURVES[curve].verify(signature, digest, point, options);
}

/** Builds the only valid encoding of the digest and compares it: the content of the signature is never parsed. */
function verifyRsa(
  { modulus, exponent }: Extract<PublicKey, { type: 'rsa' }>,
  name: DigestName,
  digest: Uint8Array,
  signature: Uint8Array,
): boolean {
  if (signature.length !== modulus.length) return false;
  const [n, s] = [bigEndian(modulus), bigEndian(signature)];
  if (s >= n) return false;
  const info = DIGEST_INFOS[name] + toHex(digest);
  const padding = 'ff'.repeat(modulus.length - info.length / 2 - 3);
  return pow(s, bigEndian(exponent), n) === BigInt(`0x0001${padding}00${info}`);
}

function bigEndian(octets: Uint8Array): bigint {
  return BigInt(`0x${toHex(octets)}`);
}

function littleEndian(octets: Uint8Array): bigint {
  return bigEndian(octets.toReversed());
}
