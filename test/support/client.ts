import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import type { JobMode } from '../../src/job/job.ts';
import { ApiCheck, type ApiDescription } from './openapi.ts';

export interface Answer {
  status: number;
  headers: Headers;
  text: string;
  bytes: Buffer;
  json<T = Record<string, unknown>>(): T;
}

/** The error envelope, as far as tests look. */
export interface Envelope {
  request_id: string;
  error: { type: string; code: string; message: string; doc_url: string };
}

/** Status and code of a refusal: `429 too_many_uploads`. */
export function problemOf(answer: Answer): string {
  return `${answer.status} ${answer.json<Envelope>().error.code}`;
}

export interface JobBody {
  id: string;
  phase: string;
  environment: string;
  trace_id: string;
  receipt_url?: string;
  capabilities: string[];
  created_at: string;
  error?: Envelope['error'];
}

export interface RequestOptions {
  headers?: Record<string, string>;
  body?: NonNullable<RequestInit['body']>;
  signal?: AbortSignal;
}

/** A client that holds every answer to the document the daemon serves. */
export class Client {
  readonly baseUrl: string;
  readonly apiKey: string | undefined;
  readonly check: ApiCheck;

  constructor(baseUrl: string, check: ApiCheck, apiKey?: string) {
    this.baseUrl = baseUrl;
    this.check = check;
    this.apiKey = apiKey;
  }

  /** `baseUrl` is without `/v1`. */
  static async connect(baseUrl: string, apiKey?: string): Promise<Client> {
    // The server soon closes the connection of a caller without a key: a later request must not meet it closing.
    const response = await fetch(`${baseUrl}/v1/openapi.json`, { headers: { Connection: 'close' } });
    const check = new ApiCheck((await response.json()) as ApiDescription);
    return new Client(baseUrl, check, apiKey);
  }

  as(apiKey: string | undefined): Client {
    return new Client(this.baseUrl, this.check, apiKey);
  }

  get(path: string, headers: Record<string, string> = {}): Promise<Answer> {
    return this.request('GET', path, { headers });
  }

  /** Posts a document with these form fields. */
  seal(
    document: Uint8Array<ArrayBuffer>,
    fields: Record<string, string> = {},
    headers: Record<string, string> = {},
  ): Promise<Answer> {
    const form = new FormData();
    for (const [name, value] of Object.entries({ visibility: 'private', ...fields }))
      form.append(name, value);
    form.append('file', new Blob([document], { type: 'application/pdf' }), 'document.pdf');
    return this.request('POST', '/v1/jobs/seal', { headers, body: form });
  }

  async request(method: string, path: string, options: RequestOptions = {}): Promise<Answer> {
    const headers = new Headers(options.headers);
    if (this.apiKey !== undefined && !headers.has('Authorization')) {
      headers.set('Authorization', `Bearer ${this.apiKey}`);
    }
    const { body, signal } = options;
    const response = await fetch(this.baseUrl + path, {
      method,
      headers,
      redirect: 'manual',
      ...(body !== undefined && { body, duplex: 'half' }),
      ...(signal && { signal }),
    });
    const bytes = Buffer.from(await response.arrayBuffer());
    const text = bytes.toString();
    this.check.check({ method, path, status: response.status, headers: response.headers, text });
    return { status: response.status, headers: response.headers, text, bytes, json: () => JSON.parse(text) };
  }
}

export interface BatchAnswer {
  line: number;
  status: number;
  replayed?: true;
  job?: JobBody;
  receipt?: Record<string, unknown>;
  error?: Envelope['error'];
  retry_after?: number;
}

/** Digests as a caller computes them. */
export function digestsOf(document: Uint8Array) {
  const hash = (name: string) => createHash(name).update(document).digest('hex');
  return { sha256: hash('sha256'), sha512: hash('sha512'), bytes: document.length };
}

/** The fields of a create by digests. */
export function digestFields(document: Uint8Array, more: object = {}): Record<string, unknown> {
  const { sha256, sha512, bytes } = digestsOf(document);
  return { document_sha256: sha256, document_sha512: sha512, bytes, visibility: 'private', ...more };
}

/** Lines of a batch of `count` documents that are told by their number, each with a key of its own. */
export function digestLines(count: number, more: object = {}): string[] {
  return Array.from({ length: count }, (_, n) =>
    JSON.stringify(digestFields(Buffer.from(`document ${n}`), { idempotency_key: `document-${n}`, ...more })),
  );
}

/** A batch that is sent and read at the same time, at the pace of a test. */
export class BatchStream {
  readonly request: ClientRequest;
  readonly answers: BatchAnswer[] = [];
  /** Of the answer as a whole; 0 before it begins. */
  status = 0;
  /** Resolves with everything when the answer has ended; rejects when the connection broke. */
  readonly ended: Promise<BatchAnswer[]>;
  readonly #onAnswer = new Set<() => void>();

  constructor(url: string, apiKey: string) {
    this.request = request(`${url}/v1/batches/seal`, {
      method: 'POST',
      agent: false,
      headers: { Authorization: `Bearer ${apiKey}`, 'Content-Type': 'application/x-ndjson' },
    });
    // What a server that hangs up does to a sender is told by the answer, or by its absence.
    this.request.on('error', () => {});
    this.ended = this.#read();
    this.ended.catch(() => {});
  }

  async #read(): Promise<BatchAnswer[]> {
    const [response] = (await once(this.request, 'response')) as [IncomingMessage];
    this.status = response.statusCode ?? 0;
    for await (const line of createInterface(response)) {
      this.answers.push(JSON.parse(line));
      for (const tell of this.#onAnswer) tell();
    }
    if (!response.complete) throw new Error(`the answer broke off after ${this.answers.length} lines`);
    return this.answers;
  }

  send(...lines: string[]): void {
    this.request.write(lines.map((line) => `${line}\n`).join(''));
  }

  /** Resolves when so many answers have come; rejects when it ended with fewer. */
  async until(count: number): Promise<void> {
    const tooFew = this.ended.then(() => {
      if (this.answers.length < count)
        throw new Error(`only ${this.answers.length} of ${count} answers came`);
    });
    tooFew.catch(() => {}); // as `ended` is
    while (this.answers.length < count) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#onAnswer.add(resolve);
      await Promise.race([promise, tooFew]);
      this.#onAnswer.delete(resolve);
    }
  }

  /** Hangs up, whatever is under way. */
  destroy(): void {
    this.request.destroy();
  }
}

/** Sends all lines and reads all answers, in the order of their lines. */
export async function sealBatch(url: string, apiKey: string, lines: string[]): Promise<BatchAnswer[]> {
  const stream = new BatchStream(url, apiKey);
  stream.send(...lines);
  stream.request.end();
  return (await stream.ended).sort((a, b) => a.line - b.line);
}

export interface TrafficAnswer {
  mode: JobMode;
  /** Milliseconds since the epoch: of the request's start, and of its answer. */
  startedAt: number;
  answeredAt: number;
  status: number;
  /** Of a 202. */
  jobId?: string;
  phase?: string;
  /** Of an error envelope. */
  code?: string;
  retryAfter?: string | null;
}

/** What everyone sends. */
export const TRAFFIC_DOCUMENT = Buffer.from('%PDF-1.7\none of many\n%%EOF\n');

/** Enough to have something in every batch, little enough to leave the machine alone. */
const PAUSE_MS = 60;

/** Clients that create jobs one after the other, whatever the answers are, until stopped. */
export class Traffic {
  readonly answers: TrafficAnswer[] = [];
  readonly #client: Client;
  readonly #loops: Promise<void>[];
  #stopped = false;

  /** One client for each mode. */
  constructor(client: Client, modes: JobMode[]) {
    this.#client = client;
    this.#loops = modes.map((mode) => this.#run(mode));
  }

  /** Answers to what was asked at that time or later. */
  since(time: number, mode?: JobMode): TrafficAnswer[] {
    return this.answers.filter((one) => one.startedAt >= time && (mode === undefined || one.mode === mode));
  }

  /** Resolves when the last answer is there; rejects when a client got none. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all(this.#loops);
  }

  async #run(mode: JobMode): Promise<void> {
    while (!this.#stopped) {
      this.answers.push(await this.#create(mode));
      await sleep(PAUSE_MS);
    }
  }

  async #create(mode: JobMode): Promise<TrafficAnswer> {
    const startedAt = Date.now();
    const { status, headers, json } = await this.#client.seal(TRAFFIC_DOCUMENT, { mode });
    const common = { mode, startedAt, answeredAt: Date.now(), status };
    if (status !== 202) {
      return { ...common, code: json<Envelope>().error.code, retryAfter: headers.get('Retry-After') };
    }
    const { id, phase } = json<JobBody>();
    return { ...common, jobId: id, phase };
  }
}

/** Whether the caller got what was asked for: a completed job, or for `async` an accepted one. */
export function isServed({ mode, status, phase }: TrafficAnswer): boolean {
  return status === 202 && (mode === 'async' || phase === 'completed');
}
