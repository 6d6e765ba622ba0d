import type { Sink } from './sink.ts';

/** Decodes a stream piece by piece (ISO 32000-2, 7.4). Damaged data ends it early, as it does in readers. */
export interface Decoder {
  /** False once the data is at its end; nothing is decoded after that. */
  decode(piece: Uint8Array, out: Sink): boolean;
  /** After the last piece, unless it ended before. */
  end(out: Sink): void;
}

export class AsciiHexDecoder implements Decoder {
  #half: number | undefined;

  decode(piece: Uint8Array, out: Sink): boolean {
    for (const byte of piece) {
      if (byte === 0x3e) {
        this.end(out);
        return false;
      }
      const digit = hexDigit(byte);
      if (digit === undefined) continue;
      if (this.#half === undefined) this.#half = digit;
      else {
        out.push(this.#half * 16 + digit);
        this.#half = undefined;
      }
    }
    return true;
  }

  end(out: Sink): void {
    if (this.#half !== undefined) out.push(this.#half * 16);
  }
}

function hexDigit(byte: number): number | undefined {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : undefined;
}

export class Ascii85Decoder implements Decoder {
  #value = 0;
  #digits = 0;

  decode(piece: Uint8Array, out: Sink): boolean {
    for (const byte of piece) {
      if (byte === 0x7e) {
        this.end(out);
        return false;
      }
      if (byte === 0x7a && this.#digits === 0) out.repeat(0, 4);
      if (byte < 0x21 || byte > 0x75) continue;
      this.#value = this.#value * 85 + (byte - 0x21);
      this.#digits += 1;
      if (this.#digits === 5) this.#group(out, 4);
    }
    return true;
  }

  /** A last group of n digits stands for n − 1 bytes, as if filled up with the highest digit. */
  end(out: Sink): void {
    const bytes = this.#digits - 1;
    for (; this.#digits > 0 && this.#digits < 5; this.#digits += 1) this.#value = this.#value * 85 + 84;
    this.#group(out, bytes);
  }

  #group(out: Sink, bytes: number): void {
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

/** Codes of 9 to 12 bits. Each but the first after a clear adds an entry: the text of the one before it, and one byte more. */
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
      const width = this.#width();
      if (this.#bitCount < width) continue;
      this.#bitCount -= width;
      const code = (this.#bits >> this.#bitCount) & ((1 << width) - 1);
      if (!this.#take(code, out)) return false;
    }
    return true;
  }

  end(): void {}

  #width(): number {
    const next = this.#size + this.#earlyChange;
    return next < 512 ? 9 : next < 1024 ? 10 : next < 2048 ? 11 : 12;
  }

  #take(code: number, out: Sink): boolean {
    if (code === CLEAR) {
      this.#size = FIRST_CODE;
      this.#previous = undefined;
      return true;
    }
    const isNew = code === this.#size && this.#previous !== undefined;
    if (code === END || (code >= this.#size && !isNew)) return false;
    if (this.#previous !== undefined && this.#size < CODES_MAX) {
      this.#prefixes[this.#size] = this.#previous;
      this.#lengths[this.#size] = this.#lengthOf(this.#previous) + 1;
      this.#lasts[this.#size] = this.#firstOf(isNew ? this.#previous : code);
      this.#size += 1;
    }
    out.append(this.#text(code));
    this.#previous = code;
    return true;
  }

  #lengthOf(code: number): number {
    return this.#lengths[code] ?? 0;
  }

  #firstOf(code: number): number {
    return this.#text(code)[0] ?? 0;
  }

  #text(code: number): Uint8Array {
    const text = new Uint8Array(this.#lengthOf(code));
    for (let at = text.length - 1, rest = code; at >= 0; at -= 1, rest = this.#prefixes[rest] ?? 0) {
      text[at] = this.#lasts[rest] ?? 0;
    }
    return text;
  }
}

export interface PredictorParameters {
  predictor: number;
  colors: number;
  bitsPerComponent: number;
  columns: number;
}

/** More than a row of any image; a row is held in memory. */
export const ROW_BYTES_MAX = 1 << 20;

/** Undoes the PNG predictors (7.4.4.4): rows that begin with the number of the filter they went through. */
export class PngPredictorDecoder implements Decoder {
  readonly #pixelBytes: number;
  /** Of the row above; of this one as far as it is known. */
  #above: Uint8Array;
  #row: Uint8Array;
  /** Bytes of the row so far; -1 before the number of its filter. */
  #filled = -1;
  #filter = 0;

  constructor({ colors, bitsPerComponent, columns }: PredictorParameters) {
    this.#pixelBytes = Math.max(1, (colors * bitsPerComponent) >> 3);
    const rowBytes = Math.ceil((colors * bitsPerComponent * columns) / 8);
    this.#above = new Uint8Array(rowBytes);
    this.#row = new Uint8Array(rowBytes);
  }

  decode(piece: Uint8Array, out: Sink): boolean {
    for (const byte of piece) {
      if (this.#filled < 0) {
        this.#filter = byte;
        this.#filled = 0;
        continue;
      }
      this.#row[this.#filled] = byte + this.#predicted();
      this.#filled += 1;
      if (this.#filled === this.#row.length) this.#endRow(out);
    }
    return true;
  }

  end(out: Sink): void {
    if (this.#filled > 0) out.append(this.#row.subarray(0, this.#filled));
  }

  #endRow(out: Sink): void {
    out.append(this.#row);
    [this.#above, this.#row] = [this.#row, this.#above];
    this.#filled = -1;
  }

  #predicted(): number {
    const at = this.#filled;
    const left = this.#row[at - this.#pixelBytes] ?? 0;
    const up = this.#above[at] ?? 0;
    switch (this.#filter) {
      case 1:
        return left;
      case 2:
        return up;
      case 3:
        return (left + up) >> 1;
      case 4:
        return paeth(left, up, this.#above[at - this.#pixelBytes] ?? 0);
      default:
        return 0;
    }
  }
}

function paeth(left: number, up: number, upLeft: number): number {
  const estimate = left + up - upLeft;
  const [a, b, c] = [Math.abs(estimate - left), Math.abs(estimate - up), Math.abs(estimate - upLeft)];
  if (a <= b && a <= c) return left;
  return b <= c ? up : upLeft;
}
