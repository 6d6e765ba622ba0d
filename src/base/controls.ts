/** Controls of terminals and of text direction: in what strangers wrote they could rewrite what is on the screen. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: those are what it is about
const CONTROLS = /[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Writes them as \uXXXX, which JSON reads back. */
export function escapeControls(line: string): string {
  return line.replaceAll(CONTROLS, (control) => `\\u${control.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
