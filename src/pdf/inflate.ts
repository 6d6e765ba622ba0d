import { constants, createInflate, inflateSync } from 'node:zlib';
import { damaged } from './decoders.ts';
import { isWhitespace } from './lexer.ts';

type Chunks = AsyncIterable<Buffer>;

/** Deflate expands a byte to at most 1,032 bytes, so a piece of this size gives at most 16 MiB. */
const INFLATE_PIECE_BYTES = 16 * 1024;
/** Most streams are small and inflated at once. */
const INFLATED_AT_ONCE_BYTES_MAX = 1 << 20;
const OUTPUT_BYTES = 64 * 1024;
/** Inflates truncated data as far as possible. */
const OPTIONS = { finishFlush: constants.Z_SYNC_FLUSH };

/**
 * Inflates zlib data (RFC 1950). Throws Undecodable for anything else, and for damaged data: many readers ignore a wrong checksum, while
 * others show none of such data. Data that ends before its checksum counts as truncated, not damaged.
 */
export async function* inflate(input: Chunks): Chunks {
  const chunks = fromHeader(input)[Symbol.asyncIterator]();
  const [first, second] = [await chunks.next(), await chunks.next()];
  const whole = second.done && !first.done ? inflateAtOnce(first.value) : undefined;
  if (whole !== undefined) return yield whole;
  const engine = new Inflation();
  try {
    for (let next = first; !next.done; next = next === first ? second : await chunks.next()) {
      for (let start = 0; start < next.value.length && !engine.ended; start += INFLATE_PIECE_BYTES) {
        yield* await engine.push(next.value.subarray(start, start + INFLATE_PIECE_BYTES));
      }
    }
  } finally {
    engine.close();
  }
}

const HEADER_BYTES = 2;
/** A header that names the largest window: some writers name a smaller one than they use, which readers tolerate. */
const HEADER = Buffer.of(0x78, 0x01);
const METHOD_DEFLATE = 8;
const PRESET_DICTIONARY = 0x20;

/** The data with its header replaced by ours. Line ends before the header belong to the keyword `stream`. */
async function* fromHeader(input: Chunks): Chunks {
  let head: Buffer | undefined = Buffer.alloc(0);
  for await (const chunk of input) {
    if (head === undefined) {
      yield chunk;
      continue;
    }
    const data: Buffer = Buffer.concat([head, chunk]);
    const start = data.findIndex((byte) => !isWhitespace(byte));
    head = start < 0 ? Buffer.alloc(0) : data.subarray(start);
    if (head.length < HEADER_BYTES) continue;
    const header = head.readUInt16BE(0);
    const isDeflate = ((header >> 8) & 15) === METHOD_DEFLATE && header % 31 === 0;
    if (!isDeflate || (header & PRESET_DICTIONARY) !== 0) throw damaged('FlateDecode');
    yield Buffer.concat([HEADER, head.subarray(HEADER_BYTES)]);
    head = undefined;
  }
}

function inflateAtOnce(data: Buffer): Buffer | undefined {
  try {
    return inflateSync(data, { ...OPTIONS, maxOutputLength: INFLATED_AT_ONCE_BYTES_MAX });
  } catch (error) {
    if (error instanceof RangeError) return undefined; // too large: inflate piece by piece
    throw damaged('FlateDecode');
  }
}

/** An inflater that accepts pieces. */
class Inflation {
  readonly #engine = createInflate({ ...OPTIONS, chunkSize: OUTPUT_BYTES });
  #inflated: Buffer[] = [];
  #onPushed: () => void = () => {};
  #isDamaged = false;
  ended = false;

  constructor() {
    this.#engine.on('data', (chunk: Buffer) => this.#inflated.push(chunk));
    this.#engine.on('end', () => this.#end());
    this.#engine.on('error', () => {
      this.#isDamaged = true;
      this.#end();
    });
  }

  async push(piece: Buffer): Promise<Buffer[]> {
    await new Promise<void>((resolve) => {
      this.#onPushed = resolve;
      this.#engine.write(piece, () => resolve());
    });
    if (this.#isDamaged) throw damaged('FlateDecode');
    return this.#inflated.splice(0);
  }

  close(): void {
    this.#engine.destroy();
  }

  #end(): void {
    this.ended = true;
    this.#onPushed();
  }
}
