import { createReadStream } from 'node:fs';
import { basename } from 'node:path';
import { createFileAtomically, writeFileAtomically } from '../../base/atomicFile.ts';
import { OperatorError } from '../../base/errors.ts';
import type { DocumentDigests } from '../../job/job.ts';
import type { TrustFile } from '../../manifest/trustFile.ts';
import { RECEIPT_BYTES_MAX } from '../../prove/verify/receiptText.ts';
import { type DocumentCheck, digestFile, readTextFile, saveDocument } from '../files.ts';
import {
  type CountProgress,
  isJson,
  note,
  onInterrupt,
  print,
  printJson,
  SILENT,
  showCount,
  showProgress,
} from '../terminal.ts';
import type { ApiClient } from './apiClient.ts';
import { submitInBulk } from './bulkRequest.ts';
import { Unreachable } from './lastingFault.ts';
import {
  Refused,
  type SavedDocument,
  type SealFields,
  type SealOptions,
  type Submitted,
  submitDigests,
  submitDocument,
  submitSource,
} from './sealRequests.ts';
import { type Held, receiptKeeper, type Work } from './worklist.ts';

export interface SubmitterOptions {
  client: ApiClient;
  fields: SealFields;
  patienceMs: number;
  idempotencyKey: string | undefined;
  /** Send digests, never documents. */
  digestOnly: boolean;
  /** Number of documents that are sent at the same time. */
  parallel: number;
  /** Whether progress counts documents, not the bytes of each. */
  counted: boolean;
  /** If present, existing receipts must verify under it. */
  trust: TrustFile | undefined;
  strippedCopy: boolean;
  sealedPdf: boolean;
  force: boolean;
}

/** Numbers of documents that were sealed now, had a receipt already, or failed. */
export interface SubmitCounts {
  sealed: number;
  skipped: number;
  failed: number;
}

/** A document whose digests are known. */
interface Digested {
  work: Work;
  document: DocumentDigests;
}

/** Maximum number of documents in one request. A request could have more, but they would all be hashed before the first receipt arrives. */
const BULK_DOCUMENTS = 1_000;
/** Gets the receipts of documents, saves them next to the documents, and reports each. */
export class Submitter {
  readonly #options: SubmitterOptions;
  readonly #held: (path: string, document: DocumentDigests) => Held;
  readonly #counts: SubmitCounts = { sealed: 0, skipped: 0, failed: 0 };
  #count: CountProgress = SILENT;

  constructor(options: SubmitterOptions) {
    this.#options = options;
    this.#held = receiptKeeper(options.trust);
  }

  async run(works: readonly Work[]): Promise<SubmitCounts> {
    const { counted, digestOnly, fields } = this.#options;
    if (counted && !isJson()) this.#count = showCount(works.length);
    // A request in bulk is answered when all of its documents are sealed; asynchronous mode polls for each of them.
    using _interrupted = onInterrupt(
      () => `${this.#sum()}, ${works.length - this.#done()} left; run the command again to continue`,
    );
    const inBulk = digestOnly && works.length > 1 && fields.mode === 'blocking';
    try {
      await (inBulk ? this.#inBulk(works) : this.#inParallel(works));
    } finally {
      this.#count.stop();
    }
    if (counted && !isJson()) note(this.#sum());
    return this.#counts;
  }

  #sum(): string {
    const { sealed, skipped, failed } = this.#counts;
    return `${sealed} sealed, ${skipped} already had a receipt, ${failed} failed`;
  }

  #done(): number {
    const { sealed, skipped, failed } = this.#counts;
    return sealed + skipped + failed;
  }

  async #inParallel(works: readonly Work[]): Promise<void> {
    const queue = works.values();
    const worker = async () => {
      for (const work of queue) await this.#attempt(work, () => this.#submitOne(work));
    };
    await Promise.all(Array.from({ length: this.#options.parallel }, worker));
  }

  async #inBulk(works: readonly Work[]): Promise<void> {
    let together: Digested[] = [];
    for (const work of works) {
      await this.#attempt(work, async () => {
        const document = await this.#digest(work);
        if (document && !this.#skip(work, document)) together.push({ work, document });
      });
      if (together.length === BULK_DOCUMENTS) {
        await this.#seal(together);
        together = [];
      }
    }
    await this.#seal(together);
  }

  async #seal(together: readonly Digested[]): Promise<void> {
    const options = { ...this.#options, onWait: this.#onWait(`${together.length} documents`) };
    await submitInBulk(together, options, (item, end) => {
      try {
        if (end instanceof Refused) throw end;
        this.#keep(item.work, item.document.sha256, end);
      } catch (error) {
        this.#fail(item.work, error);
      }
    });
  }

  async #submitOne(work: Work): Promise<void> {
    const document = await this.#digest(work);
    if (document && this.#skip(work, document)) return;
    using progress =
      this.#options.counted || document === undefined
        ? SILENT
        : showProgress(basename(work.name), document.bytes, 'bytes');
    const onWait = this.#onWait(work.name);
    const sha256 = document?.sha256 ?? work.source?.checksum ?? '';
    const submitted = await this.#submit(work, document, {
      ...this.#options,
      documents: this.#documentsOf(work).map(({ kind, path }) => ({
        kind,
        save: (body, isExpected) => saveOnce(path, body, isExpected, this.#options.force),
      })),
      onSent: progress.update,
      onWait: (why, seconds) => {
        progress.stop();
        onWait(why, seconds);
      },
    });
    progress.stop();
    this.#keep(work, sha256, submitted);
  }

  #submit(
    { path, source }: Work,
    document: DocumentDigests | undefined,
    options: SealOptions,
  ): Promise<Submitted> {
    if (source) return submitSource(source.url, document?.sha256 ?? source.checksum ?? '', options);
    if (path === undefined || document === undefined) throw new Error('neither a document nor its source');
    return this.#options.digestOnly
      ? submitDigests(document, options)
      : submitDocument(path, document, options);
  }

  /** Undefined for a document that is not on this machine. */
  async #digest({ path }: Work): Promise<DocumentDigests | undefined> {
    if (path === undefined) return undefined;
    return this.#options.counted ? digestFile(path, SILENT) : digestFile(path);
  }

  /** Whether the document needs no request. Throws Refused, before anything is sent, if there is a receipt for something else. */
  #skip(work: Work, document: DocumentDigests): boolean {
    const receipt = receiptPathOf(work);
    const held = work.found ? this.#held(receipt, document) : 'none';
    if (held === 'other' && !this.#options.force) {
      throw new Refused(
        'receipt_exists',
        `${receipt} is not a valid receipt for this document; --force replaces it`,
      );
    }
    if (held !== 'own') return false;
    this.#counts.skipped += 1;
    this.#step();
    if (isJson())
      printJson({ document: work.name, document_sha256: document.sha256, receipt, skipped: true });
    return true;
  }

  /** The documents to save with the receipt. */
  #documentsOf({ stem }: Work): { kind: SavedDocument['kind']; path: string }[] {
    const { strippedCopy, sealedPdf } = this.#options;
    return [
      ...(strippedCopy ? [{ kind: 'stripped_copy' as const, path: `${stem}.stripped.pdf` }] : []),
      ...(sealedPdf ? [{ kind: 'sealed_pdf' as const, path: `${stem}.sealed.pdf` }] : []),
    ];
  }

  /** Saves the receipt, then reports it. */
  #keep(work: Work, sha256: string, { jobId, replayed, receipt }: Submitted): void {
    const receiptPath = receiptPathOf(work);
    storeReceipt(receiptPath, receipt, jobId, this.#options.force);
    this.#counts.sealed += 1;
    this.#step();
    if (isJson()) {
      printJson({
        document: work.name,
        job_id: jobId,
        phase: 'completed',
        document_sha256: sha256,
        receipt: receiptPath,
        ...Object.fromEntries(this.#documentsOf(work).map(({ kind, path }) => [kind, path])),
        replayed,
      });
    } else print(`${receiptPath}  ${jobId}${replayed ? '  (sealed before)' : ''}`);
  }

  async #attempt(work: Work, step: () => Promise<void>): Promise<void> {
    try {
      await step();
    } catch (error) {
      this.#fail(work, error);
    }
  }

  #fail({ name }: Work, error: unknown): void {
    // A service that cannot be reached for one document cannot be reached for the others.
    if (!(error instanceof OperatorError) || error instanceof Unreachable) throw error;
    this.#counts.failed += 1;
    this.#step();
    const { code, jobId } = error instanceof Refused ? error : { code: 'failed', jobId: undefined };
    if (isJson()) printJson({ document: name, job_id: jobId, error: { code, message: error.message } });
    else note(`pdfseal: ${name}: ${error instanceof Refused ? `${code}: ` : ''}${error.message}`);
  }

  #step(): void {
    this.#count.update(this.#done(), this.#counts.skipped);
  }

  #onWait(name: string): SealOptions['onWait'] {
    return (why, seconds) => {
      if (!isJson()) note(`${name}: ${why} (next attempt in ${Math.ceil(seconds)} s)`);
    };
  }
}

function receiptPathOf({ stem }: Work): string {
  return `${stem}.receipt.json`;
}

/** Saves a document. If the file exists, it must be that document. */
async function saveOnce(
  path: string,
  body: AsyncIterable<Buffer>,
  isExpected: DocumentCheck,
  force: boolean,
): Promise<void> {
  if (await saveDocument(path, body, isExpected, force)) return;
  if (await isExpected(createReadStream(path))) return;
  throw new Refused('copy_exists', `${path} is another file; --force replaces it`);
}

function storeReceipt(path: string, receipt: string, jobId: string, force: boolean): void {
  if (force) writeFileAtomically(path, receipt);
  else if (!createFileAtomically(path, receipt) && readTextFile(path, RECEIPT_BYTES_MAX) !== receipt) {
    throw new Refused(
      'receipt_exists',
      `${path} is another receipt; the new one is from ${jobId}; --force replaces the old one`,
      jobId,
    );
  }
}
