import pkcs11 from 'pkcs11js';
import { type DigestName, digestOf, sha256 } from '../base/crypto.ts';
import { encodeDigestInfo, encodeEcdsaSignature } from './encoding.ts';
import type { KeyAlgorithm, TokenPublicKey } from './keyAlgorithm.ts';
import { asPkcs11Error } from './module.ts';
import type { KeyProtection } from './protocol.ts';
import { SignerFailure } from './signerFailure.ts';

/** PKCS#11 3.0, section 2.3.5, and 3.2, section 6.67; pkcs11js knows the names of version 2.30 only. */
const CKM_EDDSA = 0x1057;
const CKM_ML_DSA = 0x1d;

/** How the token signs a message. */
interface Signing {
  mechanism: number;
  /** Length of the signature that the token returns: some modules (NSS) refuse a longer buffer. */
  bytes: number;
  /** What the mechanism signs. */
  input(message: Uint8Array): Uint8Array;
  /** For tokens without the mechanism. */
  otherwise?: Signing;
}

const itself = (message: Uint8Array) => message;

/** CKM_ECDSA takes the digest: not every token (SoftHSM, for one) offers CKM_ECDSA_SHA256. */
function ecdsa(bytes: number, digest: DigestName): Signing {
  return { mechanism: pkcs11.CKM_ECDSA, bytes, input: (message) => digestOf(digest, message) };
}

/** PKCS#1 v1.5 over SHA-256: some tokens have only the mechanism without a digest (opencryptoki 3.8), others may permit only the other one. */
function rsa(bytes: number): Signing {
  const otherwise = { mechanism: pkcs11.CKM_SHA256_RSA_PKCS, bytes, input: itself };
  const input = (message: Uint8Array) => encodeDigestInfo(sha256(message));
  return { mechanism: pkcs11.CKM_RSA_PKCS, bytes, input, otherwise };
}

const SIGNING: Record<KeyAlgorithm, Signing> = {
  ed25519: { mechanism: CKM_EDDSA, bytes: 64, input: itself },
  'ecdsa-p256': ecdsa(64, 'sha256'),
  'ecdsa-p384': ecdsa(96, 'sha384'),
  'rsa-2048': rsa(256),
  'rsa-3072': rsa(384),
  'rsa-4096': rsa(512),
  // No parameters: pure ML-DSA, with an empty context.
  mldsa44: { mechanism: CKM_ML_DSA, bytes: 2420, input: itself },
};

/** The codes of tokens that do not have a mechanism, or do not permit it for a key. */
const MECHANISM_REFUSALS = new Set([
  pkcs11.CKR_MECHANISM_INVALID,
  pkcs11.CKR_KEY_FUNCTION_NOT_PERMITTED,
  pkcs11.CKR_KEY_TYPE_INCONSISTENT,
]);

/** Hides a key from sessions that have not logged in; means nothing on a token without log-in (PKCS#11 2.40, section 4.4). */
export const AFTER_LOGIN: [name: string, type: number, value: boolean] = [
  'CKA_PRIVATE',
  pkcs11.CKA_PRIVATE,
  true,
];
/** The attributes that a new private key must have afterwards (PKCS#11 2.40, section 4.9). */
export const PROTECTION: (typeof AFTER_LOGIN)[] = [
  ['CKA_TOKEN', pkcs11.CKA_TOKEN, true],
  AFTER_LOGIN,
  ['CKA_SENSITIVE', pkcs11.CKA_SENSITIVE, true],
  ['CKA_EXTRACTABLE', pkcs11.CKA_EXTRACTABLE, false],
  ['CKA_SIGN', pkcs11.CKA_SIGN, true],
];
export const HISTORY: typeof PROTECTION = [
  ['CKA_ALWAYS_SENSITIVE', pkcs11.CKA_ALWAYS_SENSITIVE, true],
  ['CKA_NEVER_EXTRACTABLE', pkcs11.CKA_NEVER_EXTRACTABLE, true],
  ['CKA_LOCAL', pkcs11.CKA_LOCAL, true],
];

/** A session and the message that it signs: the binding keeps no reference to the bytes that its thread reads. */
interface SigningSession {
  handle: Buffer;
  input?: Buffer;
}

interface Halves {
  privateKey: Buffer;
  publicKey: TokenPublicKey;
  /** Logs a session in for one signature, if the key demands that (CKA_ALWAYS_AUTHENTICATE; PKCS#11 2.40, section 5.6). */
  logIn?(session: Buffer): Promise<void>;
}

/** A private key on a token, by its handle, and its public key. */
export class TokenKey {
  readonly publicKey: TokenPublicKey;
  readonly #module: pkcs11.PKCS11;
  readonly #session: Buffer;
  readonly #isOnlySession: boolean;
  /** The session that has rested longest signs next, so that none is unused for long. */
  readonly #idle: SigningSession[];
  readonly #handle: Buffer;
  readonly #logIn: Halves['logIn'];
  #signing: Signing;
  readonly #protection: typeof PROTECTION;

  constructor(
    module: pkcs11.PKCS11,
    sessions: readonly [Buffer, ...Buffer[]],
    { privateKey, publicKey, logIn }: Halves,
    protection: typeof PROTECTION,
  ) {
    this.#module = module;
    this.#session = sessions[0];
    this.#isOnlySession = sessions.length === 1;
    this.#idle = sessions.map((handle) => ({ handle }));
    this.#handle = privateKey;
    this.publicKey = publicKey;
    this.#signing = SIGNING[publicKey.algorithm];
    this.#logIn = logIn;
    this.#protection = protection;
  }

  /** Reports what the token states about the private key. */
  inspect(): KeyProtection {
    const unmet = (expected: typeof PROTECTION) =>
      unmetBy(this.#handle, expected, this.#module, this.#session);
    return { exposures: unmet(this.#protection), wasAlwaysInside: unmet(HISTORY).length === 0 };
  }

  /**
   * Signs a message. Ed25519: 64 bytes, mldsa44: 2,420 bytes, both over the message; ECDSA: DER, RSA: PKCS#1 v1.5, both over its digest. Not
   * verified here: the parent does that. Blocks if there is a single session; otherwise a thread of the pool waits for the token.
   */
  async sign(message: Uint8Array): Promise<Uint8Array> {
    const session = this.#idle.shift();
    if (session === undefined) throw new SignerFailure('signer_error', 'all sessions are in use');
    try {
      this.#begin(session.handle);
      const { mechanism, bytes, input } = this.#signing;
      const output = Buffer.alloc(bytes);
      session.input = Buffer.from(input(message));
      await this.#logIn?.(session.handle);
      const raw = this.#isOnlySession
        ? this.#module.C_Sign(session.handle, session.input, output)
        : await this.#module.C_SignAsync(session.handle, session.input, output);
      return mechanism === pkcs11.CKM_ECDSA ? encodeEcdsaSignature(raw, bytes) : raw;
    } finally {
      this.#idle.push(session);
    }
  }

  /** From a refusal on, the other mechanism signs. */
  #begin(session: Buffer): void {
    const { mechanism, otherwise } = this.#signing;
    try {
      this.#module.C_SignInit(session, { mechanism }, this.#handle);
    } catch (error) {
      if (otherwise === undefined || !MECHANISM_REFUSALS.has(asPkcs11Error(error)?.code ?? 0)) throw error;
      this.#signing = otherwise;
      this.#begin(session);
    }
  }
}

export function attributeOf(object: Buffer, type: number, module: pkcs11.PKCS11, session: Buffer): Buffer {
  const [attribute] = module.C_GetAttributeValue(session, object, [{ type }]);
  return attribute?.value ?? Buffer.alloc(0);
}

/** The attributes of the object that differ from those expected, with their actual values. */
export function unmetBy(
  object: Buffer,
  expected: typeof PROTECTION,
  module: pkcs11.PKCS11,
  session: Buffer,
): string[] {
  return expected
    .filter(([, type, value]) => (attributeOf(object, type, module, session)[0] === 1) !== value)
    .map(([name, , value]) => `${name} = ${!value}`);
}
