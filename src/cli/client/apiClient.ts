import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { OperatorError } from '../../base/errors.ts';
import { answerTo, readBody } from '../../net/response.ts';
import { withoutFinalSlashes } from '../../net/url.ts';
import { lastingFault } from './lastingFault.ts';

/** A body that is sent as it is read, never held. */
export interface StreamedBody {
  contentType: string;
  /** Length in bytes, known before the first of them. */
  bytes: number;
  open(): Readable;
}

export interface ApiRequest {
  method: 'GET' | 'POST';
  /** Below `/v1`. */
  path: string;
  headers?: Record<string, string>;
  body?: StreamedBody;
  /** Takes the body of an answer of success, which then has no text. */
  save?(body: AsyncIterable<Buffer>): Promise<void>;
}

export interface ApiAnswer {
  status: number;
  headers: IncomingMessage['headers'];
  text: string;
}

/** The connection broke, or there was none: whether the request was acted on is not known. */
export class ConnectionFailure extends Error {
  constructor(cause: Error) {
    super(cause.message || ('code' in cause ? String(cause.code) : 'connection failed'), { cause });
    this.name = 'ConnectionFailure';
  }
}

/** Longer than any blocking create is answered within by default, with room for slow disks. */
const SILENCE_MS_MAX = 120_000;
const ANSWER_BYTES_MAX = 16 << 20;

/** How to reach the service, where its URL does not say all. */
export interface Reach {
  /** PEM: authorities of the server's certificate, in place of the system's. */
  ca?: string;
  /** PEM: what the client proves itself with. */
  cert?: string;
  key?: string;
  /** Of a Unix socket; the URL then only names the service. */
  socketPath?: string;
}

/** Speaks to one pdfseald with one API key. Follows no redirects: the key must not travel. */
export class ApiClient {
  readonly #base: URL;
  readonly #apiKey: string;
  readonly #reach: Reach;

  /** `url`: http or https, with or without `/v1`. */
  constructor(url: URL, apiKey: string, reach: Reach = {}) {
    const base = new URL(url);
    base.pathname = `${withoutFinalSlashes(base.pathname).replace(/\/v1$/, '')}/v1`;
    this.#base = base;
    this.#apiKey = apiKey;
    this.#reach = reach;
  }

  /**
   * Sends it and reads the whole answer, whatever its status. Throws ConnectionFailure, OperatorError where a repeat cannot do better,
   * or what reading the body threw.
   */
  async send(request: ApiRequest, signal: AbortSignal): Promise<ApiAnswer> {
    const sent = this.#begin(request, signal);
    try {
      const answer = await answerTo(sent).catch(async (error: Error) => {
        throw (signal.aborted ? undefined : await lastingFault(error, this.#attempted)) ?? error;
      });
      return await readAnswer(answer, request.save);
    } catch (error) {
      throw error instanceof OperatorError ? error : new ConnectionFailure(error as Error);
    } finally {
      sent.destroy();
    }
  }

  get #attempted() {
    const { ca, socketPath } = this.#reach;
    return { url: this.#base, hasCa: ca !== undefined, socketPath };
  }

  #begin({ method, path, headers = {}, body, save }: ApiRequest, signal: AbortSignal): ClientRequest {
    const send = this.#base.protocol === 'https:' ? httpsRequest : httpRequest;
    const request = send(`${this.#base.href}${path}`, {
      ...this.#reach,
      method,
      signal,
      timeout: SILENCE_MS_MAX,
      headers: {
        Authorization: `Bearer ${this.#apiKey}`,
        Accept: save === undefined ? 'application/json' : '*/*',
        ...headers,
        ...(body && { 'Content-Type': body.contentType, 'Content-Length': body.bytes }),
      },
    });
    request.on('timeout', () => request.destroy(new Error('the server is silent')));
    if (body === undefined) request.end();
    else sendBody(body.open(), request);
    return request;
  }
}

/** What breaks the body breaks the request. After an answer (a refusal) it does not matter what becomes of the rest of the body. */
function sendBody(body: Readable, request: ClientRequest): void {
  body.once('error', (error) => request.destroy(error));
  pipeline(body, request).catch(() => {});
}

async function readAnswer(answer: IncomingMessage, save: ApiRequest['save']): Promise<ApiAnswer> {
  const { statusCode: status = 0, headers } = answer;
  if (save !== undefined && status === 200) {
    await save(answer);
    return { status, headers, text: '' };
  }
  return { status, headers, text: (await readBody(answer, ANSWER_BYTES_MAX)).toString() };
}
