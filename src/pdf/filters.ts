import { Ascii85Decoder, AsciiHexDecoder, type Decoder, LzwDecoder, RunLengthDecoder } from './decoders.ts';
import { inflate } from './inflate.ts';
import { Undecodable } from './notStrippable.ts';
import type { Dictionary, Value } from './objects.ts';
import { type PredictorParameters, predictorDecoder, ROW_BYTES_MAX, rowBytesOf } from './predictors.ts';
import { Sink } from './sink.ts';

export type Chunks = AsyncIterable<Buffer>;
/** Decodes bytes. Throws Undecodable for bytes that readers decode differently. */
export type Stage = (input: Chunks) => Chunks;
/** The stages of a filter with these parameters. */
export type Filter = (parameters: Dictionary) => Stage[];

/** LZW expands a byte to at most 2,730 bytes. */
const DECODE_PIECE_BYTES = 4 * 1024;
const OUTPUT_BYTES = 64 * 1024;

const ascii85: Filter = () => [decoding(() => new Ascii85Decoder())];
const asciiHex: Filter = () => [decoding(() => new AsciiHexDecoder())];
const runLength: Filter = () => [decoding(() => new RunLengthDecoder())];
const lzw: Filter = (parameters) => [
  decoding(() => new LzwDecoder(numberOf(parameters, 'EarlyChange', 1, [0, 1]))),
  ...unpredicting(parameters),
];
const flate: Filter = (parameters) => [inflate, ...unpredicting(parameters)];

/** Filters by name and abbreviation (ISO 32000-2, table 92). Encryption is missing: nothing behind it is decoded. */
export const FILTERS: ReadonlyMap<Value, Filter> = new Map<Value, Filter>([
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

/** Image codecs: the last filter of an image stream. */
export const CODECS: ReadonlySet<Value> = new Set<Value>([
  '/DCTDecode',
  '/DCT',
  '/JPXDecode',
  '/CCITTFaxDecode',
  '/CCF',
  '/JBIG2Decode',
]);

function decoding(make: () => Decoder): Stage {
  return (input) => decode(input, make());
}

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

function unpredicting(parameters: Dictionary): Stage[] {
  const predictor = predictorOf(parameters);
  return predictor.predictor === 1 ? [] : [(input) => decode(input, predictorDecoder(predictor))];
}

function predictorOf(parameters: Dictionary): PredictorParameters {
  const predictor: PredictorParameters = {
    predictor: numberOf(parameters, 'Predictor', 1, [1, 2, 10, 11, 12, 13, 14, 15]),
    colors: numberOf(parameters, 'Colors', 1),
    bitsPerComponent: numberOf(parameters, 'BitsPerComponent', 8, [1, 2, 4, 8, 16]),
    columns: numberOf(parameters, 'Columns', 1),
  };
  if (rowBytesOf(predictor) > ROW_BYTES_MAX) throw unusual('Columns');
  return predictor;
}

/** A whole number, 1 or greater, or one of `allowed`. */
function numberOf(
  parameters: Dictionary,
  key: string,
  otherwise: number,
  allowed?: readonly number[],
): number {
  const value = parameters.get(key) ?? otherwise;
  if (typeof value !== 'number' || !Number.isInteger(value)) throw unusual(key);
  if (allowed === undefined ? value < 1 : !allowed.includes(value)) throw unusual(key);
  return value;
}

function unusual(key: string): Undecodable {
  return new Undecodable(`its filter has a /${key} that readers understand differently`);
}
