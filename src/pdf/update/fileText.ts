/** The bytes of a document as text, piece by piece, with a bound on the work that any document may cause. */
import { toBinary } from '../../base/bytes.ts';
import { NotSealable } from './notSealable.ts';
import { Parser, SHORT } from './strictSyntax.ts';

/** A document that is read at any place, in Node or in a browser. */
export interface PdfReader {
  readonly size: number;
  /** `length` bytes from `offset`, or as many as there are. */
  read(offset: number, length: number): Uint8Array | Promise<Uint8Array>;
  /**
   * Inflates zlib data (RFC 1950), after which only line ends may follow. Throws for any other, and for more than `bytesMax` bytes. A
   * browser's own way if absent.
   */
  inflate?(data: Uint8Array, bytesMax: number): Uint8Array | Promise<Uint8Array>;
}

/** A text from somewhere in the document. */
export interface TextPiece {
  text: string;
  /** The offset of its first character. */
  offset: number;
}

/** Objects are small, and often lie far apart. */
const READ_BYTES_MIN = 1024;
/** What is read at once of objects that follow each other. */
const READ_BYTES_MAX = 32 << 10;
/** The end of a stream lies before the object that has its length. */
const MARGIN_BYTES = 64;
const OBJECT_BYTES_MAX = 4 << 20;
/** Cross-reference streams, object streams and metadata. */
const UNPACKED_BYTES_MAX = 64 << 20;
/** What the streams of a small document may have, and those of any other for each of its bytes. */
const UNPACKED_BYTES_MIN = 8 << 20;
const UNPACKED_PER_BYTE = 16;
/** The work of any document in bytes, and for each of its bytes. */
const WORK_BYTES_MIN = 8 << 20;
const WORK_PER_BYTE = 16;
/** A value takes as much work as so many bytes. */
const WORK_PER_NODE = 4;

export class FileText {
  readonly reader: PdfReader;
  #piece: TextPiece = { text: '', offset: 0 };
  #ahead = READ_BYTES_MIN;
  #work: number;
  /** What the streams of the document may still have, together. */
  unpackedBytesLeft: number;

  constructor(reader: PdfReader) {
    this.reader = reader;
    this.#work = WORK_BYTES_MIN + WORK_PER_BYTE * reader.size;
    const unpacked = UNPACKED_BYTES_MIN + UNPACKED_PER_BYTE * reader.size;
    this.unpackedBytesLeft = Math.min(unpacked, UNPACKED_BYTES_MAX);
  }

  /** Throws NotSealable if a document takes more work than any needs. */
  spend(bytes: number): void {
    this.#work -= bytes;
    if (this.#work < 0) throw new NotSealable('it takes more work than any document needs');
  }

  /** Spends what a parser did since it began there. */
  spendOn({ position, nodes }: Parser, start: number): void {
    this.spend(position - start + WORK_PER_NODE * nodes);
  }

  /** The bytes from `offset`, of which there must be as many. */
  async bytes(offset: number, length: number, name: string): Promise<Uint8Array> {
    if (offset + length > this.reader.size)
      throw new NotSealable(`${name} goes on beyond the end of the file`);
    this.spend(length);
    return this.reader.read(offset, length);
  }

  /** As {@link bytes}, as text. */
  async textAt(offset: number, length: number, name: string): Promise<string> {
    const { text, offset: start } = this.#piece;
    if (offset < start || offset + length > start + text.length)
      return toBinary(await this.bytes(offset, length, name));
    this.spend(length);
    return text.slice(offset - start, offset - start + length);
  }

  /** Parses what is at `offset`, and probably has so many bytes. The parser's positions are those in the text of the piece. */
  async parse<T>(
    offset: number,
    { name, number }: { name: string; number?: number },
    parse: (parser: Parser, piece: TextPiece) => T,
    expectedBytes = 0,
  ): Promise<T> {
    if (offset >= this.reader.size) throw new NotSealable(`${name} is missing`, number);
    for (
      let bytes = expectedBytes;
      bytes <= 2 * OBJECT_BYTES_MAX;
      bytes = Math.max(READ_BYTES_MIN, bytes * 8)
    ) {
      const piece = this.#known(offset, bytes) ?? (await this.#read(offset, bytes));
      const isWhole = piece.offset + piece.text.length >= this.reader.size;
      const parser = new Parser(piece.text, offset - piece.offset, isWhole, name, number);
      try {
        return parse(parser, piece);
      } catch (error) {
        if (error !== SHORT) throw error;
      } finally {
        this.spendOn(parser, offset - piece.offset);
      }
    }
    throw new NotSealable(`${name} is larger than any object needs`, number);
  }

  /** The last piece, if it has so many bytes from `offset`, or all that there are. */
  #known(offset: number, bytes: number): TextPiece | undefined {
    const end = this.#pieceEnd;
    return this.#isWithin(offset) && (offset + bytes <= end || end === this.reader.size)
      ? this.#piece
      : undefined;
  }

  get #pieceEnd(): number {
    return this.#piece.offset + this.#piece.text.length;
  }

  /** What is before an object is looked at, too. */
  #isWithin(offset: number): boolean {
    const start = this.#piece.offset;
    return offset >= Math.min(start + 1, offset + start) && offset < this.#pieceEnd;
  }

  /** A text with so many bytes from `offset`, if there are as many. */
  async #read(offset: number, bytes: number): Promise<TextPiece> {
    const end = this.#pieceEnd;
    const isNext = this.#isWithin(offset) || (offset >= end && offset < end + READ_BYTES_MIN);
    this.#ahead = isNext ? Math.min(2 * this.#ahead, READ_BYTES_MAX) : READ_BYTES_MIN;
    const isSmall = this.reader.size <= READ_BYTES_MAX;
    const start = isSmall ? 0 : Math.max(0, offset - MARGIN_BYTES);
    const wanted = isSmall ? this.reader.size : MARGIN_BYTES + Math.max(bytes, this.#ahead);
    const length = Math.min(wanted, this.reader.size - start);
    this.spend(length);
    const text = toBinary(await this.reader.read(start, length));
    if (text.length !== length) throw new NotSealable('it cannot be read as far as it should be long');
    this.#piece = { text, offset: start };
    return this.#piece;
  }
}
