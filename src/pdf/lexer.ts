import type { Window } from './window.ts';

/** A token of PDF syntax (ISO 32000-2, 7.2 and 7.3). Strings are passed over: nothing here depends on one. */
export type Token =
  | { kind: 'number'; value: number }
  | { kind: 'name'; value: string }
  | { kind: 'keyword'; value: string }
  | { kind: 'string' }
  | { kind: '<<' | '>>' | '[' | ']' }
  | { kind: 'end' };

/** Of a name or a keyword; no reader knows longer ones, and what follows is passed over. */
const WORD_CHARS_MAX = 128;

const WHITESPACE = 1;
const DELIMITER = 2;
/** Per byte; 0 for regular characters (tables 1 and 2). */
const CLASSES = new Uint8Array(256);
for (const byte of [0x00, 0x09, 0x0a, 0x0c, 0x0d, 0x20]) CLASSES[byte] = WHITESPACE;
for (const char of '()<>[]{}/%') CLASSES[char.charCodeAt(0)] = DELIMITER;

export function isWhitespace(byte: number | undefined): boolean {
  return byte !== undefined && CLASSES[byte] === WHITESPACE;
}

/** A regular character, one that words are made of. */
export function isRegular(byte: number | undefined): boolean {
  return byte !== undefined && CLASSES[byte] === 0;
}

/** Reads tokens. Malformed syntax gives some tokens, never an error, as PDF readers have it. */
export class Lexer {
  readonly #window: Window;
  /** Of the next byte that is not yet part of a token. */
  position: number;

  constructor(window: Window, position: number) {
    this.#window = window;
    this.position = position;
  }

  next(): Token {
    this.skipWhitespace();
    const byte = this.#window.at(this.position);
    if (byte === undefined) return { kind: 'end' };
    if (isRegular(byte)) return this.#word();
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

  /** Comments too, which count as white space (7.2.4). */
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

  #word(): Token {
    const value = this.#characters();
    return /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)$/.test(value)
      ? { kind: 'number', value: Number(value) }
      : { kind: 'keyword', value };
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
    for (let depth = 1; depth > 0; ) {
      const byte = this.#window.at(this.position);
      if (byte === undefined) return { kind: 'end' };
      this.position += byte === 0x5c ? 2 : 1;
      if (byte === 0x28) depth += 1;
      else if (byte === 0x29) depth -= 1;
    }
    return { kind: 'string' };
  }

  #hexString(): Token {
    for (;;) {
      const byte = this.#window.at(this.position);
      if (byte === undefined) return { kind: 'end' };
      this.position += 1;
      if (byte === 0x3e) return { kind: 'string' };
    }
  }
}

/** `#20` and the like (7.3.5). */
function unescapeName(name: string): string {
  return name.includes('#')
    ? name.replace(/#([0-9A-Fa-f]{2})/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)))
    : name;
}
