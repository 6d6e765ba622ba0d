import { ServiceError } from '../base/errors.ts';
import { type BulkLine, parseBulkLine } from '../job/fields.ts';
import { parseJson } from './json.ts';

export const BULK_LINES_MAX = 10_000;
/** Twice what the longest fields take with every character escaped. */
export const LINE_BYTES_MAX = 16 * 1024;

const LINE_FEED = 0x0a;

/** A line of a batch: what it says, or why that cannot be read. */
export interface NumberedLine {
  /** From 1; empty lines count. */
  line: number;
  /** Throws ServiceError. */
  parse(): BulkLine;
}

/**
 * Cuts a body into its lines as it arrives, and holds no more than one of them. What is too long is a line like others, whose
 * parsing fails. Throws ServiceError `body_too_large` past the last line there may be.
 */
export class BulkLines {
  #parts: Buffer[] = [];
  #bytes = 0;
  #line = 1;
  #total = 0;

  /** The number of the line that comes next, or is coming. */
  get line(): number {
    return this.#line;
  }

  /** The lines that end in the chunk. */
  *push(chunk: Buffer): Generator<NumberedLine> {
    this.#total += chunk.length;
    let start = 0;
    for (;;) {
      const end = chunk.indexOf(LINE_FEED, start);
      if (end === -1) break;
      this.#hold(chunk.subarray(start, end));
      yield* this.#cut();
      start = end + 1;
    }
    this.#hold(chunk.subarray(start));
    // Nobody is to send one line for ever.
    if (this.#total > BULK_LINES_MAX * LINE_BYTES_MAX) throw tooManyLines();
  }

  /** The last line, where no line feed ends it. */
  *end(): Generator<NumberedLine> {
    if (this.#bytes > 0) yield* this.#cut();
  }

  *#cut(): Generator<NumberedLine> {
    const [parts, bytes, line] = [this.#parts, this.#bytes, this.#line];
    if (line > BULK_LINES_MAX) throw tooManyLines();
    [this.#parts, this.#bytes, this.#line] = [[], 0, line + 1];
    const text = Buffer.concat(parts);
    if (bytes > LINE_BYTES_MAX) yield { line, parse: tooLong };
    else if (!isBlank(text)) yield { line, parse: () => parse(text) };
  }

  #hold(part: Buffer): void {
    this.#bytes += part.length;
    if (this.#bytes > LINE_BYTES_MAX) this.#parts = [];
    else if (part.length > 0) this.#parts.push(part);
  }
}

/** Spaces, tabs and the carriage return of a foreign line end. */
function isBlank(text: Buffer): boolean {
  return text.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d);
}

function parse(bytes: Buffer): BulkLine {
  return parseBulkLine(parseJson(bytes, 'line'));
}

function tooLong(): never {
  throw new ServiceError('body_too_large', `A line of a batch may have ${LINE_BYTES_MAX} bytes at most.`);
}

function tooManyLines(): ServiceError {
  const message = `A batch may have ${BULK_LINES_MAX} lines at most. Send the rest in another one.`;
  return new ServiceError('body_too_large', message);
}
