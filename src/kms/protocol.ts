import type { KeyAlgorithm, TokenPublicKey } from './keyAlgorithm.ts';

/** Where one signing key lives: a PKCS#11 token, found by label or serial number (slot ids change), and a key on it; or a file. */
export interface TokenOptions {
  /** Path of the PKCS#11 module, a shared library. Absent: this is a software key, and `pinFile` is the file that holds it. */
  module?: string;
  /** What the module is given when it is initialised (`pReserved`, as NSS takes it). */
  libraryParameters?: string;
  tokenLabel?: string;
  tokenSerial?: string;
  keyLabel: string;
  /** File with the user PIN, or with the software key, and nothing else; a final line break is not part of it. No access for others. */
  pinFile: string;
  /** Where an administrator writes the PIN, in words, if the service manager makes `pinFile` from another file. */
  pinSource?: string;
  /** Environment variables the module needs, e.g. `SOFTHSM2_CONF`. The child gets nothing else from ours. */
  environment?: Record<string, string>;
}

/** What a token says of a private key it holds. */
export interface KeyProtection {
  /** Attributes by which the key could leave the token, such as `CKA_EXTRACTABLE = true`; none for a key as made here. */
  exposures: string[];
  /** Whether the token says that it was made there and could never leave; false for a key that was imported, for example by a restore. */
  wasAlwaysInside: boolean;
}

export type TokenAccess = 'read' | 'write';

/**
 * What the parent may ask of a signer, in this order. No request carries the PIN: the child reads it from `token.pinFile`.
 * Logging in is a step of its own because it must not be repeated lightly.
 */
export type SignerRequest =
  /** Loads the module, finds the token and opens so many sessions, or as many as the token allows. */
  | { kind: 'connect'; token: TokenOptions; access: TokenAccess; sessions: number }
  | { kind: 'logIn' }
  | { kind: 'findKey' }
  | { kind: 'generateKey'; algorithm: KeyAlgorithm }
  /** What the token says of the key that was found. */
  | { kind: 'inspectKey' }
  /** Destroys both halves of the pair. */
  | { kind: 'destroyKey' }
  /** At most as many at the same time as there are sessions; answered in the order in which they end. */
  | { kind: 'sign'; message: Uint8Array }
  /** Carried out when all signatures under way have ended. */
  | { kind: 'close' };

/** The sessions of a child: at least one. */
export interface OpenedSessions {
  sessions: number;
  /** Return value of PKCS#11 (`CKR_…`) by which the token refused more sessions; absent if it gave all. */
  refusal?: string;
}

export interface SignerAnswers {
  connect: OpenedSessions;
  logIn: undefined;
  findKey: TokenPublicKey;
  generateKey: TokenPublicKey;
  inspectKey: KeyProtection;
  destroyKey: undefined;
  /** Ed25519: 64 bytes (RFC 8032); ecdsa-p256: DER Ecdsa-Sig-Value (RFC 3279, section 2.2.3); rsa-3072: 384 bytes; mldsa44: 2,420 bytes. */
  sign: Uint8Array;
  close: undefined;
}

export type SignerReply =
  | { id: number; answer: SignerAnswers[keyof SignerAnswers] }
  | { id: number; failure: { code: string; detail: string; pinFileVersion?: string | undefined } };
