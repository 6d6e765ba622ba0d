import { concatBytes, fromBase64, fromHex, fromUtf8, toBase64, toHex } from '../base/bytes.ts';
import { isOnCurve, type PublicKey, sha256, verify } from '../base/crypto.ts';
import { isWeakPoint } from '../base/ed25519.ts';
import { remember } from '../base/remember.ts';
import { isKeyName } from './note.ts';

/** The classical signature schemes of log keys. The receipt's `algorithm` depends on this closed list. */
export const CLASSICAL_ALGORITHMS = ['ed25519', 'ecdsa-p256'] as const;
export type ClassicalAlgorithm = (typeof CLASSICAL_ALGORITHMS)[number];
/** The same list and the post-quantum scheme ML-DSA-44 (FIPS 204). */
export const SIGNATURE_ALGORITHMS = [...CLASSICAL_ALGORITHMS, 'mldsa44'] as const;
export type SignatureAlgorithm = (typeof SIGNATURE_ALGORITHMS)[number];

export function isClassical<Key extends { algorithm: SignatureAlgorithm }>(
  key: Key,
): key is Key & { algorithm: ClassicalAlgorithm } {
  return key.algorithm !== 'mldsa44';
}

/** A key that can sign this log, and the partition that holds it. */
export interface LogKey {
  region: string;
  keyLabel: string;
  algorithm: SignatureAlgorithm;
  /** Base64 of the DER SubjectPublicKeyInfo (RFC 5280, section 4.1). */
  spki: string;
  /** Set if the private key is in a file instead of an HSM. */
  software?: true;
}

/** The `kms_key_id` of receipts: `<region>/<key label>`. */
export function kmsKeyId({ region, keyLabel }: Pick<LogKey, 'region' | 'keyLabel'>): string {
  return `${region}/${keyLabel}`;
}

/** Describes a key: its name, and whether it is outside of an HSM. */
export function describeKey({ software, ...key }: Pick<LogKey, 'region' | 'keyLabel' | 'software'>): string {
  return `${kmsKeyId(key)}${software ? ' (software)' : ''}`;
}

/** The parts of a {@link LogKey} that verification needs. */
export type PublicLogKey = Pick<LogKey, 'algorithm' | 'spki'>;

/** A verifier key as text (C2SP signed-note, "Verifier keys"). */
export interface VerifierKey extends PublicLogKey {
  name: string;
}

/** Signature types of C2SP signed-note. */
const SIGNATURE_TYPES: Record<SignatureAlgorithm, number> = {
  ed25519: 0x01,
  'ecdsa-p256': 0x02,
  mldsa44: 0x06,
};

/**
 * The first bytes of a SubjectPublicKeyInfo (RFC 8410, section 4; RFC 5480, section 2.2, uncompressed point; RFC 9881, section 4), its
 * length in bytes, and the offset of the key itself. Only this form is accepted: one key in two encodings must not count as two keys.
 */
export const SPKI_FORMS: Record<SignatureAlgorithm, { prefix: string; bytes: number; pointAt: number }> = {
  ed25519: { prefix: '302a300506032b6570032100', bytes: 44, pointAt: 12 },
  'ecdsa-p256': { prefix: '3059301306072a8648ce3d020106082a8648ce3d03010703420004', bytes: 91, pointAt: 26 },
  mldsa44: { prefix: '30820532300b06096086480165030403110382052100', bytes: 1334, pointAt: 22 },
};

/**
 * Whether the key's signature over the message is valid: 64 bytes for Ed25519 (RFC 8032), DER of r and s over SHA-256 for ECDSA, 2,420
 * bytes for ML-DSA-44 (FIPS 204). Any message and signature are safe. The key must be valid.
 */
export function verifySignature(key: PublicLogKey, message: Uint8Array, signature: Uint8Array): boolean {
  return verify(known(key).publicKey, 'sha256', message, signature);
}

/** The 4 bytes that identify the key in a signature line (C2SP signed-note, "Signatures" and "Signature types"). */
export function noteKeyId(origin: string, key: PublicLogKey): Uint8Array {
  return known(key).idIn(origin);
}

/** Enough for the keys of many epochs of a log, and for the few logs that share a key. */
const REMEMBERED = { keys: 64, origins: 8 };

function known({ algorithm, spki }: PublicLogKey) {
  return KNOWN[algorithm](spki);
}

const KNOWN = {
  ed25519: keysOf('ed25519'),
  'ecdsa-p256': keysOf('ecdsa-p256'),
  mldsa44: keysOf('mldsa44'),
};

/** Values derived from a key, by the Base64 of its SPKI. The same key gives the same object each time, so it is imported once. */
function keysOf(algorithm: SignatureAlgorithm) {
  return remember(REMEMBERED.keys, (spki) => {
    const bytes = spkiBytes({ spki });
    return {
      publicKey: publicKeyOf(algorithm, bytes),
      idIn: remember(REMEMBERED.origins, (origin) => {
        // For an ECDSA key, only the SPKI is hashed: the specification has this exception for its first users.
        const parts =
          algorithm === 'ecdsa-p256' ? [bytes] : [fromUtf8(`${origin}\n`), keyMaterial({ algorithm, spki })];
        return sha256(concatBytes(parts)).subarray(0, 4);
      }),
    };
  });
}

/** `<origin>+<key id>+<type and key>` (C2SP signed-note, "Verifier keys"). */
export function encodeVkey(origin: string, key: PublicLogKey): string {
  return `${origin}+${toHex(noteKeyId(origin, key))}+${toBase64(keyMaterial(key))}`;
}

/** Parses a verifier key of a log. Undefined unless the id matches and the public key is valid. Any input is safe. */
export function parseVkey(text: string): VerifierKey | undefined {
  const parts = splitVkey(text);
  const key = parts && parseKeyMaterial(parts.material);
  return key && toHex(noteKeyId(parts.name, key)) === parts.keyId ? { name: parts.name, ...key } : undefined;
}

/** Splits a verifier key of any type, without verification: name, key id in hexadecimal, type byte and key. Any input is safe. */
export function splitVkey(text: string): { name: string; keyId: string; material: Uint8Array } | undefined {
  const [, name, keyId, base64] = /^([^+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/=]+)$/u.exec(text) ?? [];
  const material = base64 === undefined ? undefined : fromBase64(base64);
  if (name === undefined || keyId === undefined || material === undefined || !isKeyName(name))
    return undefined;
  return { name, keyId, material };
}

/** The type byte and the key: SPKI for ECDSA, raw for the others. */
function keyMaterial(key: PublicLogKey): Uint8Array {
  const spki = spkiBytes(key);
  const encoded = key.algorithm === 'ecdsa-p256' ? spki : spki.subarray(SPKI_FORMS[key.algorithm].pointAt);
  return concatBytes([Uint8Array.of(SIGNATURE_TYPES[key.algorithm]), encoded]);
}

function parseKeyMaterial(material: Uint8Array): PublicLogKey | undefined {
  const algorithm = SIGNATURE_ALGORITHMS.find((name) => SIGNATURE_TYPES[name] === material[0]);
  if (algorithm === undefined) return undefined;
  const encoded = material.subarray(1);
  const { prefix, bytes } = SPKI_FORMS[algorithm];
  const spki = algorithm === 'ecdsa-p256' ? encoded : concatBytes([fromHex(prefix), encoded]);
  if (spki.length !== bytes || !toHex(spki).startsWith(prefix)) return undefined;
  const key = publicKeyOf(algorithm, spki);
  const isValid = key.type === 'ed25519' ? !isWeakPoint(key.point) : isOnCurve(key);
  return isValid ? { algorithm, spki: toBase64(spki) } : undefined;
}

function publicKeyOf(algorithm: SignatureAlgorithm, spki: Uint8Array): PublicKey {
  const point = spki.subarray(SPKI_FORMS[algorithm].pointAt);
  if (algorithm === 'mldsa44') return { type: 'mldsa44', key: point };
  return algorithm === 'ed25519' ? { type: 'ed25519', point } : { type: 'ec', curve: 'P-256', point };
}

function spkiBytes({ spki }: Pick<PublicLogKey, 'spki'>): Uint8Array {
  return fromBase64(spki) ?? new Uint8Array(0);
}
