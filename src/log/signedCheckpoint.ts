import { bytesEqual, fromUtf8 } from '../base/bytes.ts';
import { type Checkpoint, encodeCheckpoint, parseCheckpoint } from './checkpoint.ts';
import { cosignedMessage, openTimedSignature, timedSignature } from './cosignature.ts';
import { type Note, parseNote } from './note.ts';
import { noteKeyId, type PublicLogKey, type SignatureAlgorithm, verifySignature } from './verifierKey.ts';

/** A signed checkpoint, parsed. */
export interface Opened {
  note: Note;
  checkpoint: Checkpoint;
}

/** The keys whose signatures are on a checkpoint: each key once, however many lines it has. */
export interface Signers<Key> {
  keys: Key[];
  /** A key whose line has a wrong signature. */
  forged?: Key;
}

export function openCheckpoint(text: string): Opened | undefined {
  const note = parseNote(text);
  const checkpoint = note && parseCheckpoint(note.text);
  return note && checkpoint && { note, checkpoint };
}

/**
 * The known keys that signed. Lines of other keys are ignored; one wrong signature of a known key invalidates the note
 * (C2SP signed-note, "Signatures").
 */
export function signersOf<Key extends PublicLogKey>(
  { text, signatures }: Note,
  origin: string,
  known: readonly Key[],
): Signers<Key> {
  const keys = new Set<Key>();
  for (const { name, keyId, signature } of signatures) {
    const key = known.find((key) => name === origin && bytesEqual(noteKeyId(name, key), keyId));
    if (key === undefined) continue;
    if (!verifyLine(key, text, signature)) return { keys: [], forged: key };
    keys.add(key);
  }
  return { keys: [...keys] };
}

/**
 * The bytes that a key of the log signs for the text of a checkpoint. Only an ML-DSA key states a time (Unix, seconds), as a cosigner whose
 * name is the origin (C2SP tlog-cosignature). Undefined if such a key cannot sign the text: see {@link cosignedMessage}. Neither can it
 * sign a text with extension lines: its signature does not cover them, so anyone could add them.
 */
export function checkpointMessage(
  algorithm: SignatureAlgorithm,
  text: string,
  time: number,
): Uint8Array | undefined {
  if (algorithm !== 'mldsa44') return fromUtf8(text);
  const checkpoint = parseCheckpoint(text);
  if (checkpoint === undefined || text !== encodeCheckpoint(checkpoint)) return undefined;
  return cosignedMessage({ name: checkpoint.origin, algorithm }, time, text);
}

/** The signature for the line of a note, made from the key's signature over {@link checkpointMessage}. */
export function lineSignature(
  algorithm: SignatureAlgorithm,
  time: number,
  signature: Uint8Array,
): Uint8Array {
  return algorithm === 'mldsa44' ? timedSignature(time, signature) : signature;
}

function verifyLine(key: PublicLogKey, text: string, line: Uint8Array): boolean {
  const { algorithm } = key;
  const opened = algorithm === 'mldsa44' ? openTimedSignature(line) : { time: 0, signature: line };
  if (opened === undefined) return false;
  const message = checkpointMessage(algorithm, text, opened.time);
  return message !== undefined && verifySignature(key, message, opened.signature);
}
