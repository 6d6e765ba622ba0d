import { assert } from '../base/assert.ts';
import { concatBytes, fromBase64, toBase64 } from '../base/bytes.ts';

/**
 * Maximum number of signature lines in a note: those of a quorum and of the witnesses of a policy. A verifier must accept at least 16 (C2SP
 * signed-note, "Format").
 */
export const NOTE_SIGNATURES_MAX = 64;

/** Longest note, in UTF-16 code units: 32 post-quantum signatures fit. */
export const NOTE_LENGTH_MAX = 131_072;

const KEY_ID_BYTES = 4;

export interface NoteSignature {
  /** Name of the key: not empty, no Unicode spaces, no plus. */
  name: string;
  /** 4 bytes that distinguish keys with the same name. */
  keyId: Uint8Array;
  signature: Uint8Array;
}

export interface Note {
  /** The signed text, including its final newline. The signature covers its UTF-8 bytes. */
  text: string;
  signatures: NoteSignature[];
}

/** Whether the text is a valid name of a key (C2SP signed-note, "Format"). */
export function isKeyName(name: string): boolean {
  return name.isWellFormed() && /^[^\p{White_Space}+]+$/u.test(name);
}

/** A signed note: the text, an empty line, and one line per signature (C2SP signed-note, "Format"). */
export function encodeNote(text: string, signatures: readonly NoteSignature[]): string {
  const note = `${text}\n${encodeSignatureLines(signatures)}`;
  assert(
    parseNote(note)?.text === text,
    'the text, or the number of its signatures, cannot be a signed note',
  );
  return note;
}

/** One line per signature, each with its newline: the last part of a note, and the answer of a witness. */
export function encodeSignatureLines(signatures: readonly NoteSignature[]): string {
  const lines = signatures.map(({ name, keyId, signature }) => {
    assert(isKeyName(name) && keyId.length === KEY_ID_BYTES, `"${name}" cannot sign a note`);
    return `— ${name} ${toBase64(concatBytes([keyId, signature]))}\n`;
  });
  return lines.join('');
}

/** Parses a note without verification; undefined if it is malformed. Any input is safe. */
export function parseNote(note: string): Note | undefined {
  if (note.length > NOTE_LENGTH_MAX || !note.isWellFormed() || hasControlCharacters(note)) return undefined;
  const border = note.lastIndexOf('\n\n');
  const signatures = border < 0 ? undefined : parseSignatureLines(note.slice(border + 2));
  return signatures && { text: note.slice(0, border + 1), signatures };
}

/** Parses one or more lines, each with its newline; undefined if one is malformed. Any input is safe. */
export function parseSignatureLines(text: string): NoteSignature[] | undefined {
  if (text.length > NOTE_LENGTH_MAX || !text.endsWith('\n')) return undefined;
  const lines = text.slice(0, -1).split('\n');
  if (lines.length > NOTE_SIGNATURES_MAX) return undefined;
  const signatures = lines.map(parseSignatureLine).filter((signature) => signature !== undefined);
  return signatures.length === lines.length ? signatures : undefined;
}

function parseSignatureLine(line: string): NoteSignature | undefined {
  const [, name, base64] = /^— ([^ ]+) ([^ ]+)$/u.exec(line) ?? [];
  if (name === undefined || base64 === undefined || !isKeyName(name)) return undefined;
  const bytes = fromBase64(base64);
  if (bytes === undefined || bytes.length <= KEY_ID_BYTES) return undefined;
  return { name, keyId: bytes.subarray(0, KEY_ID_BYTES), signature: bytes.subarray(KEY_ID_BYTES) };
}

/** ASCII control characters other than newline, which C2SP signed-note forbids. */
function hasControlCharacters(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern must find them
  return /[\x00-\x09\x0b-\x1f]/.test(text);
}
