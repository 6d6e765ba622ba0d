/** Signing keys inside simulated devices, as the devices make them and sign with them. */
import { constants, generateKeyPairSync, type KeyObject, privateEncrypt, sign } from 'node:crypto';
import { p256, p384 } from '@noble/curves/nist.js';

/** The kinds of keys, by their names in JSON Web Keys (RFC 7518, RFC 8037), and RSA by the length of its modulus in bits. */
const GENERATORS = {
  Ed25519: () => generateKeyPairSync('ed25519'),
  'P-256': () => generateKeyPairSync('ec', { namedCurve: 'P-256' }),
  'P-384': () => generateKeyPairSync('ec', { namedCurve: 'P-384' }),
  'RSA-2048': () => generateKeyPairSync('rsa', { modulusLength: 2048 }),
  'RSA-3072': () => generateKeyPairSync('rsa', { modulusLength: 3072 }),
  'RSA-4096': () => generateKeyPairSync('rsa', { modulusLength: 4096 }),
};
export type DeviceKeyKind = keyof typeof GENERATORS;

const CURVES = { 'P-256': p256, 'P-384': p384 };

/** Members of a JSON Web Key, decoded. */
type Member = 'x' | 'y' | 'n' | 'e' | 'd';

/** A private key that its device never gives away. */
export class DeviceKey {
  readonly kind: DeviceKeyKind;
  readonly #key: KeyObject;

  constructor(kind: DeviceKeyKind) {
    this.kind = kind;
    this.#key = GENERATORS[kind]().privateKey;
  }

  /** Of Ed25519, `x`; of a curve, `x` and `y` in the field's length; of RSA, the modulus `n` and the exponent `e`. */
  publicPart(member: Exclude<Member, 'd'>): Buffer {
    return this.#member(member);
  }

  /** Ed25519 (RFC 8032) over a message. */
  signMessage(message: Uint8Array): Buffer {
    return sign(null, message, this.#key);
  }

  /** ECDSA over a digest, in DER. Node's own functions compute the digest themselves. */
  signDigest(digest: Uint8Array): Buffer {
    const curve = CURVES[this.kind as keyof typeof CURVES];
    const options = { prehash: false, lowS: false, format: 'der' } as const;
    return Buffer.from(curve.sign(new Uint8Array(digest), new Uint8Array(this.#member('d')), options));
  }

  /** RSASSA-PKCS1-v1_5 (RFC 8017) over a DigestInfo, which is padded. */
  signDigestInfo(digestInfo: Uint8Array): Buffer {
    return privateEncrypt({ key: this.#key, padding: constants.RSA_PKCS1_PADDING }, digestInfo);
  }

  #member(member: Member): Buffer {
    return Buffer.from(this.#key.export({ format: 'jwk' })[member] as string, 'base64url');
  }
}
