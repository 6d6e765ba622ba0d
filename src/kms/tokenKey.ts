import pkcs11 from 'pkcs11js';
import { sha256 } from '../base/crypto.ts';
import { encodeEcdsaSignature } from './encoding.ts';
import type { KeyAlgorithm, TokenPublicKey } from './keyAlgorithm.ts';
import type { KeyProtection } from './protocol.ts';
import { SignerFailure } from './signerFailure.ts';

/** PKCS#11 3.0, section 2.3.5, and 3.2, section 6.67; pkcs11js knows the names of version 2.30 only. */
const CKM_EDDSA = 0x1057;
const CKM_ML_DSA = 0x1d;

/** CKM_ECDSA takes the digest: not every token (SoftHSM, for one) offers CKM_ECDSA_SHA256. */
const SIGNING: Record<KeyAlgorithm, number> = {
  ed25519: CKM_EDDSA,
  'ecdsa-p256': pkcs11.CKM_ECDSA,
  'rsa-3072': pkcs11.CKM_SHA256_RSA_PKCS,
  // No parameters: pure ML-DSA, with an empty context.
  mldsa44: CKM_ML_DSA,
};

/** The length of the signature that the token returns: some modules (NSS) refuse a longer buffer. */
const SIGNATURE_BYTES: Record<KeyAlgorithm, number> = {
  ed25519: 64,
  'ecdsa-p256': 64,
  'rsa-3072': 384,
  mldsa44: 2420,
};

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
   * Signs a message. Ed25519: 64 bytes, mldsa44: 2,420 bytes, both over the message; ecdsa-p256: DER, rsa-3072: PKCS#1 v1.5, both over its
   * SHA-256. Not verified here: the parent does that. Blocks if there is a single session; otherwise a thread of the pool waits for the
   * token.
   */
  async sign(message: Uint8Array): Promise<Uint8Array> {
    const session = this.#idle.shift();
    if (session === undefined) throw new SignerFailure('signer_error', 'all sessions are in use');
    try {
      const { algorithm } = this.publicKey;
      const [input, output] = [
        Buffer.from(algorithm === 'ecdsa-p256' ? sha256(message) : message),
        Buffer.alloc(SIGNATURE_BYTES[algorithm]),
      ];
      session.input = input;
      this.#module.C_SignInit(session.handle, { mechanism: SIGNING[algorithm] }, this.#handle);
      await this.#logIn?.(session.handle);
      const raw = this.#isOnlySession
        ? this.#module.C_Sign(session.handle, input, output)
        : await this.#module.C_SignAsync(session.handle, input, output);
      return algorithm === 'ecdsa-p256' ? encodeEcdsaSignature(raw) : raw;
    } finally {
      this.#idle.push(session);
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
