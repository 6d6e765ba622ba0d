import { ServiceError } from './base/errors.ts';
import type { Hasher } from './hash/hasher.ts';
import type { HashPool } from './hash/pool.ts';
import type { Content, ScanResult } from './job/job.ts';
import { PdfSniffer } from './pdf/sniff.ts';
import type { Scan } from './scan/documentScan.ts';
import type { Scanner } from './scan/scanner.ts';

export interface DocumentOptions {
  pool: Pick<HashPool, 'hasher'>;
  documentBytesMax: number;
  /** Left out, documents are not scanned for viruses, and receipts say so. */
  scanner?: Pick<Scanner, 'admit' | 'scan'> | undefined;
}

/** The field of the create that the document came by, and that faults in it are faults of. */
export type DocumentField = 'file' | 'source_url';

/**
 * What happens to the bytes of a document, uploaded or fetched, in one pass: the PDF check, the size limit, the virus
 * scanner, both digests. Nothing of them is kept, and a document that is not let pass never has digests at all: the hash
 * workers are not asked for them before the verdict is there.
 */
export class DocumentPass {
  readonly #field: DocumentField;
  readonly #bytesMax: number;
  readonly #sniffer: PdfSniffer;
  readonly #hasher: Hasher;
  readonly #scan: Scan | undefined;
  #verdict: Promise<ScanResult> | undefined;
  #bytes = 0;

  constructor({ pool, documentBytesMax, scanner }: DocumentOptions, field: DocumentField) {
    this.#field = field;
    this.#bytesMax = documentBytesMax;
    this.#sniffer = new PdfSniffer(field);
    this.#hasher = pool.hasher();
    this.#scan = scanner?.scan();
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
    const scanned = this.#scan?.update(bytes);
    const hashed = this.#hasher.update(bytes);
    return scanned && hashed ? Promise.all([scanned, hashed]).then(() => {}) : (scanned ?? hashed);
  }

  /** After the last byte. Throws ServiceError `not_a_pdf`. */
  end(): void {
    this.#sniffer.end();
  }

  /**
   * After {@link end}: what the scanner found of it, if there is one. Throws ServiceError, `virus_scan_failed` for a document
   * that must not be hashed, `scanner_unavailable` when it is not known whether it may.
   */
  verdict(): Promise<ScanResult> {
    this.#verdict ??= this.#scan?.result() ?? Promise.resolve({ verdict: 'not_configured' });
    return this.#verdict;
  }

  /** What was received, after {@link end}. Throws what {@link verdict} throws, and ServiceError `checksum_mismatch` when it is not what was declared. */
  async finish(checksumSha256: string | undefined): Promise<Content> {
    const scan = await this.verdict();
    const document = await this.#hasher.digest();
    if (checksumSha256 !== undefined && checksumSha256 !== document.sha256)
      throw otherDocument('the bytes received');
    return { document, scan };
  }

  /** Forgets the document at once; harmless after {@link finish}. */
  abort(): void {
    this.#scan?.abort();
    this.#hasher.abort();
  }
}

export function tooLarge(field: DocumentField, documentBytesMax: number): ServiceError {
  const message = `${field} has more than ${documentBytesMax} bytes, the most this service takes.`;
  return new ServiceError('document_too_large', message, { parameter: field });
}

export function otherDocument(found: string): ServiceError {
  const message = `checksum_sha256 is not the SHA-256 of ${found}. Nothing was sealed: correct it, or send the document again.`;
  return new ServiceError('checksum_mismatch', message, { parameter: 'checksum_sha256' });
}
