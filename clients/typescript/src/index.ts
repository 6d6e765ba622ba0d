/**
 * A client of pdfseald for Node 22 or newer. It needs nothing but Node.
 *
 * What may succeed later is sent again with the same Idempotency-Key, so a document is never sealed twice by a retry.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

export { verifyWebhook, type WebhookEvent, WebhookRefused } from './webhook.ts';

export type Visibility = 'private' | 'organization' | 'partner';
export type Phase = 'queued' | 'hashing' | 'sealing' | 'completed' | 'failed';

/** A job as `GET /v1/jobs/{id}` shows it. Later versions of the service add members. */
export interface Job {
  id: string;
  phase: Phase;
  environment: string;
  trace_id: string;
  receipt_url?: string;
  sealed_pdf_url?: string;
  capabilities: string[];
  /** RFC 3339. */
  created_at: string;
  sealed_at?: string;
  /** Lower-case hexadecimal. */
  document_sha256: string;
  purpose?: string;
  customer_reference?: string;
  error?: Problem;
}

/** An error in the service's own words. */
export interface Problem {
  type: string;
  code: string;
  message: string;
  doc_url: string;
}

/** What is to be sealed: the document, its URL, or its digests, if it stays with you. */
export type Content =
  | { document: Blob | Uint8Array<ArrayBuffer> }
  | { source: { url: string; sha256: string } }
  | { digests: { sha256: string; sha512: string; bytes: number } };

export type SealRequest = Content & {
  visibility: Visibility;
  mode?: 'async' | 'blocking';
  purpose?: string;
  customerReference?: string;
  preserveMetadata?: boolean;
  sealedPdf?: 'none' | 'attach';
  /** The SHA-256 that the document must have; hexadecimal. */
  checksumSha256?: string;
  /** 8 to 128 visible ASCII characters, unique for the operation, such as the number of an invoice. Default: a random one. */
  idempotencyKey?: string;
};

export interface Created {
  job: Job;
  /** Whether an earlier request with this key created the job. */
  replayed: boolean;
}

/** A receipt, byte for byte as the service gave it: keep the bytes, not what a parser made of them. */
export interface Receipt {
  bytes: Uint8Array;
  /** The members of the receipt. */
  content: Record<string, unknown>;
}

export interface JobFilter {
  phase?: Phase;
  visibility?: Visibility;
  documentSha256?: string;
  customerReference?: string;
  /** RFC 3339, inclusive. */
  createdFrom?: string;
  /** RFC 3339, exclusive. */
  createdTo?: string;
  /** How many jobs a page has; 50 by default, 100 at most. */
  limit?: number;
}

export interface ClientOptions {
  /** Where pdfseald listens, with or without `/v1`: `https://seal.example.com`. */
  url: string;
  /** Absent if a client certificate authenticates: give a `fetch` that presents it. */
  apiKey?: string;
  /** How long to try again what may succeed later, and to wait for a job; milliseconds, default ten minutes. */
  patienceMs?: number;
  /** Maximum duration of one request; milliseconds, default five minutes. A large document needs more. */
  requestTimeoutMs?: number;
  fetch?: typeof fetch;
}

/** The service refused the request, in its own words. */
export class Refused extends Error {
  override readonly name = 'Refused';
  readonly status: number;
  /** The code to act on: https://…/v1/errors lists them all. */
  readonly code: string;
  readonly docUrl: string | undefined;
  /** To be named to support. */
  readonly requestId: string | undefined;

  constructor(status: number, { code, message, doc_url }: Partial<Problem>, requestId?: string) {
    super(message ?? `the answer has the status ${status}`);
    this.status = status;
    this.code = code ?? 'unreadable_answer';
    this.docUrl = doc_url;
    this.requestId = requestId;
  }
}

/** No readable answer came in time. The request may have been carried out: repeat it with the same key. */
export class Unreachable extends Error {
  override readonly name = 'Unreachable';
}

/** The job failed; it has no receipt. */
export class JobFailed extends Error {
  override readonly name = 'JobFailed';
  readonly job: Job;
  readonly code: string;

  constructor(job: Job) {
    super(job.error?.message ?? 'the job failed');
    this.job = job;
    this.code = job.error?.code ?? 'internal_error';
  }
}

/** The job had not ended in time. It goes on: ask for it later. */
export class StillRunning extends Error {
  override readonly name = 'StillRunning';
  readonly job: Job;

  constructor(job: Job) {
    super(`the job ${job.id} is ${job.phase}`);
    this.job = job;
  }
}

const PATIENCE_MS = 600_000;
const REQUEST_TIMEOUT_MS = 300_000;
const PAUSE_MS_MAX = 60_000;
/** What a service, or a proxy in front of it, answers while it is away. */
const PASSING_STATUSES = [429, 502, 503, 504];

interface Exchange {
  method?: 'GET' | 'POST';
  headers?: Record<string, string>;
  body?: FormData | string;
}

export class Client {
  readonly #base: string;
  readonly #headers: Record<string, string>;
  readonly #patienceMs: number;
  readonly #requestTimeoutMs: number;
  readonly #fetch: typeof fetch;

  constructor({ url, apiKey, patienceMs, requestTimeoutMs, fetch: own }: ClientOptions) {
    const { href } = new URL(url);
    this.#base = `${href.replace(/\/$/, '').replace(/\/v1$/, '')}/v1`;
    this.#headers = apiKey === undefined ? {} : { Authorization: `Bearer ${apiKey}` };
    this.#patienceMs = patienceMs ?? PATIENCE_MS;
    this.#requestTimeoutMs = requestTimeoutMs ?? REQUEST_TIMEOUT_MS;
    this.#fetch = own ?? fetch;
  }

  /** Seals and waits for the receipt. Throws {@link Refused}, {@link JobFailed}, {@link StillRunning} or {@link Unreachable}. */
  async seal(request: SealRequest): Promise<{ job: Job; receipt: Receipt; replayed: boolean }> {
    const { job, replayed } = await this.create({ mode: 'blocking', ...request });
    const completed = await this.wait(job.id);
    return { job: completed, receipt: await this.receipt(completed.id), replayed };
  }

  /** Creates a job, which is on disk when this resolves. Throws {@link Refused} or {@link Unreachable}. */
  async create(request: SealRequest): Promise<Created> {
    const key = request.idempotencyKey ?? randomUUID();
    const { path, headers, body } = encode(request);
    const answer = await this.#ask(path, {
      method: 'POST',
      headers: { ...headers, 'Idempotency-Key': key },
      body,
    });
    const replayed = answer.headers.get('Idempotent-Replayed') === 'true';
    return { job: answer.json as unknown as Job, replayed };
  }

  /** The job as it is now. */
  async job(id: string): Promise<Job> {
    return (await this.#ask(`/jobs/${encodeURIComponent(id)}`)).json as unknown as Job;
  }

  /** Resolves with the completed job. Throws {@link JobFailed}, or {@link StillRunning} when the patience is over. */
  async wait(id: string): Promise<Job> {
    const until = performance.now() + this.#patienceMs;
    for (;;) {
      const { headers, json } = await this.#ask(`/jobs/${encodeURIComponent(id)}`);
      const job = json as unknown as Job;
      if (job.phase === 'completed') return job;
      if (job.phase === 'failed') throw new JobFailed(job);
      const pauseMs = pauseOf(headers, 0);
      if (performance.now() + pauseMs > until) throw new StillRunning(job);
      await sleep(pauseMs);
    }
  }

  /** All jobs that this key can read and the filter fits, newest first, page by page. */
  async *jobs(filter: JobFilter = {}): AsyncGenerator<Job> {
    let cursor: string | undefined;
    do {
      const query = new URLSearchParams(inSnakeCase({ ...filter, cursor }));
      const { json } = await this.#ask(`/jobs?${query}`);
      const page = json as { jobs: Job[]; next_cursor?: string };
      yield* page.jobs;
      cursor = page.next_cursor;
    } while (cursor !== undefined);
  }

  async receipt(id: string): Promise<Receipt> {
    const { bytes, json } = await this.#ask(`/jobs/${encodeURIComponent(id)}/receipt.json`);
    return { bytes, content: json };
  }

  /** The document with its receipt inside, if the request asked for it. */
  async sealedPdf(id: string): Promise<Uint8Array> {
    return (await this.#ask(`/jobs/${encodeURIComponent(id)}/sealed.pdf`, {}, 'bytes')).bytes;
  }

  /** Sends the request, again after failures that may pass, until the patience is over. */
  async #ask(path: string, exchange: Exchange = {}, as: 'json' | 'bytes' = 'json'): Promise<Answer> {
    const until = performance.now() + this.#patienceMs;
    for (let attempt = 0; ; attempt += 1) {
      const { error, pauseMs, answer } = await this.#try(path, exchange, attempt, as);
      if (answer !== undefined) return answer;
      if (pauseMs === undefined || performance.now() + pauseMs > until) throw error;
      await sleep(pauseMs);
    }
  }

  async #try(path: string, exchange: Exchange, attempt: number, as: 'json' | 'bytes'): Promise<Attempt> {
    let headers = new Headers();
    try {
      const response = await this.#fetch(this.#base + path, {
        ...exchange,
        headers: { ...this.#headers, ...exchange.headers },
        // The key must not reach another server.
        redirect: 'manual',
        signal: AbortSignal.timeout(this.#requestTimeoutMs),
      });
      headers = response.headers;
      const bytes = new Uint8Array(await response.arrayBuffer());
      if (response.ok && as === 'bytes') return { answer: { headers, bytes, json: {} } };
      const json = objectIn(bytes);
      if (response.ok && json !== undefined) return { answer: { headers, bytes, json } };
      if (response.ok) throw new Error('the answer is not JSON');
      const error = refusalOf(response.status, json);
      const mayPass = PASSING_STATUSES.includes(response.status) || error.code === 'idempotency_in_progress';
      return { error, pauseMs: mayPass ? pauseOf(headers, attempt) : undefined };
    } catch (cause) {
      const error = new Unreachable(`${this.#base} gave no answer: ${reasonOf(cause)}`, { cause });
      return { error, pauseMs: pauseOf(headers, attempt) };
    }
  }
}

interface Answer {
  headers: Headers;
  bytes: Uint8Array;
  json: Record<string, unknown>;
}

/** `pauseMs` is absent if a repeat cannot help. */
interface Attempt {
  answer?: Answer;
  error?: Error;
  pauseMs?: number | undefined;
}

function encode(request: SealRequest): {
  path: string;
  headers: Record<string, string>;
  body: FormData | string;
} {
  const { visibility, mode, purpose, customerReference, preserveMetadata, sealedPdf, checksumSha256 } =
    request;
  const fields = {
    visibility,
    mode,
    purpose,
    customerReference,
    preserveMetadata,
    sealedPdf,
    checksumSha256,
  };
  if ('document' in request) {
    const form = new FormData();
    for (const [name, value] of Object.entries(inSnakeCase(fields))) form.append(name, value);
    const { document } = request;
    const file = document instanceof Blob ? document : new Blob([document]);
    // After all fields: the service must know them before it receives the document.
    form.append('file', file, 'document.pdf');
    return { path: '/forms/seal', headers: {}, body: form };
  }
  const headers = { 'Content-Type': 'application/json' };
  const [path, more] =
    'source' in request
      ? ['/sources/seal', { sourceUrl: request.source.url, checksumSha256: request.source.sha256 }]
      : [
          '/digests/seal',
          {
            documentSha256: request.digests.sha256,
            documentSha512: request.digests.sha512,
            bytes: request.digests.bytes,
          },
        ];
  const members = Object.entries({ ...fields, ...more }).map(([name, value]) => [snakeCase(name), value]);
  return { path, headers, body: JSON.stringify(Object.fromEntries(members)) };
}

function inSnakeCase(values: Record<string, unknown>): Record<string, string> {
  const given = Object.entries(values).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given.map(([name, value]) => [snakeCase(name), String(value)]));
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function objectIn(bytes: Uint8Array): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

function refusalOf(status: number, json: Record<string, unknown> | undefined): Refused {
  const { error, request_id } = (json ?? {}) as { error?: Problem; request_id?: string };
  return new Refused(status, error ?? {}, request_id);
}

/** As long as the service says, else one, two, four seconds and so on. */
function pauseOf(headers: Headers, attempt: number): number {
  const said = headers.get('Retry-After') ?? '';
  return /^\d{1,6}$/.test(said) ? Number(said) * 1000 : Math.min(1000 * 2 ** attempt, PAUSE_MS_MAX);
}

function reasonOf(cause: unknown): string {
  const { message, cause: inner } = cause as Error;
  return inner instanceof Error && inner.message !== '' ? inner.message : message;
}
