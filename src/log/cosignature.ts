import { bytesEqual, concatBytes, fromUtf8, toBase64, toHex } from '../base/bytes.ts';
import { type PublicKey, sha256, verify } from '../base/crypto.ts';
import { isWeakPoint } from '../base/ed25519.ts';
import { parseCheckpoint } from './checkpoint.ts';
import type { Note, NoteSignature } from './note.ts';
import { splitVkey } from './verifierKey.ts';

/** A cosigner of checkpoints of logs, such as a witness (C2SP tlog-cosignature). */
export interface Cosigner {
  /** Name of the key: not empty, no Unicode spaces, no plus. */
  name: string;
  algorithm: 'ed25519' | 'mldsa44';
  /** Raw: 32 bytes (RFC 8032), or 1,312 bytes (FIPS 204). */
  key: Uint8Array;
}

/** Signature types of C2SP signed-note, and the lengths of keys in bytes. */
const TYPES: Record<Cosigner['algorithm'], { type: number; keyBytes: number }> = {
  ed25519: { type: 0x04, keyBytes: 32 },
  mldsa44: { type: 0x06, keyBytes: 1312 },
};
const ALGORITHMS = ['ed25519', 'mldsa44'] as const;

const TIME_BYTES = 8;
/** Latest time that a Date can hold, in seconds. */
const TIME_MAX = 8_640_000_000_000;

/** The 4 bytes that identify the cosigner in a signature line (C2SP tlog-cosignature, "Format"). */
export function cosignerId({ name, ...key }: Cosigner): Uint8Array {
  return sha256(concatBytes([fromUtf8(`${name}\n`), material(key)])).subarray(0, 4);
}

/** `<name>+<key id>+<type and key>` (C2SP signed-note, "Verifier keys"). */
export function encodeCosigner(cosigner: Cosigner): string {
  return `${cosigner.name}+${toHex(cosignerId(cosigner))}+${toBase64(material(cosigner))}`;
}

/** Parses the verifier key of a cosigner. Undefined unless the id matches and the public key is valid. Any input is safe. */
export function parseCosigner(vkey: string): Cosigner | undefined {
  const parts = splitVkey(vkey);
  if (parts === undefined) return undefined;
  const [type, key] = [parts.material[0], parts.material.subarray(1)];
  const algorithm = ALGORITHMS.find((one) => TYPES[one].type === type);
  if (algorithm === undefined || key.length !== TYPES[algorithm].keyBytes) return undefined;
  if (algorithm === 'ed25519' && isWeakPoint(key)) return undefined;
  const cosigner: Cosigner = { name: parts.name, algorithm, key };
  return toHex(cosignerId(cosigner)) === parts.keyId ? cosigner : undefined;
}

/**
 * The bytes that a cosigner signs: at this time (Unix, seconds), this checkpoint was the newest it knew of the log. An ML-DSA signature
 * does not cover extension lines. Undefined if the text is not that of a checkpoint, or if a name is too long to be signed.
 */
export function cosignedMessage(
  { name, algorithm }: Pick<Cosigner, 'name' | 'algorithm'>,
  time: number,
  text: string,
): Uint8Array | undefined {
  const checkpoint = parseCheckpoint(text);
  if (checkpoint === undefined) return undefined;
  if (algorithm === 'ed25519') return fromUtf8(`cosignature/v1\ntime ${time}\n${text}`);
  const [cosigner, origin] = [fromUtf8(name), fromUtf8(checkpoint.origin)];
  if (cosigner.length > 0xff || origin.length > 0xff) return undefined;
  return concatBytes([
    fromUtf8('subtree/v1\n\0'),
    Uint8Array.of(cosigner.length),
    cosigner,
    uint64(time),
    Uint8Array.of(origin.length),
    origin,
    uint64(0),
    uint64(checkpoint.treeSize),
    checkpoint.root,
  ]);
}

/** A line of a note: the cosigner's signature over {@link cosignedMessage} at that time. */
export function cosignatureLine(cosigner: Cosigner, time: number, signature: Uint8Array): NoteSignature {
  const { name } = cosigner;
  return { name, keyId: cosignerId(cosigner), signature: timedSignature(time, signature) };
}

/** The signature in a line that states when it was made: Unix time in seconds. */
export function timedSignature(time: number, signature: Uint8Array): Uint8Array {
  return concatBytes([uint64(time), signature]);
}

/**
 * The parts of a {@link timedSignature}, with time 0 if it states none; undefined if a Date cannot represent the time. Any input is safe.
 */
export function openTimedSignature(bytes: Uint8Array): { time: number; signature: Uint8Array } | undefined {
  if (bytes.length < TIME_BYTES) return undefined;
  const time = Number(new DataView(bytes.buffer, bytes.byteOffset, TIME_BYTES).getBigUint64(0));
  return time <= TIME_MAX ? { time, signature: bytes.subarray(TIME_BYTES) } : undefined;
}

/** Whether the line claims to be from this cosigner; {@link verifyCosignature} verifies it. */
export function isLineOf(cosigner: Cosigner, { name, keyId }: NoteSignature): boolean {
  return name === cosigner.name && bytesEqual(keyId, cosignerId(cosigner));
}

/**
 * When the cosigner signed, Unix time in seconds; undefined unless the line is a valid cosignature of the text, with a time. Any text
 * and line are safe.
 */
export function verifyCosignature(cosigner: Cosigner, text: string, line: NoteSignature): number | undefined {
  const { algorithm, key } = cosigner;
  if (!isLineOf(cosigner, line)) return undefined;
  const opened = openTimedSignature(line.signature);
  // Time 0 means that no time is stated (C2SP tlog-cosignature), so the line does not claim that the checkpoint was the newest.
  if (opened === undefined || opened.time === 0) return undefined;
  const message = cosignedMessage(cosigner, opened.time, text);
  if (message === undefined) return undefined;
  const publicKey: PublicKey =
    algorithm === 'ed25519' ? { type: algorithm, point: key } : { type: algorithm, key };
  return verify(publicKey, 'sha512', message, opened.signature) ? opened.time : undefined;
}

/**
 * The newest valid cosignature of each cosigner in a note, with its time. Lines of others and invalid lines are ignored: a cosigner that
 * did not sign is simply missing.
 */
export function cosignaturesIn<One extends Cosigner>(
  { text, signatures }: Note,
  cosigners: readonly One[],
): { cosigner: One; time: number; line: NoteSignature }[] {
  return cosigners.flatMap((cosigner) => {
    const valid = signatures
      .map((line) => ({ cosigner, line, time: verifyCosignature(cosigner, text, line) ?? 0 }))
      .filter(({ time }) => time > 0)
      .sort((a, b) => b.time - a.time);
    return valid.slice(0, 1);
  });
}

function material({ algorithm, key }: Pick<Cosigner, 'algorithm' | 'key'>): Uint8Array {
  return concatBytes([Uint8Array.of(TYPES[algorithm].type), key]);
}

function uint64(value: number): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(value));
  return bytes;
}
