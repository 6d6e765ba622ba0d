/** Text of strangers, made safe to show, and text with emphasis. */

const NAME_CHARS_MAX = 100;

/** What is set apart from the words around it: a value, such as a name. */
interface Emphasis {
  emphasis: string;
}

export type Text = (string | Emphasis | Text)[];

export function emphasis(text: string): Emphasis {
  return { emphasis: visible(text) };
}

/** A stranger's text on one line, with all that cannot be seen escaped: nothing hides in it, and nothing turns the text around it. */
export function visible(text: string): string {
  return Array.from(text, seen).join('');
}

/** The same, shortened in the middle. */
export function shorten(text: string): string {
  const chars = Array.from(text, seen);
  if (chars.length > NAME_CHARS_MAX) chars.splice(NAME_CHARS_MAX / 2, chars.length - NAME_CHARS_MAX, '…');
  return chars.join('');
}

/** A stranger's name for a sentence: shortened, and set apart from the text around it. */
export function quoteName(name: string): string {
  return `“\u2068${shorten(name)}\u2069”`;
}

/** Without the emphasis. */
export function plainText(text: Text): string {
  return text
    .map((part) => (typeof part === 'string' ? part : Array.isArray(part) ? plainText(part) : part.emphasis))
    .join('');
}

function seen(char: string): string {
  return /[\p{C}\p{DI}\p{Zl}\p{Zp}\u2800]/u.test(char) ? `\\u{${char.codePointAt(0)?.toString(16)}}` : char;
}
