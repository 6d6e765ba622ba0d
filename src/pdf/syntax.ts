import { isRegular, isWhitespace } from './lexer.ts';
import type { Window } from './window.ts';

/** Of what comes before `obj`. */
const HEADER_BYTES_MAX = 32;
const ZERO = 0x30;

/** Whether a word stands here on its own. Before `obj` a digit may stand: some readers take `0obj` for two words. */
export function isWord(window: Window, at: number, word: string): boolean {
  const before = window.at(at - 1);
  const begins = !isRegular(before) || (word === 'obj' && isDigit(before));
  return begins && !isRegular(window.at(at + word.length));
}

/** Of `12 0 obj`, the 12. */
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

/** The first byte from `position` on that is no white space, or `bytesMax` further. */
export function afterWhitespace(window: Window, position: number, bytesMax = 64): number {
  let after = position;
  while (after < position + bytesMax && isWhitespace(window.at(after))) after += 1;
  return after;
}

/** Where data begins behind the word `stream`: CR LF or LF (7.3.8.1), or what readers take for it, spaces before that included. */
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
