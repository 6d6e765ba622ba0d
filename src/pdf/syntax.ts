import { isRegular, isWhitespace } from './lexer.ts';
import type { Window } from './window.ts';

/** Maximum length of the object number and generation before `obj`. */
const HEADER_BYTES_MAX = 32;
const ZERO = 0x30;

/** Whether a separate word begins here. A digit may precede `obj`: some readers split `0obj` into two words. */
export function isWord(window: Window, at: number, word: string): boolean {
  const before = window.at(at - 1);
  const begins = !isRegular(before) || (word === 'obj' && isDigit(before));
  return begins && !isRegular(window.at(at + word.length));
}

/** The 12 in `12 0 obj`. */
export function objectNumberBefore(window: Window, at: number): number | undefined {
  let position = at;
  const back = (is: (byte: number | undefined) => boolean) => {
    const end = position;
    while (end - position < HEADER_BYTES_MAX && is(window.at(position - 1))) position -= 1;
    return end - position;
  };
  back(isWhitespace);
  const isHeader = back(isDigit) > 0 && back(isWhitespace) > 0;
  const digits = isHeader ? back(isDigit) : 0;
  if (digits === 0) return undefined;
  return Number(Array.from({ length: digits }, (_, i) => (window.at(position + i) ?? 0) - ZERO).join(''));
}

/** The first position from `position` that is not white space, or `bytesMax` further. */
export function afterWhitespace(window: Window, position: number, bytesMax = 64): number {
  let after = position;
  while (after < position + bytesMax && isWhitespace(window.at(after))) after += 1;
  return after;
}

/** Where data begins after the word `stream`: after CR LF or LF (7.3.8.1), or what readers accept instead, including preceding spaces. */
export function dataStart(window: Window, keywordEnd: number): number {
  let start = keywordEnd;
  while (window.at(start) === 0x20) start += 1;
  if (!isLineEnd(window.at(start))) start = keywordEnd;
  return start + (window.holds(start, '\r\n') ? 2 : isLineEnd(window.at(start)) ? 1 : 0);
}

function isLineEnd(byte: number | undefined): boolean {
  return byte === 0x0a || byte === 0x0d;
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= ZERO && byte <= ZERO + 9;
}
