import { BoundedBytes } from '../base/bounded.ts';
import { ServiceError } from '../base/errors.ts';
import { type BulkLine, parseBulkLine } from '../job/fields.ts';
import { parseJson } from './json.ts';

export const BULK_LINES_MAX = 10_000;
/** Twice the size of a line whose fields all have the maximum length, with every character escaped. */
export const LINE_BYTES_MAX = 16 * 1024;

const LINE_FEED = 0x0a;

/** A line of a batch: its request, or the reason why the line is not readable. */
export interface NumberedLine {
  /** The line number, from 1; empty lines count. */
  line: number;
  /** Throws ServiceError. */
  parse(): BulkLine;
}

/**
 * Splits a body into lines as it arrives, and holds at most one line. A line that is too long is still a line, but its parsing fails.
 * Throws ServiceError `body_too_large` after the maximum number of lines.
 */
export class BulkLines {
  #text = new BoundedBytes(LINE_BYTES_MAX);
  #isTooLong = false;
  #line = 1;
  #total = 0;

  /** The number of the next line, which may have arrived in part. */
  get line(): number {
    return this.#line;
  }

  /** The lines that end in this chunk. */
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
    // Stops a client that sends one line without an end.
    if (this.#total > BULK_LINES_MAX * LINE_BYTES_MAX) throw tooManyLines();
  }

  /** The last line, if it does not end with a line feed. */
  *end(): Generator<NumberedLine> {
    if (this.#text.length > 0 || this.#isTooLong) yield* this.#cut();
  }

  *#cut(): Generator<NumberedLine> {
    const [{ bytes: text }, isTooLong, line] = [this.#text, this.#isTooLong, this.#line];
    if (line > BULK_LINES_MAX) throw tooManyLines();
    [this.#text, this.#isTooLong, this.#line] = [new BoundedBytes(LINE_BYTES_MAX), false, line + 1];
    if (isTooLong) yield { line, parse: tooLong };
    else if (!isBlank(text)) yield { line, parse: () => parseBulkLine(parseJson(text, 'line')) };
  }

  #hold(part: Buffer): void {
    this.#isTooLong ||= !this.#text.add(part);
  }
}

/** Blank bytes are spaces, tabs and the carriage return of a CRLF line end. */
function isBlank(text: Buffer): boolean {
  return text.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d);
}

function tooLong(): never {
  throw new ServiceError('body_too_large', `A line of a batch can have at most ${LINE_BYTES_MAX} bytes.`);
}

function tooManyLines(): ServiceError {
  const message = `A batch can have at most ${BULK_LINES_MAX} lines. Send the rest in another batch.`;
  return new ServiceError('body_too_large', message);
}
