import { ServiceError } from '../base/errors.ts';

/** ISO 32000-2, 7.5.2 and 7.5.5. Leading and trailing bytes are tolerated as readers do (implementation note of PDF 1.7). */
const HEADER = '%PDF-';
const TRAILER = '%%EOF';
const WINDOW_BYTES = 1024;

/**
 * Recognises a PDF by its ends while it is streamed: `%PDF-` within the first 1024 bytes, `%%EOF` within the last 1024. Only those bytes
 * are kept.
 */
export class PdfSniffer {
  readonly #field: string;
  #head: Buffer | undefined = Buffer.alloc(0);
  #tail = Buffer.alloc(0);

  /** `field` is named in the error. */
  constructor(field: string) {
    this.#field = field;
  }

  /** Throws ServiceError `not_a_pdf` as soon as the first 1024 bytes have no header. */
  update(chunk: Uint8Array): void {
    if (this.#head !== undefined) this.#look(this.#head, chunk);
    this.#tail = lastBytes(this.#tail, chunk);
  }

  /** Called after the last byte; throws ServiceError `not_a_pdf`. */
  end(): void {
    if (this.#tail.length === 0) throw this.#notPdf('it is empty');
    if (this.#head !== undefined) throw this.#noHeader();
    if (!this.#tail.includes(TRAILER))
      throw this.#notPdf(`its last ${WINDOW_BYTES} bytes hold no ${TRAILER}`);
  }

  #look(head: Buffer, chunk: Uint8Array): void {
    const seen = Buffer.concat([head, chunk.subarray(0, WINDOW_BYTES - head.length)]);
    if (seen.includes(HEADER)) this.#head = undefined;
    else if (seen.length === WINDOW_BYTES) throw this.#noHeader();
    else this.#head = seen;
  }

  #noHeader(): ServiceError {
    return this.#notPdf(`its first ${WINDOW_BYTES} bytes hold no ${HEADER}`);
  }

  #notPdf(why: string): ServiceError {
    const message = `${this.#field} is not a complete PDF: ${why}. Send the document as it is, unencoded.`;
    return new ServiceError('not_a_pdf', message, { parameter: this.#field });
  }
}

/** The last 1024 bytes of two pieces, copied so that a large chunk is not kept alive. */
function lastBytes(before: Buffer, chunk: Uint8Array): Buffer<ArrayBuffer> {
  const after = chunk.subarray(-WINDOW_BYTES);
  const kept = Math.min(before.length, WINDOW_BYTES - after.length);
  return Buffer.concat([before.subarray(before.length - kept), after]);
}
