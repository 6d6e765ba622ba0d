import { verify } from 'node:crypto';

// A browser's bundle uses `mlDsa.browser.ts` instead of this file (package.json, "browser").

/** SubjectPublicKeyInfo of an ML-DSA-44 key, up to the key itself (RFC 9881, section 4). */
const ML_DSA_44_SPKI = Buffer.from('30820532300b06096086480165030403110382052100', 'hex');

/** Length of an ML-DSA-44 public key and of its signatures, bytes (FIPS 204, table 2). */
export const ML_DSA_44 = { keyBytes: 1312, signatureBytes: 2420 } as const;

/**
 * Whether the signature is the key's over the message: pure ML-DSA-44 with an empty context (FIPS 204, algorithm 3). Any key,
 * message and signature are safe.
 */
export function verifyMlDsa44(key: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean {
  if (key.length !== ML_DSA_44.keyBytes || signature.length !== ML_DSA_44.signatureBytes) return false;
  const spki = Buffer.concat([ML_DSA_44_SPKI, key]);
  return verify(null, message, { key: spki, format: 'der', type: 'spki' }, signature);
}
