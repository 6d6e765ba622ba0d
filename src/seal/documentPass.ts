import { ServiceError } from '../base/errors.ts';
import { type Copies, readCiphered, recordOf } from '../copy/copies.ts';
import type { CipheredFile, Owner, Spool } from '../copy/spool.ts';
import type { Hasher } from '../hash/hasher.ts';
import type { HashPool } from '../hash/pool.ts';
import { invalidField } from '../job/fieldValues.ts';
import type { Content, DocumentDigests, ScanResult, SealedPdfForm } from '../job/job.ts';
import { PdfSniffer } from '../pdf/sniff.ts';
import type { Scan } from '../scan/documentScan.ts';
import type { Scanner } from '../scan/scanner.ts';
import type { StoredCopy } from '../store/store.ts';

/** Scans documents, or decides at the beginning and at the end of each whether it may be accepted unscanned. */
export interface DocumentScanner extends Pick<Scanner, 'admit'> {
  /** Undefined if documents are not scanned here. */
  scan(): Scan | undefined;
}

export interface DocumentOptions {
  pool: Pick<HashPool, 'hasher'>;
  documentBytesMax: number;
  /** If absent, documents are not scanned for viruses, and receipts say so. */
  scanner?: DocumentScanner | undefined;
  /** The folder of kept documents. If absent, none is kept. */
  copies?: Copies | undefined;
  /** Compliance mode: a document is kept as a copy without metadata. */
  strips?: boolean;
  /** Whether clients may ask for sealed PDFs. */
  attaches?: boolean;
}

/** The part of the create request that provides the document, which errors about the document name. */
export type DocumentField = 'file' | 'body' | 'source_url';

/** Statements of the create request about the document. */
export interface Declared {
  checksumSha256?: string | undefined;
  preserveMetadata: boolean;
  sealedPdf?: SealedPdfForm | undefined;
}

/** A fully received document. If it is not accepted after all, it must be discarded. */
export interface ReceivedDocument {
  content: Content;
  /** On disk; readable only with the key that is in this object. */
  copy?: StoredCopy;
  discard(): Promise<void>;
}

/**
 * Handles the bytes of a document, uploaded or fetched, in one pass: the PDF check, the size limit, the virus scanner, both digests; in
 * compliance mode and for a sealed PDF, they are also written to a copy. Otherwise they are not kept. Rejected documents never have digests: the hash workers
 * are asked for them only after the verdict.
 */
export class DocumentPass {
  readonly #options: DocumentOptions;
  readonly #field: DocumentField;
  readonly #sniffer: PdfSniffer;
  readonly #scan: Scan | undefined;
  readonly #hasher: Hasher;
  readonly #copies: Copies | undefined;
  readonly #spool: Spool | undefined;
  #verdict: Promise<ScanResult> | undefined;
  #bytes = 0;

  /**
   * A copy that the request declines is not made. The request can still decline the one without metadata later, when {@link finish} is
   * called. Throws ServiceError if no sealed PDF can be made here, and `storage_full`.
   */
  constructor(
    options: DocumentOptions,
    field: DocumentField,
    { preserveMetadata, sealedPdf }: Partial<Pick<Declared, 'preserveMetadata' | 'sealedPdf'>>,
  ) {
    requireSealable(options, { sealedPdf });
    this.#options = options;
    this.#field = field;
    this.#sniffer = new PdfSniffer(field);
    const isKept = (options.strips && !preserveMetadata) || sealedPdf === 'attach';
    this.#copies = isKept ? options.copies : undefined;
    // First, because it may refuse the document: then nothing else has begun.
    this.#spool = this.#copies?.spool();
    this.#scan = options.scanner?.scan();
    // The spool reads the bytes at once.
    this.#hasher = options.pool.hasher(this.#scan === undefined);
  }

  /** The number of bytes written. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Takes the next bytes, and ownership of them: they are freed after use. If a promise is returned, the caller must wait until it
   * resolves. Throws ServiceError at the first fault.
   */
  write(bytes: Uint8Array): Promise<void> | undefined {
    this.#bytes += bytes.length;
    const { documentBytesMax } = this.#options;
    if (this.#bytes > documentBytesMax) throw tooLarge(this.#field, documentBytesMax);
    this.#sniffer.update(bytes);
    const takers = [this.#scan, this.#hasher, this.#spool];
    const rooms = takers.map((taker) => taker?.update(bytes)).filter((room) => room !== undefined);
    return rooms.length === 0 ? undefined : Promise.all(rooms).then(() => {});
  }

  /** Called after the last byte. Throws ServiceError `not_a_pdf`. */
  end(): void {
    this.#sniffer.end();
  }

  /**
   * Called after {@link end}: the result of the scanner, if there is one. Throws ServiceError: `virus_scan_failed` for a document that must
   * not be hashed, `scanner_unavailable` if that is unknown.
   */
  verdict(): Promise<ScanResult> {
    this.#verdict ??= this.#scan?.result() ?? this.#unscanned();
    return this.#verdict;
  }

  async #unscanned(): Promise<ScanResult> {
    this.#options.scanner?.admit();
    return { verdict: 'not_configured' };
  }

  /**
   * The received document, after {@link end}. Throws what {@link verdict} throws, and ServiceError: `checksum_mismatch` if the document
   * differs from the declared one, and what {@link Copies.strip} and {@link Copies.plan} throw if a copy is required but cannot be made.
   */
  async finish(declared: Declared, owner: Owner): Promise<ReceivedDocument> {
    const { checksumSha256, preserveMetadata, sealedPdf } = declared;
    const scan = await this.verdict();
    const digesting = this.#digested(checksumSha256);
    const how = {
      strips: this.#options.strips === true && !preserveMetadata,
      attaches: sealedPdf === 'attach',
    };
    if (this.#spool !== undefined && this.#copies !== undefined && (how.strips || how.attaches)) {
      return this.#kept(digesting, scan, { spool: this.#spool, copies: this.#copies, owner }, how);
    }
    const document = await digesting;
    await this.#spool?.discard();
    return { content: { document, scan }, discard: async () => {} };
  }

  /** The digests. Throws ServiceError `checksum_mismatch`. */
  async #digested(checksumSha256: string | undefined): Promise<DocumentDigests> {
    const document = await this.#hasher.digest();
    if (checksumSha256 !== undefined && checksumSha256 !== document.sha256)
      throw otherDocument('the bytes received');
    return document;
  }

  /** Discards the document at once. After {@link finish}, the caller must discard its result instead. */
  abort(): void {
    this.#scan?.abort();
    this.#hasher.abort();
    // A file that cannot be removed now is removed at the next start; without its key it is unreadable.
    this.#spool?.discard().catch(() => {});
  }

  /**
   * In compliance mode, a document without metadata gets an identical copy too, so that the reader of a copy does not need to distinguish
   * documents. A sealed PDF begins with the copy if there is one, and with the document otherwise.
   */
  async #kept(
    digesting: Promise<DocumentDigests>,
    scan: ScanResult,
    { spool, copies, owner }: { spool: Spool; copies: Copies; owner: Owner },
    { strips, attaches }: { strips: boolean; attaches: boolean },
  ): Promise<ReceivedDocument> {
    // A small document is planned while it is hashed and written.
    const held = attaches && !strips ? spool.hold() : undefined;
    const planned = held && copies.plan(held, owner);
    planned?.catch(() => {});
    digesting.catch(() => {});
    const received = await spool.end();
    let file = received;
    const discard = () => copies.remove(recordOf(file));
    try {
      const document = await digesting;
      if (strips) file = await copies.strip(received, owner);
      const sealedDocument = file === received ? document : await this.#digest(file);
      const attachment = attaches ? await (planned ?? copies.plan(file, owner)) : undefined;
      return {
        content: { document, scan, ...(strips && { sealedDocument }), attachment },
        copy: recordOf(file),
        discard,
      };
    } catch (error) {
      await discard();
      throw error;
    }
  }

  async #digest(file: CipheredFile): Promise<DocumentDigests> {
    const hasher = this.#options.pool.hasher();
    try {
      for await (const chunk of readCiphered(file)) await hasher.update(chunk);
      return await hasher.digest();
    } catch (error) {
      hasher.abort();
      throw error;
    }
  }
}

/** Throws ServiceError if the request asks for a sealed PDF and clients may not. */
export function requireSealable(
  { attaches }: Pick<DocumentOptions, 'attaches'>,
  { sealedPdf }: Pick<Declared, 'sealedPdf'>,
): void {
  if (sealedPdf !== 'attach' || attaches) return;
  throw invalidField('sealed_pdf', 'must be none: this service makes no sealed PDFs. Ask its administrator.');
}

export function tooLarge(field: DocumentField, documentBytesMax: number): ServiceError {
  const message = `${field} has more than ${documentBytesMax} bytes, the most this service takes.`;
  return new ServiceError('document_too_large', message, { parameter: field });
}

export function otherDocument(found: string): ServiceError {
  const message = `checksum_sha256 is not the SHA-256 of ${found}. Nothing was sealed: correct it, or send the document again.`;
  return new ServiceError('checksum_mismatch', message, { parameter: 'checksum_sha256' });
}
