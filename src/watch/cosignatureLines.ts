import { bytesEqual } from '../base/bytes.ts';
import type { Checkpoint } from '../log/checkpoint.ts';
import { cosignaturesIn, isLineOf } from '../log/cosignature.ts';
import { encodeNote, type Note, type NoteSignature, parseNote } from '../log/note.ts';
import { type LogKey, noteKeyId } from '../log/verifierKey.ts';
import type { WitnessPolicy } from '../log/witnessPolicy.ts';

/** The lines of the keys that the policy lists for the log; where it lists none that signed, those of all Ed25519 keys. */
export function linesFor(
  { logs }: WitnessPolicy,
  { origin }: Checkpoint,
  { signatures }: Note,
  keys: readonly LogKey[],
): NoteSignature[] {
  const keyIds = keys.filter(({ algorithm }) => algorithm === 'ed25519').map((key) => noteKeyId(origin, key));
  const listed = logs.flatMap(({ key }) => (key.name === origin ? [noteKeyId(origin, key)] : []));
  const own = signatures.filter(({ keyId }) => keyIds.some((id) => bytesEqual(id, keyId)));
  const known = own.filter(({ keyId }) => listed.some((id) => bytesEqual(id, keyId)));
  return known.length > 0 ? known : own;
}

/** The checkpoint with the newest valid cosignature line of each witness, among its own lines and these. */
export function addLine(
  text: string,
  lines: readonly NoteSignature[],
  witnesses: WitnessPolicy['witnesses'],
): string {
  const note = parseNote(text);
  if (note === undefined) return text;
  const ofLog = note.signatures.filter((line) => !witnesses.some((one) => isLineOf(one, line)));
  const newest = cosignaturesIn({ text: note.text, signatures: [...lines, ...note.signatures] }, witnesses);
  return encodeNote(note.text, [...ofLog, ...newest.map(({ line }) => line)]);
}
