/**
 * Characters that control a terminal or the direction of text, which could change what the screen shows; and invisible characters, which
 * make two different texts look the same.
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are the subject
const CONTROLS = /[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2064\u2066-\u2069\ufeff]/g;

/** Writes control characters as \uXXXX, which JSON parses. */
export function escapeControls(line: string): string {
  return line.replaceAll(CONTROLS, (control) => `\\u${control.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
