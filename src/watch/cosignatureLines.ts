import { bytesEqual } from '../base/bytes.ts';
import { toRfc3339 } from '../base/clock.ts';
import type { Checkpoint } from '../log/checkpoint.ts';
import { cosignaturesIn, isLineOf } from '../log/cosignature.ts';
import { encodeNote, type Note, type NoteSignature, parseNote } from '../log/note.ts';
import { type LogKey, noteKeyId } from '../log/verifierKey.ts';
import type { WitnessPolicy } from '../log/witnessPolicy.ts';

/** The lines of the keys that the policy lists for the log; if none of those signed, the lines of all Ed25519 keys. */
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

/** A clock that is further ahead is wrong: its cosignature would make the checkpoint look freshly cosigned for just as long. */
const AHEAD_MS_MAX = 86_400_000;

/**
 * Why a cosignature is not accepted; undefined if it is. `time`: when it was made, Unix time in seconds; `now`: milliseconds since the
 * epoch.
 */
export function dateFault(time: number, now: number): string | undefined {
  if (time * 1000 - now <= AHEAD_MS_MAX) return undefined;
  return `it dates its cosignature ${toRfc3339(time * 1000)}, more than a day after the clock of this machine: one of the two clocks is wrong`;
}

/** The checkpoint with the newest valid cosignature line of each witness, from its own lines and these. */
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
