import { ml_dsa44 } from '@noble/post-quantum/ml-dsa.js';

// Takes the place of `mlDsa.ts` in a browser's bundle (package.json, "browser").

/** Length of an ML-DSA-44 public key and of its signatures, bytes (FIPS 204, table 2). */
export const ML_DSA_44 = { keyBytes: 1312, signatureBytes: 2420 } as const;

/** See `mlDsa.ts`. Takes about 5 ms. */
export function verifyMlDsa44(key: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean {
  if (key.length !== ML_DSA_44.keyBytes || signature.length !== ML_DSA_44.signatureBytes) return false;
  return ml_dsa44.verify(signature, message, key);
}
