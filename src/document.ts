import { ServiceError } from './base/errors.ts';
import type { Hasher } from './hash/hasher.ts';
import type { HashPool } from './hash/pool.ts';
import type { Content } from './job/job.ts';
import { PdfSniffer } from './pdf/sniff.ts';

export interface DocumentOptions {
  pool: Pick<HashPool, 'hasher'>;
  documentBytesMax: number;
}

/** The field of the create that the document came by, and that faults in it are faults of. */
export type DocumentField = 'file' | 'source_url';

/**
 * What happens to the bytes of a document, uploaded or fetched, in one pass: the PDF check, the size limit, both digests.
 * Nothing of them is kept.
 */
export class DocumentPass {
  readonly #field: DocumentField;
  readonly #bytesMax: number;
  readonly #sniffer: PdfSniffer;
  readonly #hasher: Hasher;
  #bytes = 0;

  constructor({ pool, documentBytesMax }: DocumentOptions, field: DocumentField) {
    this.#field = field;
    this.#bytesMax = documentBytesMax;
    this.#sniffer = new PdfSniffer(field);
    this.#hasher = pool.hasher();
  }

  /** How many bytes were written. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Takes the next bytes, which must not be changed afterwards. A promise means: enough for now, go on when it resolves.
   * Throws ServiceError at the first fault.
   */
  write(bytes: Uint8Array): Promise<void> | undefined {
    this.#bytes += bytes.length;
    if (this.#bytes > this.#bytesMax) throw tooLarge(this.#field, this.#bytesMax);
    this.#sniffer.update(bytes);
    return this.#hasher.update(bytes);
  }

  /** After the last byte. Throws ServiceError `not_a_pdf`. */
  end(): void {
    this.#sniffer.end();
  }

  /** What was received, after {@link end}. Throws ServiceError `checksum_mismatch` when it is not what was declared. */
  async finish(checksumSha256: string | undefined): Promise<Content> {
    const document = await this.#hasher.digest();
    if (checksumSha256 !== undefined && checksumSha256 !== document.sha256) throw otherDocument();
    return { document, scan: { verdict: 'not_configured' } };
  }

  /** Forgets the document at once; harmless after {@link finish}. */
  abort(): void {
    this.#hasher.abort();
  }
}

export function tooLarge(field: DocumentField, documentBytesMax: number): ServiceError {
  const message = `${field} has more than ${documentBytesMax} bytes, the most this service takes.`;
  return new ServiceError('document_too_large', message, { parameter: field });
}

function otherDocument(): ServiceError {
  const message =
    'checksum_sha256 is not the SHA-256 of the bytes received. Nothing was sealed: send the document again, or correct it.';
  return new ServiceError('checksum_mismatch', message, { parameter: 'checksum_sha256' });
}
