import { bytesEqual } from '../base/bytes.ts';
import { type Checkpoint, parseCheckpoint } from './checkpoint.ts';
import { type Note, parseNote } from './note.ts';
import { noteKeyId, type PublicLogKey, verifySignature } from './verifierKey.ts';

/** A signed checkpoint, parsed. */
export interface Opened {
  note: Note;
  checkpoint: Checkpoint;
}

/** The keys whose signatures are on a checkpoint: each key once, however many lines it has. */
export interface Signers<Key> {
  keys: Key[];
  /** A key whose line carries a wrong signature. */
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
  const message = new TextEncoder().encode(text);
  const keys = new Set<Key>();
  for (const { name, keyId, signature } of signatures) {
    const key = known.find((key) => name === origin && bytesEqual(noteKeyId(name, key), keyId));
    if (key === undefined) continue;
    if (!verifySignature(key, message, signature)) return { keys: [], forged: key };
    keys.add(key);
  }
  return { keys: [...keys] };
}
