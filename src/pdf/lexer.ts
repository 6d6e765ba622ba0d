import { PacketSearch } from './packets.ts';
import { Sink } from './sink.ts';
import type { Window } from './window.ts';

/** A token of PDF syntax (ISO 32000-2, 7.2 and 7.3). For strings, it records only whether they contain XMP. */
export type Token =
  | { kind: 'number'; value: number }
  | { kind: 'name'; value: string }
  | { kind: 'keyword'; value: string }
  | { kind: 'string'; isXmp: boolean }
  | { kind: '<<' | '>>' | '[' | ']' }
  | { kind: 'end' };

/** Maximum length of a name or a keyword. Readers know no longer ones; the rest is skipped. */
const WORD_CHARS_MAX = 128;

const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)$/;

const WHITESPACE = 1;
const DELIMITER = 2;
/** Classes by byte; 0 for regular characters (tables 1 and 2). */
const CLASSES = new Uint8Array(256);
for (const byte of [0x00, 0x09, 0x0a, 0x0c, 0x0d, 0x20]) CLASSES[byte] = WHITESPACE;
for (const char of '()<>[]{}/%') CLASSES[char.charCodeAt(0)] = DELIMITER;

export function isWhitespace(byte: number | undefined): boolean {
  return byte !== undefined && CLASSES[byte] === WHITESPACE;
}

/** Whether the byte is a regular character, which words consist of. */
export function isRegular(byte: number | undefined): boolean {
  return byte !== undefined && CLASSES[byte] === 0;
}

/** Reads tokens. Malformed syntax produces some tokens, never an error, as in PDF readers. */
export class Lexer {
  readonly #window: Window;
  readonly #string = new StringSearch();
  /** The position of the next byte that does not belong to a token yet. */
  position: number;

  constructor(window: Window, position: number) {
    this.#window = window;
    this.position = position;
  }

  next(): Token {
    this.skipWhitespace();
    const byte = this.#window.at(this.position);
    if (byte === undefined) return { kind: 'end' };
    if (isRegular(byte)) {
      const value = this.#characters();
      return NUMBER.test(value) ? { kind: 'number', value: Number(value) } : { kind: 'keyword', value };
    }
    this.position += 1;
    switch (String.fromCharCode(byte)) {
      case '/':
        return { kind: 'name', value: unescapeName(this.#characters()) };
      case '(':
        return this.#literalString();
      case '<':
        return this.#taken('<') ? { kind: '<<' } : this.#hexString();
      case '>':
        return this.#taken('>') ? { kind: '>>' } : { kind: 'keyword', value: '>' };
      case '[':
        return { kind: '[' };
      case ']':
        return { kind: ']' };
      default:
        return { kind: 'keyword', value: String.fromCharCode(byte) };
    }
  }

  /** Also skips comments, which count as white space (7.2.4). */
  skipWhitespace(): void {
    for (;;) {
      const byte = this.#window.at(this.position);
      if (byte === 0x25) this.#skipLine();
      else if (isWhitespace(byte)) this.position += 1;
      else return;
    }
  }

  #skipLine(): void {
    for (;;) {
      const byte = this.#window.at(this.position);
      if (byte === undefined || byte === 0x0a || byte === 0x0d) return;
      this.position += 1;
    }
  }

  #taken(char: string): boolean {
    if (this.#window.at(this.position) !== char.charCodeAt(0)) return false;
    this.position += 1;
    return true;
  }

  #characters(): string {
    let text = '';
    for (;;) {
      const byte = this.#window.at(this.position);
      if (byte === undefined || !isRegular(byte)) return text;
      if (text.length < WORD_CHARS_MAX) text += String.fromCharCode(byte);
      this.position += 1;
    }
  }

  #literalString(): Token {
    for (let depth = 1; ; ) {
      const byte = this.#window.at(this.position);
      if (byte === undefined) return { kind: 'end' };
      this.position += 1;
      if (byte === BACKSLASH) this.#escape();
      else if (byte === CLOSING && depth === 1) return { kind: 'string', isXmp: this.#string.end() };
      else {
        if (byte === OPENING) depth += 1;
        else if (byte === CLOSING) depth -= 1;
        this.#string.push(byte);
      }
    }
  }

  /** Reads the rest of an escape sequence, after its backslash (7.3.4.2, table 3). */
  #escape(): void {
    const byte = this.#window.at(this.position);
    if (byte === undefined) return;
    if (isOctal(byte)) this.#octal();
    else {
      this.position += 1;
      if (byte === 0x0d && this.#window.at(this.position) === 0x0a) this.position += 1;
      if (byte !== 0x0d && byte !== 0x0a) this.#string.push(ESCAPES.get(byte) ?? byte);
    }
  }

  /** Reads one to three digits. */
  #octal(): void {
    let value = 0;
    for (let digits = 0; digits < 3; digits += 1) {
      const byte = this.#window.at(this.position);
      if (!isOctal(byte)) break;
      value = value * 8 + byte - 0x30;
      this.position += 1;
    }
    this.#string.push(value & 0xff);
  }

  /** A character that is not a digit is skipped, or read as zero: readers do either. */
  #hexString(): Token {
    const start = this.position;
    const passing = this.#hexDigits(undefined);
    if (passing === undefined) return { kind: 'end' };
    if (passing.isXmp || !passing.hasStrangers) return { kind: 'string', isXmp: passing.isXmp };
    this.position = start;
    return { kind: 'string', isXmp: this.#hexDigits(0)?.isXmp ?? false };
  }

  /** `strangers`: the value of characters that are not digits; undefined if they are skipped. */
  #hexDigits(strangers: 0 | undefined): { isXmp: boolean; hasStrangers: boolean } | undefined {
    let half: number | undefined;
    let hasStrangers = false;
    for (;;) {
      const byte = this.#window.at(this.position);
      if (byte === undefined) return undefined;
      this.position += 1;
      if (byte === 0x3e) break;
      if (isWhitespace(byte)) continue;
      const digit = hexDigit(byte);
      hasStrangers ||= digit === undefined;
      const value = digit ?? strangers;
      if (value === undefined) continue;
      if (half !== undefined) this.#string.push(half * 16 + value);
      half = half === undefined ? value : undefined;
    }
    if (half !== undefined) this.#string.push(half * 16);
    return { isXmp: this.#string.end(), hasStrangers };
  }
}

const BACKSLASH = 0x5c;
const OPENING = 0x28;
const CLOSING = 0x29;
const ESCAPES = new Map(
  [...'nrtbf'].map((char, i) => [char.charCodeAt(0), '\n\r\t\b\f'.charCodeAt(i)] as const),
);

function isOctal(byte: number | undefined): byte is number {
  return byte !== undefined && byte >= 0x30 && byte <= 0x37;
}

export function hexDigit(byte: number): number | undefined {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : undefined;
}

const STRING_PIECE_BYTES = 64 * 1024;

/** Searches the bytes of a string for XMP, whatever its length. */
class StringSearch {
  readonly #bytes = new Sink(256);
  #search: PacketSearch | undefined;

  push(byte: number): void {
    this.#bytes.push(byte);
    if (this.#bytes.length < STRING_PIECE_BYTES) return;
    this.#search ??= new PacketSearch();
    this.#search.push(this.#bytes.take());
  }

  /** Whether the string that ends here contains XMP. */
  end(): boolean {
    const search = this.#search ?? new PacketSearch();
    this.#search = undefined;
    search.push(this.#bytes.take());
    search.end();
    return search.found;
  }
}

/** Decodes `#20` and the like (7.3.5). */
function unescapeName(name: string): string {
  return name.includes('#')
    ? name.replace(/#([0-9A-Fa-f]{2})/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)))
    : name;
}
