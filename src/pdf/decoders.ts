import { hexDigit, isWhitespace } from './lexer.ts';
import { Undecodable } from './notStrippable.ts';
import type { Sink } from './sink.ts';

/**
 * Decodes a stream piece by piece (ISO 32000-2, 7.4). Throws Undecodable for data that readers decode differently. Truncated data is
 * decoded as far as possible, as all readers do.
 */
export interface Decoder {
  /** False once the data has ended; nothing is decoded after that. */
  decode(piece: Uint8Array, out: Sink): boolean;
  /** Called after the last piece, unless the data ended earlier. */
  end(out: Sink): void;
}

export function damaged(filter: string): Undecodable {
  return new Undecodable(`its ${filter} data is damaged`);
}

export class AsciiHexDecoder implements Decoder {
  #half: number | undefined;
  #ended = false;

  decode(piece: Uint8Array, out: Sink): boolean {
    for (const byte of piece) {
      if (isWhitespace(byte)) continue;
      const digit = hexDigit(byte);
      if (this.#ended || (digit === undefined && byte !== 0x3e)) throw damaged('ASCIIHexDecode');
      if (digit === undefined) {
        this.end(out);
        this.#ended = true;
      } else if (this.#half === undefined) this.#half = digit;
      else {
        out.push(this.#half * 16 + digit);
        this.#half = undefined;
      }
    }
    return true;
  }

  end(out: Sink): void {
    if (this.#half !== undefined) out.push(this.#half * 16);
    this.#half = undefined;
  }
}

const TILDE = 0x7e;
const GREATER = 0x3e;

export class Ascii85Decoder implements Decoder {
  #value = 0;
  #digits = 0;
  /** The last byte that is not white space. */
  #last = 0;
  #ended = false;

  decode(piece: Uint8Array, out: Sink): boolean {
    for (const byte of piece) {
      if (isWhitespace(byte)) continue;
      if (this.#ended) throw damaged('ASCII85Decode');
      if (this.#last === TILDE) {
        if (byte !== GREATER) throw damaged('ASCII85Decode');
        this.#ended = true;
        this.end(out);
      } else if (byte === 0x7a && this.#digits === 0) out.repeat(0, 4);
      else if (byte !== TILDE) this.#digit(byte, out);
      this.#last = byte;
    }
    return true;
  }

  /** A final group of n digits stands for n − 1 bytes, padded with the highest digit. */
  end(out: Sink): void {
    const bytes = this.#digits - 1;
    for (; this.#digits > 0 && this.#digits < 5; this.#digits += 1) this.#value = this.#value * 85 + 84;
    this.#group(out, bytes);
  }

  #digit(byte: number, out: Sink): void {
    if (byte < 0x21 || byte > 0x75) throw damaged('ASCII85Decode');
    this.#value = this.#value * 85 + (byte - 0x21);
    this.#digits += 1;
    if (this.#digits === 5) this.#group(out, 4);
  }

  #group(out: Sink, bytes: number): void {
    if (this.#value >= 2 ** 32) throw damaged('ASCII85Decode');
    for (let i = 0; i < bytes; i += 1) out.push(Math.floor(this.#value / 256 ** (3 - i)) % 256);
    this.#value = 0;
    this.#digits = 0;
  }
}

const RUN_LENGTH_END = 128;

export class RunLengthDecoder implements Decoder {
  #literal = 0;
  #repeats = 0;

  decode(piece: Uint8Array, out: Sink): boolean {
    for (const byte of piece) {
      if (this.#literal > 0) {
        this.#literal -= 1;
        out.push(byte);
      } else if (this.#repeats > 0) {
        out.repeat(byte, this.#repeats);
        this.#repeats = 0;
      } else if (byte === RUN_LENGTH_END) return false;
      else if (byte < RUN_LENGTH_END) this.#literal = byte + 1;
      else this.#repeats = 257 - byte;
    }
    return true;
  }

  end(): void {}
}

const CLEAR = 256;
const END = 257;
const FIRST_CODE = 258;
const CODES_MAX = 4096;

/** Codes have 9 to 12 bits. Each one, except the first after a clear, adds an entry: the text of the previous code, and one more byte. */
export class LzwDecoder implements Decoder {
  readonly #earlyChange: number;
  readonly #prefixes = new Uint16Array(CODES_MAX);
  readonly #lasts = new Uint8Array(CODES_MAX);
  readonly #lengths = new Uint16Array(CODES_MAX);
  #size = FIRST_CODE;
  #previous: number | undefined;
  #bits = 0;
  #bitCount = 0;

  constructor(earlyChange: number) {
    this.#earlyChange = earlyChange;
    for (let byte = 0; byte < 256; byte += 1) {
      this.#lasts[byte] = byte;
      this.#lengths[byte] = 1;
    }
  }

  decode(piece: Uint8Array, out: Sink): boolean {
    for (const byte of piece) {
      this.#bits = ((this.#bits << 8) | byte) & 0xffffff;
      this.#bitCount += 8;
      const next = this.#size + this.#earlyChange;
      const width = next < 512 ? 9 : next < 1024 ? 10 : next < 2048 ? 11 : 12;
      if (this.#bitCount < width) continue;
      this.#bitCount -= width;
      const code = (this.#bits >> this.#bitCount) & ((1 << width) - 1);
      if (!this.#take(code, out)) return false;
    }
    return true;
  }

  end(): void {}

  #take(code: number, out: Sink): boolean {
    if (code === CLEAR) {
      this.#size = FIRST_CODE;
      this.#previous = undefined;
      return true;
    }
    const isNew = code === this.#size && this.#previous !== undefined;
    if (code === END) return false;
    if (code >= this.#size && !isNew) throw damaged('LZWDecode');
    if (this.#previous !== undefined && this.#size < CODES_MAX) {
      this.#prefixes[this.#size] = this.#previous;
      this.#lengths[this.#size] = (this.#lengths[this.#previous] ?? 0) + 1;
      this.#lasts[this.#size] = this.#text(isNew ? this.#previous : code)[0] ?? 0;
      this.#size += 1;
    }
    out.append(this.#text(code));
    this.#previous = code;
    return true;
  }

  #text(code: number): Uint8Array {
    const text = new Uint8Array(this.#lengths[code] ?? 0);
    for (let at = text.length - 1, rest = code; at >= 0; at -= 1, rest = this.#prefixes[rest] ?? 0)
      text[at] = this.#lasts[rest] ?? 0;
    return text;
  }
}
