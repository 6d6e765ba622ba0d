/** Control characters of terminals and of text direction: in a stranger's text they could rewrite what the screen shows. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are the subject
const CONTROLS = /[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Writes control characters as \uXXXX, which JSON reads back. */
export function escapeControls(line: string): string {
  return line.replaceAll(CONTROLS, (control) => `\\u${control.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
