import { createInflate, inflateSync } from 'node:zlib';
import {
  Ascii85Decoder,
  AsciiHexDecoder,
  type Decoder,
  LzwDecoder,
  PngPredictorDecoder,
  ROW_BYTES_MAX,
  RunLengthDecoder,
} from './decoders.ts';
import type { Dictionary } from './objects.ts';
import { Sink } from './sink.ts';

export type Chunks = AsyncIterable<Buffer>;
/** Turns encoded bytes into decoded ones. Damaged data ends its output early: that is what readers make of it too. */
export type Filter = (input: Chunks, parameters: Dictionary) => Chunks;

/** Deflate makes 1,032 bytes of one at most: so much is held at a time, and no more than 16 MiB come of it. */
const INFLATE_PIECE_BYTES = 16 * 1024;
/** Most streams are small, and inflated in one go. */
const INFLATED_AT_ONCE_BYTES_MAX = 1 << 20;
/** LZW makes 2,730 bytes of one at most. */
const DECODE_PIECE_BYTES = 4 * 1024;
const OUTPUT_BYTES = 64 * 1024;

const ascii85: Filter = (input) => decode(input, new Ascii85Decoder());
const asciiHex: Filter = (input) => decode(input, new AsciiHexDecoder());
const runLength: Filter = (input) => decode(input, new RunLengthDecoder());
const lzw: Filter = (input, parameters) =>
  unpredict(decode(input, new LzwDecoder(numberOf(parameters, 'EarlyChange', 1))), parameters);
const flate: Filter = (input, parameters) => unpredict(inflate(input), parameters);

/** By name and abbreviation (ISO 32000-2, table 92). Image codecs and encryption are not here: nothing is decoded past them. */
export const FILTERS: ReadonlyMap<string, Filter> = new Map([
  ['/FlateDecode', flate],
  ['/Fl', flate],
  ['/LZWDecode', lzw],
  ['/LZW', lzw],
  ['/ASCII85Decode', ascii85],
  ['/A85', ascii85],
  ['/ASCIIHexDecode', asciiHex],
  ['/AHx', asciiHex],
  ['/RunLengthDecode', runLength],
  ['/RL', runLength],
]);

async function* decode(input: Chunks, decoder: Decoder): Chunks {
  const out = new Sink();
  let goesOn = true;
  for await (const chunk of input) {
    for (let start = 0; goesOn && start < chunk.length; start += DECODE_PIECE_BYTES) {
      goesOn = decoder.decode(chunk.subarray(start, start + DECODE_PIECE_BYTES), out);
      if (out.length >= OUTPUT_BYTES) yield out.take();
    }
    if (!goesOn) break;
  }
  if (goesOn) decoder.end(out);
  if (out.length > 0) yield out.take();
}

/** The TIFF predictor (2) changes no byte that differs from its neighbour by nothing, and is for images: it is left as it is. */
function unpredict(input: Chunks, parameters: Dictionary): Chunks {
  const predictor = {
    predictor: numberOf(parameters, 'Predictor', 1),
    colors: numberOf(parameters, 'Colors', 1),
    bitsPerComponent: numberOf(parameters, 'BitsPerComponent', 8),
    columns: numberOf(parameters, 'Columns', 1),
  };
  const rowBits = predictor.colors * predictor.bitsPerComponent * predictor.columns;
  const isPng = predictor.predictor >= 10 && rowBits > 0 && rowBits <= 8 * ROW_BYTES_MAX;
  return isPng ? decode(input, new PngPredictorDecoder(predictor)) : input;
}

function numberOf(parameters: Dictionary, key: string, otherwise: number): number {
  const value = parameters.get(key);
  return typeof value === 'number' && Number.isInteger(value) ? value : otherwise;
}

async function* inflate(input: Chunks): Chunks {
  let engine: Inflation | undefined;
  try {
    for await (const chunk of input) {
      const whole = engine === undefined ? inflateAtOnce(chunk) : undefined;
      if (whole !== undefined) return yield whole;
      engine ??= new Inflation();
      for (let start = 0; start < chunk.length; start += INFLATE_PIECE_BYTES) {
        yield* await engine.push(chunk.subarray(start, start + INFLATE_PIECE_BYTES));
        if (engine.ended) return;
      }
    }
  } finally {
    engine?.close();
  }
}

function inflateAtOnce(data: Buffer): Buffer | undefined {
  try {
    return inflateSync(data, { maxOutputLength: INFLATED_AT_ONCE_BYTES_MAX });
  } catch {
    return undefined; // too much, not all of it, or damaged: then piece by piece
  }
}

/** An inflater that gives what it has made before the data is found to be damaged. */
class Inflation {
  readonly #engine = createInflate({ chunkSize: OUTPUT_BYTES });
  #inflated: Buffer[] = [];
  #onPushed: () => void = () => {};
  ended = false;

  constructor() {
    this.#engine.on('data', (chunk: Buffer) => this.#inflated.push(chunk));
    for (const event of ['end', 'error'] as const) {
      this.#engine.on(event, () => {
        this.ended = true;
        this.#onPushed();
      });
    }
  }

  async push(piece: Buffer): Promise<Buffer[]> {
    await new Promise<void>((resolve) => {
      this.#onPushed = resolve;
      this.#engine.write(piece, () => resolve());
    });
    return this.#inflated.splice(0);
  }

  close(): void {
    this.#engine.destroy();
  }
}
