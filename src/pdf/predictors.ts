import { type Decoder, damaged } from './decoders.ts';
import type { Sink } from './sink.ts';

/** Parameters of a filter with a predictor (ISO 32000-2, 7.4.4.4). */
export interface PredictorParameters {
  predictor: number;
  colors: number;
  bitsPerComponent: number;
  columns: number;
}

/** Maximum row length: more than any image has. One row is held in memory. */
export const ROW_BYTES_MAX = 1 << 20;

/** The decoder that reverses a predictor. The predictor must change something. */
export function predictorDecoder(parameters: PredictorParameters): Decoder {
  return parameters.predictor === 2 ? new TiffDecoder(parameters) : new PngDecoder(parameters);
}

export function rowBytesOf({ colors, bitsPerComponent, columns }: PredictorParameters): number {
  return Math.ceil((colors * bitsPerComponent * columns) / 8);
}

/** Each row begins with the number of the filter applied to it. */
class PngDecoder implements Decoder {
  readonly #pixelBytes: number;
  /** The row above, and of the current row the part known so far. */
  #above: Uint8Array;
  #row: Uint8Array;
  /** Bytes of the current row read so far; -1 before the number of its filter. */
  #filled = -1;
  #filter = 0;

  constructor(parameters: PredictorParameters) {
    this.#pixelBytes = Math.max(1, (parameters.colors * parameters.bitsPerComponent) >> 3);
    this.#above = new Uint8Array(rowBytesOf(parameters));
    this.#row = new Uint8Array(this.#above.length);
  }

  decode(piece: Uint8Array, out: Sink): boolean {
    for (let at = 0; at < piece.length; ) {
      if (this.#filled < 0) {
        this.#filter = piece[at] ?? 0;
        if (this.#filter > PAETH) throw damaged('predicted');
        this.#filled = 0;
        at += 1;
      }
      const count = Math.min(piece.length - at, this.#row.length - this.#filled);
      this.#row.set(piece.subarray(at, at + count), this.#filled);
      this.#undo(this.#filled, this.#filled + count);
      this.#filled += count;
      at += count;
      if (this.#filled < this.#row.length) continue;
      out.append(this.#row);
      [this.#above, this.#row] = [this.#row, this.#above];
      this.#filled = -1;
    }
    return true;
  }

  end(out: Sink): void {
    if (this.#filled > 0) out.append(this.#row.subarray(0, this.#filled));
  }

  /** Reverses the filter for bytes `start` to `end` of the row, with one loop for each filter. */
  #undo(start: number, end: number): void {
    const [row, above, back] = [this.#row, this.#above, this.#pixelBytes];
    const left = (i: number) => (i < back ? 0 : (row[i - back] as number));
    const at = (i: number) => row[i] as number;
    const up = (i: number) => above[i] as number;
    if (this.#filter === SUB) for (let i = start; i < end; i += 1) row[i] = at(i) + left(i);
    else if (this.#filter === UP) for (let i = start; i < end; i += 1) row[i] = at(i) + up(i);
    else if (this.#filter === AVERAGE) {
      for (let i = start; i < end; i += 1) row[i] = at(i) + ((left(i) + up(i)) >> 1);
    } else if (this.#filter === PAETH) {
      for (let i = start; i < end; i += 1)
        row[i] = at(i) + paeth(left(i), up(i), i < back ? 0 : up(i - back));
    }
  }
}

const SUB = 1;
const UP = 2;
const AVERAGE = 3;
const PAETH = 4;

function paeth(left: number, up: number, upLeft: number): number {
  const estimate = left + up - upLeft;
  const [a, b, c] = [Math.abs(estimate - left), Math.abs(estimate - up), Math.abs(estimate - upLeft)];
  if (a <= b && a <= c) return left;
  return b <= c ? up : upLeft;
}

/** TIFF 6.0, section 14: each component is stored as the difference from that of the previous pixel. */
class TiffDecoder implements Decoder {
  readonly #parameters: PredictorParameters;
  readonly #row: Uint8Array;
  #filled = 0;

  constructor(parameters: PredictorParameters) {
    this.#parameters = parameters;
    this.#row = new Uint8Array(rowBytesOf(parameters));
  }

  decode(piece: Uint8Array, out: Sink): boolean {
    for (let at = 0; at < piece.length; ) {
      const count = Math.min(piece.length - at, this.#row.length - this.#filled);
      this.#row.set(piece.subarray(at, at + count), this.#filled);
      this.#filled += count;
      at += count;
      if (this.#filled === this.#row.length) this.end(out);
    }
    return true;
  }

  end(out: Sink): void {
    const row = this.#row.subarray(0, this.#filled);
    if (this.#parameters.bitsPerComponent === 8) sumBytes(row, this.#parameters.colors);
    else sumBits(row, this.#parameters);
    out.append(row);
    this.#filled = 0;
  }
}

function sumBytes(row: Uint8Array, colors: number): void {
  for (let i = colors; i < row.length; i += 1) row[i] = (row[i] as number) + (row[i - colors] as number);
}

/** Adds components of 1, 2, 4 or 16 bits. */
function sumBits(row: Uint8Array, { colors, bitsPerComponent: bits }: PredictorParameters): void {
  const mask = 2 ** bits - 1;
  const before = new Array<number>(colors).fill(0);
  for (let i = 0; (i + 1) * bits <= row.length * 8; i += 1) {
    const byte = (i * bits) >> 3;
    const shift = bits === 16 ? 0 : 8 - bits - ((i * bits) & 7);
    const word =
      bits === 16 ? ((row[byte] as number) << 8) | (row[byte + 1] as number) : (row[byte] as number);
    const sum = (((word >> shift) & mask) + (before[i % colors] as number)) & mask;
    before[i % colors] = sum;
    const changed = (word & ~(mask << shift)) | (sum << shift);
    if (bits === 16) row.set([changed >> 8, changed & 255], byte);
    else row[byte] = changed;
  }
}
