/** Signature schemes a log key can have; the closed list behind the receipt's `algorithm`. */
export type SignatureAlgorithm = 'ed25519' | 'ecdsa-p256';

/** A key that may sign this log, and the HSM partition that holds it. */
export interface LogKey {
  region: string;
  keyLabel: string;
  algorithm: SignatureAlgorithm;
  /** Base64 of the DER SubjectPublicKeyInfo (RFC 5280, section 4.1). */
  spki: string;
}
