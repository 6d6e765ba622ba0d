import { Dicer } from '@fastify/busboy';
import { watchHeaders } from './headerBlock.ts';
import { malformed, type Part, type PartHeaders, parsePartHeaders } from './headers.ts';

/** Where the bytes of one part go. May throw; then the form has failed. */
export interface PartSink {
  /** The bytes are the sink's from now on. */
  write(bytes: Buffer): void;
  end(): void;
}

const PARTS_MAX = 32;
/** Of a delimiter: a boundary of 70 characters (RFC 2046, section 5.1.1) and what is around it. */
const DELIMITER_BYTES_MAX = 128;

/** Dicer passes on what could have been the start of a delimiter in a buffer that it goes on using; all else is the caller's chunk. */
function ownBytes(bytes: Buffer): Buffer {
  return bytes.length > DELIMITER_BYTES_MAX ? bytes : Buffer.from(bytes);
}

/**
 * Splits a multipart/form-data body into its parts. Built on Dicer, the parser inside busboy, because busboy itself drops
 * parts it cannot read and decodes text with replacement characters: here both are the caller's mistakes to be told.
 */
export class FormParser {
  /** Resolves once the closing boundary and every part were seen; rejects at the first fault. */
  readonly finished: Promise<void>;
  readonly #outcome = Promise.withResolvers<void>();
  readonly #open: (part: Part) => PartSink;
  readonly #dicer: Dicer;
  #parts = 0;
  #partsOpen = 0;
  #closed = false;
  #failed = false;

  constructor(boundary: string, open: (part: Part) => PartSink) {
    this.finished = this.#outcome.promise;
    this.#open = open;
    this.#dicer = new Dicer({ boundary });
    watchHeaders(this.#dicer, (error) => this.#fail(error));
    this.#dicer.on('part', (stream) => this.#guard(() => this.#readPart(stream)));
    this.#dicer.on('error', () => this.#fail(malformed('it ends before its closing boundary')));
    this.#dicer.on('finish', () => {
      this.#closed = true;
      this.#settle();
    });
  }

  /** Takes the next bytes of the body, for good. Sinks have them by the next tick: parts flow, and pace is the sinks' own matter. */
  write(chunk: Uint8Array): void {
    if (!this.#failed) this.#dicer.write(chunk);
  }

  /** After the last byte of the body. */
  end(): void {
    this.#dicer.end();
  }

  #readPart(stream: Dicer.PartStream): void {
    this.#parts += 1;
    if (this.#parts > PARTS_MAX) throw malformed(`it has more than ${PARTS_MAX} parts`);
    this.#partsOpen += 1;
    let sink: PartSink | undefined;
    stream.on('header', (headers) => {
      this.#guard(() => {
        sink = this.#open(parsePartHeaders(headers as PartHeaders));
      });
    });
    stream.on('data', (chunk) => this.#guard(() => sink?.write(ownBytes(chunk as Buffer))));
    stream.on('end', () => {
      this.#guard(() => {
        if (sink === undefined) throw malformed('a part has no end to its headers');
        sink.end();
        this.#partsOpen -= 1;
        this.#settle();
      });
    });
    // Dicer reports a truncated body on the part as well as on itself.
    stream.on('error', () => {});
  }

  /** Runs a step of an event handler: what it throws must not reach the stream's internals. */
  #guard(step: () => void): void {
    if (this.#failed) return;
    try {
      step();
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    this.#failed = true;
    this.#outcome.reject(error);
  }

  #settle(): void {
    if (this.#closed && this.#partsOpen === 0) this.#outcome.resolve();
  }
}
