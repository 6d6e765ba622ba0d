import { bytesEqual } from '../base/bytes.ts';
import type { Checkpoint } from '../log/checkpoint.ts';
import { cosignaturesIn } from '../log/cosignature.ts';
import { encodeNote, type Note, type NoteSignature, parseNote } from '../log/note.ts';
import { type LogKey, noteKeyId } from '../log/verifierKey.ts';
import type { WitnessPolicy } from '../log/witnessPolicy.ts';
import type { CosignedCheckpoint } from '../store/witnessStore.ts';

/** The lines of the keys that the policy lists for the log; where it lists none that signed, those of all Ed25519 keys. */
export function linesFor(
  { logs }: WitnessPolicy,
  { origin }: Checkpoint,
  { signatures }: Note,
  keys: readonly LogKey[],
): NoteSignature[] {
  const keyIds = keys.filter(({ algorithm }) => algorithm === 'ed25519').map((key) => noteKeyId(origin, key));
  const listed = logs.flatMap(({ key }) => (key?.name === origin ? [noteKeyId(origin, key)] : []));
  const own = signatures.filter(({ keyId }) => keyIds.some((id) => bytesEqual(id, keyId)));
  const known = own.filter(({ keyId }) => listed.some((id) => bytesEqual(id, keyId)));
  return known.length > 0 ? known : own;
}

/** The checkpoint with its cosignature lines: the new one, and for other witnesses those that it had. */
export function addLine(
  text: string,
  treeSize: number,
  before: CosignedCheckpoint | undefined,
  line: NoteSignature,
  { witnesses }: WitnessPolicy,
): string {
  const note = parseNote(text);
  if (note === undefined) return text;
  const had = before?.treeSize === treeSize ? (parseNote(before.checkpoint)?.signatures ?? []) : [];
  const newest = cosignaturesIn({ text: note.text, signatures: [line, ...had] }, witnesses);
  return encodeNote(note.text, [...note.signatures, ...newest.map(({ line }) => line)]);
}
