import { randomBytes, X509Certificate } from 'node:crypto';
import pkcs11 from 'pkcs11js';
import { toBase64 } from '../base/bytes.ts';
import { algorithmOfCurve, EC_PARAMS, EDWARDS25519_BY_NAME, encodeRsaSpki, encodeSpki } from './encoding.ts';
import { type KeyAlgorithm, parsePublicKey, type TokenPublicKey } from './keyAlgorithm.ts';
import { asPkcs11Error, findToken, loadModule } from './module.ts';
import { logInWithPin } from './pinLogIn.ts';
import type { OpenedSessions, TokenAccess, TokenOptions } from './protocol.ts';
import { SignerFailure } from './signerFailure.ts';
import { describeToken, type TokenDescription } from './tokenDescription.ts';
import { AFTER_LOGIN, attributeOf, HISTORY, PROTECTION, TokenKey, unmetBy } from './tokenKey.ts';

/** PKCS#11 3.0, section 2.3.5 and appendix B, and 3.2, section 6.67; pkcs11js knows the names of version 2.30 only. */
const CKK_EC_EDWARDS = 0x40;
const CKK_ML_DSA = 0x4a;
const CKM_ML_DSA_KEY_PAIR_GEN = 0x1c;
const CKA_PARAMETER_SET = 0x61d;
const CKP_ML_DSA_44 = 1;
const CKM_EC_EDWARDS_KEY_PAIR_GEN = 0x1055;
const CKR_CURVE_NOT_SUPPORTED = 0x140;

/** Return values of tokens that do not accept CKA_EC_PARAMS. */
const CURVE_REFUSALS = new Set([
  CKR_CURVE_NOT_SUPPORTED,
  pkcs11.CKR_DOMAIN_PARAMS_INVALID,
  pkcs11.CKR_ATTRIBUTE_VALUE_INVALID,
  pkcs11.CKR_TEMPLATE_INCONSISTENT,
]);

/** How the token makes a key: CKA_KEY_TYPE, and the mechanism. */
const [EC, RSA] = [
  { type: pkcs11.CKK_EC, mechanism: pkcs11.CKM_EC_KEY_PAIR_GEN },
  { type: pkcs11.CKK_RSA, mechanism: pkcs11.CKM_RSA_PKCS_KEY_PAIR_GEN },
];
const GENERATION: Record<KeyAlgorithm, { type: number; mechanism: number }> = {
  ed25519: { type: CKK_EC_EDWARDS, mechanism: CKM_EC_EDWARDS_KEY_PAIR_GEN },
  'ecdsa-p256': EC,
  'ecdsa-p384': EC,
  'rsa-2048': RSA,
  'rsa-3072': RSA,
  'rsa-4096': RSA,
  mldsa44: { type: CKK_ML_DSA, mechanism: CKM_ML_DSA_KEY_PAIR_GEN },
};
/**
 * The parameters of a new key, in every form that tokens accept: tokens that know Ed25519 by name do not know its object identifier.
 * CKA_MODULUS_BITS and CKA_PARAMETER_SET are CK_ULONGs, which pkcs11js writes for numbers.
 */
const PARAMETERS: Record<KeyAlgorithm, [pkcs11.Template, byName?: pkcs11.Template]> = {
  ed25519: [
    [{ type: pkcs11.CKA_EC_PARAMS, value: EC_PARAMS.ed25519 }],
    [{ type: pkcs11.CKA_EC_PARAMS, value: EDWARDS25519_BY_NAME }],
  ],
  'ecdsa-p256': [[{ type: pkcs11.CKA_EC_PARAMS, value: EC_PARAMS['ecdsa-p256'] }]],
  'ecdsa-p384': [[{ type: pkcs11.CKA_EC_PARAMS, value: EC_PARAMS['ecdsa-p384'] }]],
  'rsa-2048': [modulusOf(2048)],
  'rsa-3072': [modulusOf(3072)],
  'rsa-4096': [modulusOf(4096)],
  mldsa44: [[{ type: CKA_PARAMETER_SET, value: CKP_ML_DSA_44 }]],
};

function modulusOf(bits: number): pkcs11.Template {
  return [
    { type: pkcs11.CKA_MODULUS_BITS, value: bits },
    { type: pkcs11.CKA_PUBLIC_EXPONENT, value: Buffer.from('010001', 'hex') },
  ];
}

/** Time limit for the record of refused PINs, which one log-in at a time uses. */
const SIGNATURE_LOG_IN_TIMEOUT_MS = 10_000;

const CLASS_PRIVATE = { type: pkcs11.CKA_CLASS, value: pkcs11.CKO_PRIVATE_KEY };

/**
 * One token, its user logged in or about to be, and the sessions for signing: PKCS#11 allows one operation per session. Every call of the
 * module here blocks, in the first session. Lives in the signer's process only. All methods throw {@link SignerFailure} or a Pkcs11Error.
 */
export class HsmToken {
  readonly opened: OpenedSessions;
  readonly #module: pkcs11.PKCS11;
  /** Kept, because modules that speak for another process may report a slot of that process for a session. */
  readonly #slot: Buffer;
  readonly #session: Buffer;
  readonly #sessions: readonly [Buffer, ...Buffer[]];
  readonly #options: TokenOptions;
  /** The attributes that keep a key in this token. */
  readonly #protection: typeof PROTECTION;

  private constructor(
    module: pkcs11.PKCS11,
    { slot, hasLogin }: ReturnType<typeof findToken>,
    sessions: readonly [Buffer, ...Buffer[]],
    refusal: string | undefined,
    options: TokenOptions,
  ) {
    this.opened = { sessions: sessions.length, refusal };
    this.#module = module;
    this.#slot = slot;
    this.#session = sessions[0];
    this.#sessions = sessions;
    this.#options = options;
    this.#protection = hasLogin ? PROTECTION : PROTECTION.filter((each) => each !== AFTER_LOGIN);
  }

  /** Loads the module, finds the token and opens the sessions, without a PIN. The session is writable only for making keys. */
  static open(path: string, options: TokenOptions, access: TokenAccess, sessionsWanted: number): HsmToken {
    const loaded = loadModule(path, options);
    const { module } = loaded;
    const token = findToken(module, options);
    const writable = access === 'write' ? pkcs11.CKF_RW_SESSION : 0;
    const open = () => module.C_OpenSession(token.slot, pkcs11.CKF_SERIAL_SESSION | writable);
    const sessions: [Buffer, ...Buffer[]] = [open()];
    let refusal = sessionsWanted === 1 ? undefined : loaded.refusal;
    while (refusal === undefined && sessions.length < sessionsWanted) {
      try {
        sessions.push(open());
      } catch (error) {
        refusal = asPkcs11Error(error)?.message;
        if (refusal === undefined) throw error;
      }
    }
    return new HsmToken(module, token, sessions, refusal, options);
  }

  /** What the module and the token report about themselves. */
  describe(): TokenDescription {
    return describeToken(this.#module, this.#slot);
  }

  /** Makes at most one attempt at the PIN, after all earlier log-ins to the token; see {@link logInWithPin}. */
  logIn(timeoutMs: number): Promise<void> {
    const opened = { slot: this.#slot, sessions: this.#sessions };
    return logInWithPin(this.#module, opened, this.#options, timeoutMs);
  }

  /**
   * The one private key with the configured label, and its public key: of its public half, else of a certificate, else `given` (Base64 of
   * the DER SubjectPublicKeyInfo).
   */
  findKey(given?: string): TokenKey {
    const privateKey = this.#findPrivate();
    const publicKey =
      this.#readPartner(privateKey) ??
      (given === undefined ? undefined : readSpki(Buffer.from(given, 'base64')));
    if (publicKey === undefined)
      throw new SignerFailure(
        'public_key_missing',
        'the token has only the private key of that label, and no certificate of it',
      );
    return this.#keyOf(privateKey, publicKey);
  }

  /** Makes a key pair that cannot leave the token, and checks that the token reports it so. If that fails, it leaves nothing behind. */
  generateKey(algorithm: KeyAlgorithm): TokenKey {
    if (this.#find([]).length > 0) throw new SignerFailure('key_exists', 'the token has a key of that label');
    try {
      const pair = this.#generatePair(algorithm);
      this.#checkProtection(pair.privateKey);
      this.#nameAsPair(pair);
      return this.#keyOf(pair.privateKey, this.#readPublicKey(pair.publicKey));
    } catch (error) {
      this.#removeParts(error);
      throw error;
    }
  }

  /**
   * Destroys both halves of the pair, the private one first: the rest after a failure cannot sign. If they are one object, the public half
   * goes with it.
   */
  destroyKey(): void {
    const privateKey = this.#findPrivate();
    const id = this.#idOf(privateKey);
    const findPublic = () => this.#findPartner(pkcs11.CKO_PUBLIC_KEY, 'public keys', id);
    const publicKey = findPublic();
    this.#module.C_DestroyObject(this.#session, privateKey);
    try {
      if (publicKey !== undefined) this.#module.C_DestroyObject(this.#session, publicKey);
    } catch (error) {
      // Modules differ in their code for an object that is gone.
      if (asPkcs11Error(error) === undefined || findPublic() !== undefined) throw error;
    }
    if (this.#find([CLASS_PRIVATE]).length > 0)
      throw new SignerFailure('key_not_destroyed', 'the token kept the private key all the same');
  }

  /** Does not log out: some modules would log out the other programs that use the token. */
  close(): void {
    for (const session of this.#sessions) this.#module.C_CloseSession(session);
    this.#module.C_Finalize();
  }

  #generatePair(algorithm: KeyAlgorithm): pkcs11.KeyPair {
    const [parameters, byName] = PARAMETERS[algorithm];
    try {
      return this.#generateWith(algorithm, parameters);
    } catch (error) {
      const refusal = asPkcs11Error(error);
      if (byName === undefined || !CURVE_REFUSALS.has(refusal?.code ?? 0)) throw error;
      return this.#generateWith(algorithm, byName);
    }
  }

  #generateWith(algorithm: KeyAlgorithm, parameters: pkcs11.Template): pkcs11.KeyPair {
    const { type, mechanism } = GENERATION[algorithm];
    const common = (objectClass: number): pkcs11.Template => [
      { type: pkcs11.CKA_CLASS, value: objectClass },
      { type: pkcs11.CKA_KEY_TYPE, value: type },
      { type: pkcs11.CKA_LABEL, value: this.#options.keyLabel },
    ];
    const ofPublic = [
      ...common(pkcs11.CKO_PUBLIC_KEY),
      { type: pkcs11.CKA_TOKEN, value: true },
      { type: pkcs11.CKA_VERIFY, value: true },
      ...parameters,
    ];
    const ofPrivate = [
      ...common(pkcs11.CKO_PRIVATE_KEY),
      ...this.#protection.map(([, type, value]) => ({ type, value })),
    ];
    return this.#module.C_GenerateKeyPair(this.#session, { mechanism }, ofPublic, ofPrivate);
  }

  /** Gives both halves one CKA_ID, as stock tools expect of a pair. pdfseald finds the pair by its label, so a token may refuse. */
  #nameAsPair(pair: pkcs11.KeyPair): void {
    const id = { type: pkcs11.CKA_ID, value: randomBytes(16) };
    try {
      for (const key of [pair.publicKey, pair.privateKey])
        this.#module.C_SetAttributeValue(this.#session, key, [id]);
    } catch (error) {
      if (asPkcs11Error(error) === undefined) throw error;
    }
  }

  /** Removes what a failed generation left: no key had that label before. */
  #removeParts(reason: unknown): void {
    try {
      for (const part of this.#find([])) this.#module.C_DestroyObject(this.#session, part);
    } catch (error) {
      // If the halves are one object, the second one is gone.
      if (asPkcs11Error(error) === undefined) throw error;
    }
    if (this.#find([]).length > 0)
      throw new SignerFailure(
        'key_parts_left',
        `the key was not created (${(reason as Error).message}), and the token keeps parts of it`,
      );
  }

  /** At most two objects with the label of the key. */
  #find(template: pkcs11.Template): Buffer[] {
    return this.#findBy([{ type: pkcs11.CKA_LABEL, value: this.#options.keyLabel }, ...template]);
  }

  #findBy(template: pkcs11.Template): Buffer[] {
    this.#module.C_FindObjectsInit(this.#session, template);
    try {
      return this.#module.C_FindObjects(this.#session, 2);
    } finally {
      this.#module.C_FindObjectsFinal(this.#session);
    }
  }

  #findPrivate(): Buffer {
    const [found, second] = this.#find([CLASS_PRIVATE]);
    if (second !== undefined) throw new SignerFailure('key_ambiguous', 'several private keys of that label');
    if (found !== undefined) return found;
    if (this.#find([{ type: pkcs11.CKA_CLASS, value: pkcs11.CKO_PUBLIC_KEY }]).length > 0)
      throw new SignerFailure('private_key_missing', 'the token has only the public key of that label');
    throw new SignerFailure('key_not_found', 'the token has no private key of that label');
  }

  #readPartner(privateKey: Buffer): TokenPublicKey | undefined {
    const id = this.#idOf(privateKey);
    const publicKey = this.#findPartner(pkcs11.CKO_PUBLIC_KEY, 'public keys', id);
    if (publicKey !== undefined) return this.#readPublicKey(publicKey);
    const certificate = this.#findPartner(pkcs11.CKO_CERTIFICATE, 'certificates', id);
    return certificate === undefined ? undefined : this.#readCertificate(certificate);
  }

  /** The object that belongs to the private key: of its label, or else of its CKA_ID, which also tells several of the label apart. */
  #findPartner(objectClass: number, names: string, id: Buffer): Buffer | undefined {
    const ofClass = { type: pkcs11.CKA_CLASS, value: objectClass };
    const labelled = this.#find([ofClass]);
    if (labelled.length === 1 || (labelled.length === 0 && id.length === 0)) return labelled[0];
    const ofId = { type: pkcs11.CKA_ID, value: id };
    const [found, second] =
      labelled.length === 0 ? this.#findBy([ofClass, ofId]) : this.#find([ofClass, ofId]);
    if (second !== undefined || (found === undefined && labelled.length > 1))
      throw new SignerFailure('key_ambiguous', `several ${names} of that label or CKA_ID`);
    return found;
  }

  #idOf(object: Buffer): Buffer {
    return this.#attributeIfAny(object, pkcs11.CKA_ID);
  }

  /** Empty if the token has no such attribute. */
  #attributeIfAny(object: Buffer, type: number): Buffer {
    try {
      return this.#attribute(object, type);
    } catch (error) {
      if (asPkcs11Error(error) === undefined) throw error;
      return Buffer.alloc(0);
    }
  }

  #keyOf(privateKey: Buffer, publicKey: TokenPublicKey): TokenKey {
    const asksEachTime = this.#attributeIfAny(privateKey, pkcs11.CKA_ALWAYS_AUTHENTICATE)[0] === 1;
    const logIn = (session: Buffer) =>
      logInWithPin(
        this.#module,
        { slot: this.#slot, sessions: [session] },
        this.#options,
        SIGNATURE_LOG_IN_TIMEOUT_MS,
        pkcs11.CKU_CONTEXT_SPECIFIC,
      );
    const halves = { privateKey, publicKey, ...(asksEachTime && { logIn }) };
    return new TokenKey(this.#module, this.#sessions, halves, this.#protection);
  }

  #readCertificate(handle: Buffer): TokenPublicKey {
    const { publicKey } = new X509Certificate(this.#attribute(handle, pkcs11.CKA_VALUE));
    return readSpki(publicKey.export({ format: 'der', type: 'spki' }));
  }

  #readPublicKey(handle: Buffer): TokenPublicKey {
    const keyType = readUlong(this.#attribute(handle, pkcs11.CKA_KEY_TYPE));
    if (keyType === CKK_ML_DSA) return this.#readMlDsaKey(handle);
    return keyType === pkcs11.CKK_RSA ? this.#readRsaKey(handle) : this.#readEcKey(handle);
  }

  #readMlDsaKey(handle: Buffer): TokenPublicKey {
    if (readUlong(this.#attribute(handle, CKA_PARAMETER_SET)) !== CKP_ML_DSA_44)
      throw new SignerFailure('key_unsupported', 'the key is an ML-DSA key of another parameter set');
    const spki = encodeSpki('mldsa44', this.#attribute(handle, pkcs11.CKA_VALUE));
    return { algorithm: 'mldsa44', spki: toBase64(spki) };
  }

  #readRsaKey(handle: Buffer): TokenPublicKey {
    const modulus = this.#attribute(handle, pkcs11.CKA_MODULUS);
    return readSpki(encodeRsaSpki(modulus, this.#attribute(handle, pkcs11.CKA_PUBLIC_EXPONENT)));
  }

  #readEcKey(handle: Buffer): TokenPublicKey {
    const algorithm = algorithmOfCurve(this.#attribute(handle, pkcs11.CKA_EC_PARAMS));
    if (algorithm === undefined) throw new SignerFailure('key_unsupported', 'the key is on another curve');
    const spki = encodeSpki(algorithm, this.#attribute(handle, pkcs11.CKA_EC_POINT));
    return { algorithm, spki: toBase64(spki) };
  }

  /** This call made the key in the token, so that need not be checked; some tokens (NSS) do not report it. */
  #checkProtection(privateKey: Buffer): void {
    const expected = [...this.#protection, ...HISTORY.filter(([name]) => name !== 'CKA_LOCAL')];
    const [unmet] = unmetBy(privateKey, expected, this.#module, this.#session);
    if (unmet !== undefined) throw new SignerFailure('key_unprotected', `the new private key has ${unmet}`);
  }

  #attribute(object: Buffer, type: number): Buffer {
    return attributeOf(object, type, this.#module, this.#session);
  }
}

/** Throws SignerFailure `key_unsupported`. */
function readSpki(spki: Uint8Array): TokenPublicKey {
  try {
    return parsePublicKey(spki);
  } catch (error) {
    throw new SignerFailure('key_unsupported', `the public key is ${(error as Error).message}`);
  }
}

/** A small CK_ULONG, in the byte order of every machine this runs on. */
function readUlong(value: Buffer): number {
  return value.length < 4 ? Number.NaN : value.readUInt32LE(0);
}
