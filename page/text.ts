/** Makes untrusted text safe to show, and handles text with emphasis. */

const NAME_CHARS_MAX = 100;

/** A part set apart from the words around it: a value, such as a name. */
interface Emphasis {
  emphasis: string;
}

export type Text = (string | Emphasis | Text)[];

export function emphasis(text: string): Emphasis {
  return { emphasis: visible(text) };
}

/**
 * Untrusted text on one line, with invisible characters escaped, so that nothing is hidden or changes the direction of the text around it.
 */
export function visible(text: string): string {
  return Array.from(text, seen).join('');
}

/** Like {@link visible}, but shortened in the middle. */
export function shorten(text: string): string {
  const chars = Array.from(text, seen);
  if (chars.length > NAME_CHARS_MAX) chars.splice(NAME_CHARS_MAX / 2, chars.length - NAME_CHARS_MAX, '…');
  return chars.join('');
}

/** An untrusted name for use in a sentence: shortened, and isolated from the text around it. */
export function quoteName(name: string): string {
  return `“\u2068${shorten(name)}\u2069”`;
}

/** The text without emphasis. */
export function plainText(text: Text): string {
  return text
    .map((part) => (typeof part === 'string' ? part : Array.isArray(part) ? plainText(part) : part.emphasis))
    .join('');
}

function seen(char: string): string {
  return /[\p{C}\p{DI}\p{Zl}\p{Zp}\u2800]/u.test(char) ? `\\u{${char.codePointAt(0)?.toString(16)}}` : char;
}
