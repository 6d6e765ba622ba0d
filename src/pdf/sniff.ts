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
    if (this.#head !== undefined) {
      const seen = Buffer.concat([this.#head, chunk.subarray(0, WINDOW_BYTES - this.#head.length)]);
      this.#head = seen.includes(HEADER) ? undefined : seen;
      if (this.#head?.length === WINDOW_BYTES) throw this.#noHeader();
    }
    // Copied, so that a large chunk is not kept alive.
    const last = chunk.subarray(-WINDOW_BYTES);
    const kept = Math.min(this.#tail.length, WINDOW_BYTES - last.length);
    this.#tail = Buffer.concat([this.#tail.subarray(this.#tail.length - kept), last]);
  }

  /** Called after the last byte; throws ServiceError `not_a_pdf`. */
  end(): void {
    if (this.#tail.length === 0) throw this.#notPdf('it is empty');
    if (this.#head !== undefined) throw this.#noHeader();
    if (!this.#tail.includes(TRAILER))
      throw this.#notPdf(`its last ${WINDOW_BYTES} bytes hold no ${TRAILER}`);
  }

  #noHeader(): ServiceError {
    return this.#notPdf(`its first ${WINDOW_BYTES} bytes hold no ${HEADER}`);
  }

  #notPdf(why: string): ServiceError {
    const message = `${this.#field} is not a complete PDF: ${why}. Send the document as it is, unencoded.`;
    return new ServiceError('not_a_pdf', message, { parameter: this.#field });
  }
}
