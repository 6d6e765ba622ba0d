import { malformed, type Part, parsePartHeaders } from './headers.ts';

/** Receives the bytes of one part. {@link FormParser.write} rethrows its errors. */
export interface PartSink {
  /** The sink owns the bytes from now on. */
  write(bytes: Buffer): void;
  end(): void;
}

const PARTS_MAX = 32;
const HEADER_BYTES_MAX = 16 * 1024;
const NOTHING = Buffer.alloc(0);
const CR = 0x0d;
const DASH = 0x2d;
const LINE_END = '\r\n';
const END_OF_HEADERS = Buffer.from('\r\n\r\n');
/** A body is read as if it began with a line end: its first delimiter may be its first bytes. */
const FIRST_LINE_END = Buffer.from(LINE_END);
/** Node searches for fewer than eight bytes with memchr, at twice the speed of longer patterns. */
const QUICK_BYTES = 7;

/**
 * Splits a multipart/form-data body into its parts as it arrives (RFC 7578; RFC 2046, section 5.1). The parser is strict: it rejects
 * ambiguous input, and never silently omits, decodes or replaces anything. After it has thrown, it must not be used any more.
 */
export class FormParser {
  /** Includes the line end before the boundary, which belongs to the delimiter and not to the part. */
  readonly #delimiter: Buffer;
  readonly #delimiterText: string;
  /** The first bytes of the delimiter, for the search. */
  readonly #quick: Buffer;
  readonly #open: (part: Part) => PartSink;
  #state: 'preamble' | 'headers' | 'content' | 'closed' = 'preamble';
  #sink: PartSink | undefined;
  /** Received bytes that may be the start of a delimiter, or an incomplete header. */
  #held: Buffer = FIRST_LINE_END;
  /** Bytes at the start of the content that end the headers: a delimiter must not begin with them. */
  #lead = 0;
  #parts = 0;

  constructor(boundary: string, open: (part: Part) => PartSink) {
    this.#delimiterText = `${LINE_END}--${boundary}`;
    this.#delimiter = Buffer.from(this.#delimiterText, 'latin1');
    this.#quick = this.#delimiter.subarray(0, QUICK_BYTES);
    this.#open = open;
  }

  /** Takes the next bytes of the body and owns them. Throws ServiceError `malformed_multipart`, and the errors of the sinks. */
  write(chunk: Buffer): void {
    let at: number | undefined = 0;
    let bytes = chunk;
    if (this.#held === FIRST_LINE_END && this.#beginsWithin(chunk)) {
      this.#state = 'headers';
      at = this.#delimiter.length - LINE_END.length;
    } else if (this.#held.length > 0) {
      bytes = Buffer.concat([this.#held, chunk]);
    }
    this.#held = NOTHING;
    while (at !== undefined && this.#state !== 'closed') {
      at = this.#state === 'headers' ? this.#readHeaders(bytes, at) : this.#readContent(bytes, at);
    }
  }

  /** Call this after the last byte of the body. Throws ServiceError `malformed_multipart` if there was no closing boundary. */
  end(): void {
    if (this.#state !== 'closed') throw malformed('it ends before its closing boundary');
  }

  /** Whether the first bytes are the whole first delimiter, as they usually are: then nothing has to be copied. */
  #beginsWithin(chunk: Buffer): boolean {
    const { length } = this.#delimiter;
    const bytes = length - LINE_END.length;
    return chunk.length >= bytes && chunk.compare(this.#delimiter, LINE_END.length, length, 0, bytes) === 0;
  }

  /** Reads to the next delimiter, even in the preamble. Returns the end of the delimiter, or undefined if more bytes are needed. */
  #readContent(bytes: Buffer, at: number): number | undefined {
    const end = this.#delimiterIn(bytes, at);
    if (end === -1) {
      const doubtful = this.#doubtfulFrom(bytes, at);
      // Copies the bytes, because the sink owns the originals.
      this.#held = Buffer.from(bytes.subarray(doubtful));
      this.#pass(bytes, at, doubtful);
      return undefined;
    }
    if (end === at && this.#lead > 0) throw malformed('a part has no end to its headers');
    this.#pass(bytes, at, end);
    this.#sink?.end();
    this.#sink = undefined;
    this.#state = 'headers';
    return end + this.#delimiter.length;
  }

  #delimiterIn(bytes: Buffer, at: number): number {
    const { length } = this.#delimiter;
    let start = bytes.indexOf(this.#quick, at);
    const isOther = (from: number) =>
      bytes.compare(this.#delimiter, 0, length, from, Math.min(from + length, bytes.length)) !== 0;
    while (start !== -1 && isOther(start)) {
      start = bytes.indexOf(this.#quick, start + 1);
    }
    return start;
  }

  #pass(bytes: Buffer, at: number, end: number): void {
    if (end === at) return;
    const content = bytes.subarray(at + this.#lead, end);
    this.#lead = 0;
    if (content.length > 0) this.#sink?.write(content);
  }

  /** The position of a possible start of a delimiter at the end of the bytes. */
  #doubtfulFrom(bytes: Buffer, at: number): number {
    let from = bytes.indexOf(CR, Math.max(at, bytes.length - this.#delimiter.length + 1));
    while (from !== -1 && bytes.compare(this.#delimiter, 0, bytes.length - from, from) !== 0) {
      from = bytes.indexOf(CR, from + 1);
    }
    return from === -1 ? bytes.length : from;
  }

  /** Reads the bytes after a delimiter: headers, or the mark that closes the form. Everything after that mark is ignored. */
  #readHeaders(bytes: Buffer, at: number): number | undefined {
    if (bytes[at] === DASH && bytes[at + 1] === DASH) {
      this.#state = 'closed';
      return undefined;
    }
    const end = bytes.indexOf(END_OF_HEADERS, at);
    const block = bytes.toString('latin1', at, end === -1 ? bytes.length : end);
    if (block.length > HEADER_BYTES_MAX - END_OF_HEADERS.length) {
      throw malformed(`a part has more than ${HEADER_BYTES_MAX} bytes of headers`);
    }
    if (end === -1) {
      this.#held = Buffer.from(block, 'latin1');
      return undefined;
    }
    this.#parts += 1;
    if (this.#parts > PARTS_MAX) throw malformed(`it has more than ${PARTS_MAX} parts`);
    if (block.includes(this.#delimiterText)) throw malformed('a part has no end to its headers');
    this.#sink = this.#open(parsePartHeaders(block));
    this.#state = 'content';
    this.#lead = LINE_END.length;
    return end + END_OF_HEADERS.length - LINE_END.length;
  }
}
