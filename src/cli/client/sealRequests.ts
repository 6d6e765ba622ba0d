import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { toBase64 } from '../../base/bytes.ts';
import { sha256 } from '../../base/crypto.ts';
import { OperatorError } from '../../base/errors.ts';
import type { DocumentDigests } from '../../job/job.ts';
import { parseReceipt } from '../../manifest/received.ts';
import { type DocumentCheck, hasDigests, isSealed } from '../files.ts';
import {
  type ApiAnswer,
  type ApiClient,
  type ApiRequest,
  ConnectionFailure,
  type StreamedBody,
} from './apiClient.ts';
import { multipartUpload } from './upload.ts';

/** The fields of a create, without `file`. */
export type SealFields = Record<string, string>;

export interface SealOptions {
  client: ApiClient;
  fields: SealFields;
  /** Default: {@link idempotencyKeyOf}. */
  idempotencyKey: string | undefined;
  /** Maximum time for retries and waits, in milliseconds. */
  patienceMs: number;
  /** The documents to fetch with the receipt. */
  documents?: readonly SavedDocument[];
  onSent(bytes: number): void;
  /** Called before each pause, with the reason. */
  onWait(why: string, seconds: number): void;
}

/** A document that the service has of a job. */
export interface SavedDocument {
  kind: 'stripped_copy' | 'sealed_pdf';
  /** Saves it if it passes the check. */
  save(body: AsyncIterable<Buffer>, isExpected: DocumentCheck): Promise<void>;
}

export interface Submitted {
  jobId: string;
  /** Whether the server already had the job from an earlier run. */
  replayed: boolean;
  /** The receipt, byte for byte. */
  receipt: string;
}

/** The service refused, or the job failed: `code` and message are the service's own. */
export class Refused extends OperatorError {
  declare readonly code: string;
  readonly jobId: string | undefined;

  constructor(code: string, message: string, jobId?: string) {
    super(message, { code });
    this.name = 'Refused';
    this.jobId = jobId;
  }
}

interface SealJobAnswer {
  id: string;
  phase: string;
  error?: { code: string; message: string };
}

/** A create request, in one of its forms. */
export interface SealRequest {
  path: '/jobs/seal' | '/digests/seal';
  /** SHA-256 of the document, lower-case hex. */
  sha256: string;
  /** Distinguishes this create from others, for {@link idempotencyKeyOf}. */
  fields: SealFields;
  body: StreamedBody;
}

/** Uploads a document, waits until its job ends, and returns its receipt. Throws {@link Refused}. */
export function submitDocument(
  path: string,
  document: DocumentDigests,
  options: SealOptions,
): Promise<Submitted> {
  const fields = { ...options.fields, checksum_sha256: document.sha256 };
  const body = multipartUpload(fields, { path, bytes: document.bytes }, options.onSent);
  return submitCreate({ path: '/jobs/seal', sha256: document.sha256, fields, body }, options);
}

/** Like {@link submitDocument}, but sends only the digests. */
export function submitDigests(document: DocumentDigests, options: SealOptions): Promise<Submitted> {
  const { fields } = options;
  const body = jsonBody({ ...digestFields(document), ...fields });
  return submitCreate({ path: '/digests/seal', sha256: document.sha256, fields, body }, options);
}

/** Like {@link submitDocument}, but the service fetches the document. */
export function submitSource(url: string, sha256: string, options: SealOptions): Promise<Submitted> {
  const fields = { ...options.fields, source_url: url, checksum_sha256: sha256 };
  const keepsMetadata = options.fields.preserve_metadata === 'true';
  const body = jsonBody({ ...fields, ...(keepsMetadata && { preserve_metadata: true }) });
  return submitCreate({ path: '/jobs/seal', sha256, fields, body }, options);
}

/** The fields of a create that describe the document by its digests. */
export function digestFields({ sha256, sha512, bytes }: DocumentDigests) {
  return { document_sha256: sha256, document_sha512: sha512, bytes };
}

async function submitCreate(create: SealRequest, options: SealOptions): Promise<Submitted> {
  const attempts = new Attempts(options);
  const created = await attempts.send({
    method: 'POST',
    path: create.path,
    headers: { 'Idempotency-Key': options.idempotencyKey ?? idempotencyKeyOf(create, create.fields) },
    body: create.body,
  });
  const job = await attempts.untilEnded(created);
  if (job.phase === 'failed') {
    throw new Refused(job.error?.code ?? 'failed', job.error?.message ?? 'the job failed', job.id);
  }
  const receipt = await attempts.send({ method: 'GET', path: `/jobs/${job.id}/receipt.json` });
  assertReceiptFor(create, job.id, receipt.text);
  for (const document of options.documents ?? [])
    await fetchDocument(attempts, job.id, receipt.text, document);
  return {
    jobId: job.id,
    replayed: created.headers['idempotent-replayed'] === 'true',
    receipt: receipt.text,
  };
}

function jsonBody(value: object): StreamedBody {
  return bodyOf('application/json', JSON.stringify(value));
}

/** A small body, from memory. */
export function bodyOf(contentType: string, text: string): StreamedBody {
  const bytes = Buffer.from(text);
  return { contentType, bytes: bytes.length, open: () => Readable.from([bytes]) };
}

async function fetchDocument(
  attempts: Attempts,
  jobId: string,
  receipt: string,
  { kind, save }: SavedDocument,
): Promise<void> {
  const { copy, document } = digestsIn(receipt);
  if (kind === 'stripped_copy' && copy === undefined) {
    const why =
      'the service made no copy without metadata: it is not in compliance mode, or you gave --preserve-metadata';
    throw new Refused('document_unavailable', why, jobId);
  }
  const beginning = copy ?? document;
  if (beginning === undefined) throw new Refused('unexpected_answer', 'the receipt names no document', jobId);
  const isExpected = kind === 'sealed_pdf' ? isSealed(beginning, receipt) : hasDigests(beginning);
  await attempts.send({
    method: 'GET',
    path: `/jobs/${jobId}/${kind === 'sealed_pdf' ? 'sealed.pdf' : 'document.pdf'}`,
    save: (body) => save(body, isExpected),
  });
}

/** The digests of the document, and of its copy without metadata if there is one. */
function digestsIn(receipt: string): { document?: DocumentDigests; copy?: DocumentDigests } {
  const parsed = parseReceipt(parseObject(receipt));
  if (parsed.kind !== 'receipt') return {};
  const { document, sealed_document } = parsed.receipt.manifest;
  return { document: pickDigests(document), copy: sealed_document && pickDigests(sealed_document) };
}

function pickDigests({ sha256, sha512, bytes }: DocumentDigests): DocumentDigests {
  return { sha256, sha512, bytes };
}

/**
 * The same key for the same document and fields. So a repeat, even after a crash of this program, gets the same job and receipt while the
 * service remembers the key.
 */
export function idempotencyKeyOf({ sha256: of }: { sha256: string }, fields: SealFields): string {
  const request = JSON.stringify([of, Object.entries(fields).sort()]);
  return `pdfseal-${toBase64(sha256(Buffer.from(request)))}`;
}

/** Statuses of a temporary condition, from the service or from a proxy in front of it. */
const PASSING_STATUS = new Set([429, 502, 503, 504]);
const PAUSE_SECONDS_MIN = 0.1;
const PAUSE_SECONDS_MAX = 30;

/** The options that {@link Attempts} needs. */
export type AttemptsOptions = Pick<SealOptions, 'client' | 'patienceMs' | 'onWait'>;

/** The requests for one document, each repeated while it may succeed later, within one time limit. */
export class Attempts {
  readonly #options: AttemptsOptions;
  readonly #signal: AbortSignal;
  readonly #deadline: number;

  constructor(options: AttemptsOptions) {
    this.#options = options;
    this.#deadline = performance.now() + options.patienceMs;
    this.#signal = AbortSignal.timeout(options.patienceMs);
  }

  /** Returns the first successful answer. */
  async send(request: ApiRequest): Promise<ApiAnswer> {
    for (let pauses = 0; ; pauses++) {
      const answer = await this.#attempt(request);
      if (!(answer instanceof ConnectionFailure) && answer.status >= 200 && answer.status < 300)
        return answer;
      const { code, message } = problemOf(answer);
      if (!mayPass(answer, code)) throw new Refused(code, message);
      const why = answer instanceof ConnectionFailure ? message : `${code}: ${message}`;
      await this.pause(retryAfterSeconds(answer) ?? Math.min(2 ** pauses, PAUSE_SECONDS_MAX), why);
    }
  }

  async untilEnded(created: ApiAnswer): Promise<SealJobAnswer> {
    let answer = created;
    for (;;) {
      const job = parseJob(answer);
      if (job.phase === 'completed' || job.phase === 'failed') return job;
      await this.pause(retryAfterSeconds(answer) ?? 1, `${job.id} is ${job.phase}`);
      answer = await this.send({ method: 'GET', path: `/jobs/${job.id}` });
    }
  }

  async #attempt(request: ApiRequest): Promise<ApiAnswer | ConnectionFailure> {
    try {
      return await this.#options.client.send(request, this.#signal);
    } catch (error) {
      if (!(error instanceof ConnectionFailure)) throw error;
      if (this.#signal.aborted) throw this.#outOfTime(error.message);
      return error;
    }
  }

  /** Throws {@link Refused} `timed_out` if the time limit is too near. */
  async pause(wanted: number, why: string): Promise<void> {
    const seconds = Math.max(wanted, PAUSE_SECONDS_MIN);
    if (performance.now() + seconds * 1000 > this.#deadline) throw this.#outOfTime(why);
    this.#options.onWait(why, seconds);
    await sleep(seconds * 1000);
  }

  #outOfTime(why: string): Refused {
    return new Refused(
      'timed_out',
      `no receipt within ${this.#options.patienceMs / 1000} s (${why}); run the command again to continue`,
    );
  }
}

/** Whether a repeat can succeed. */
export function mayPass(answer: Pick<ApiAnswer, 'status'> | ConnectionFailure, code: string): boolean {
  if (answer instanceof ConnectionFailure) return true;
  return (
    PASSING_STATUS.has(answer.status) || code === 'idempotency_in_progress' || code === 'receipt_not_ready'
  );
}

/** `Retry-After` (RFC 9110, section 10.2.3), both of its forms. */
function retryAfterSeconds(answer: ApiAnswer | ConnectionFailure): number | undefined {
  const value = answer instanceof ConnectionFailure ? undefined : answer.headers['retry-after'];
  if (value === undefined) return undefined;
  const seconds = /^\d{1,9}$/.test(value) ? Number(value) : (Date.parse(value) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, seconds) : undefined;
}

function problemOf(answer: ApiAnswer | ConnectionFailure): { code: string; message: string } {
  if (answer instanceof ConnectionFailure) return { code: 'connection_failed', message: answer.message };
  const { error } = parseObject(answer.text) as { error?: { code?: unknown; message?: unknown } };
  if (typeof error?.code === 'string' && typeof error.message === 'string') {
    return { code: error.code, message: error.message };
  }
  return {
    code: 'unexpected_answer',
    message: `the server answered ${answer.status}; is this the URL of a pdfseald?`,
  };
}

function parseJob(answer: ApiAnswer): SealJobAnswer {
  const job = parseObject(answer.text) as Partial<SealJobAnswer>;
  if (typeof job.id === 'string' && /^job_[A-Za-z0-9]+$/.test(job.id) && typeof job.phase === 'string') {
    return job as SealJobAnswer;
  }
  throw new Refused('unexpected_answer', 'the answer of the server is not a job');
}

export function parseObject(text: string): object {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : {};
  } catch {
    return {};
  }
}

/** Throws {@link Refused}. */
export function assertReceiptFor(document: { sha256: string }, jobId: string, text: string): void {
  const receipt = parseObject(text) as { job_id?: unknown; document_sha256?: unknown };
  if (receipt.job_id === jobId && receipt.document_sha256 === document.sha256) return;
  throw new Refused(
    'unexpected_answer',
    `the receipt from the server is not for ${jobId} and this document`,
    jobId,
  );
}
