import { createPublicKey } from 'node:crypto';
import { type ClassicalAlgorithm, SPKI_FORMS } from '../log/verifierKey.ts';

type CurveAlgorithm = ClassicalAlgorithm | 'ecdsa-p384';

/** CKA_EC_PARAMS per algorithm: the curve's object identifier in DER (RFC 8410, section 3; RFC 5480, section 2.1.1.1). */
export const EC_PARAMS: Record<CurveAlgorithm, Buffer> = {
  ed25519: Buffer.from('06032b6570', 'hex'),
  'ecdsa-p256': Buffer.from('06082a8648ce3d030107', 'hex'),
  'ecdsa-p384': Buffer.from('06052b81040022', 'hex'),
};

/** PKCS#11 3.0, section 2.3.10, also lets a token name the curve as PrintableString "edwards25519". */
export const EDWARDS25519_BY_NAME = Buffer.from('130c656477617264733235353139', 'hex');

const OCTET_STRING = 0x04;
const INTEGER = 0x02;
const SEQUENCE = 0x30;

/** The algorithm for a key's CKA_EC_PARAMS; undefined for a curve that is not used here. */
export function algorithmOfCurve(ecParams: Uint8Array): CurveAlgorithm | undefined {
  if (EC_PARAMS['ecdsa-p256'].equals(ecParams)) return 'ecdsa-p256';
  if (EC_PARAMS['ecdsa-p384'].equals(ecParams)) return 'ecdsa-p384';
  if (EC_PARAMS.ed25519.equals(ecParams) || EDWARDS25519_BY_NAME.equals(ecParams)) return 'ed25519';
  return undefined;
}

/** As in {@link SPKI_FORMS}. */
const P384_FORM = { prefix: '3076301006072a8648ce3d020106052b8104002203620004', bytes: 120, pointAt: 23 };

/**
 * DER SubjectPublicKeyInfo of a CKA_EC_POINT, or of the CKA_VALUE of an ML-DSA-44 key (RFC 9881, section 4). Tokens differ: most wrap the
 * point into an OCTET STRING, some return it bare; the lengths tell them apart. Throws RangeError or an OpenSSL error for an invalid key.
 */
export function encodeSpki(algorithm: CurveAlgorithm | 'mldsa44', key: Uint8Array): Buffer {
  const { prefix, bytes, pointAt } = algorithm === 'ecdsa-p384' ? P384_FORM : SPKI_FORMS[algorithm];
  const length = bytes - pointAt;
  const wrapped = key.length === length + 2 && key[0] === OCTET_STRING && key[1] === length;
  const bare = wrapped ? key.subarray(2) : key;
  if (bare.length !== length) throw new RangeError(`a public key of ${key.length} bytes`);
  const spki = Buffer.concat([Buffer.from(prefix, 'hex').subarray(0, pointAt), bare]);
  createPublicKey({ key: spki, format: 'der', type: 'spki' });
  return spki;
}

/** DER SubjectPublicKeyInfo of a CKA_MODULUS and CKA_PUBLIC_EXPONENT. Throws an OpenSSL error for an invalid key. */
export function encodeRsaSpki(modulus: Uint8Array, publicExponent: Uint8Array): Buffer {
  const key = createPublicKey({
    key: { kty: 'RSA', n: toBase64Url(modulus), e: toBase64Url(publicExponent) },
    format: 'jwk',
  });
  return key.export({ format: 'der', type: 'spki' });
}

function toBase64Url(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64url');
}

/** DigestInfo (RFC 8017, section 9.2) of SHA-256: the bytes that precede the digest. */
const SHA256_INFO = Buffer.from('3031300d060960864801650304020105000420', 'hex');

/** The data for CKM_RSA_PKCS: not every token offers CKM_SHA256_RSA_PKCS. */
export function encodeDigestInfo(sha256: Uint8Array): Buffer {
  return Buffer.concat([SHA256_INFO, sha256]);
}

/** DER Ecdsa-Sig-Value (RFC 3279, section 2.2.3) of the bare r ‖ s that CKM_ECDSA returns: `bytes` is twice the length of the curve's order. */
export function encodeEcdsaSignature(raw: Uint8Array, bytes = 64): Buffer {
  const half = bytes / 2;
  if (raw.length !== bytes) throw new RangeError(`an ECDSA signature of ${raw.length} bytes`);
  const body = Buffer.concat([encodeUnsigned(raw.subarray(0, half)), encodeUnsigned(raw.subarray(half))]);
  return Buffer.concat([Buffer.from([SEQUENCE, body.length]), body]);
}

/** DER INTEGER of a big-endian unsigned number: as short as possible, with a zero byte in front if the sign bit is set. */
function encodeUnsigned(number: Uint8Array): Buffer {
  const first = number.findIndex((byte) => byte !== 0);
  const digits = first === -1 ? Buffer.alloc(1) : number.subarray(first);
  const padding = (digits[0] ?? 0) >= 0x80 ? [0] : [];
  return Buffer.from([INTEGER, padding.length + digits.length, ...padding, ...digits]);
}
