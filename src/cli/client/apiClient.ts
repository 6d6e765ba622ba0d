import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { OperatorError } from '../../base/errors.ts';
import { answerTo, readBody } from '../../web/response.ts';
import { withoutFinalSlashes } from '../../web/url.ts';
import { lastingFault } from './lastingFault.ts';

/** A body that is streamed; it is never in memory as a whole. */
export interface StreamedBody {
  contentType: string;
  /** Length in bytes, known before the first byte. */
  bytes: number;
  open(): Readable;
}

export interface ApiRequest {
  method: 'GET' | 'POST';
  /** Path below `/v1`. */
  path: string;
  headers?: Record<string, string>;
  body?: StreamedBody;
  /** Receives the body of a successful answer, whose text is then empty. */
  save?(body: AsyncIterable<Buffer>): Promise<void>;
}

export interface ApiAnswer {
  status: number;
  headers: IncomingMessage['headers'];
  text: string;
}

/** The connection failed, so it is not known whether the server processed the request. */
export class ConnectionFailure extends Error {
  constructor(cause: Error) {
    super(cause.message || ('code' in cause ? String(cause.code) : 'connection failed'), { cause });
    this.name = 'ConnectionFailure';
  }
}

/** Longer than the default time limit of a blocking request, with time for slow disks. */
const SILENCE_MS_MAX = 120_000;
const ANSWER_BYTES_MAX = 16 << 20;

/** Connection settings in addition to the URL of the service. */
export interface Reach {
  /** PEM: authorities for the server's certificate, instead of the default ones. */
  ca?: string;
  /** PEM: the client certificate. */
  cert?: string;
  key?: string;
  /** A Unix socket; the URL then only names the service. */
  socketPath?: string;
}

/** Sends requests to one pdfseald with one API key. Does not follow redirects, so the key never reaches another server. */
export class ApiClient {
  readonly #base: URL;
  readonly #apiKey: string | undefined;
  readonly #reach: Reach;

  /** `url`: http or https, with or without `/v1`. */
  constructor(url: URL, apiKey: string | undefined, reach: Reach = {}) {
    const base = new URL(url);
    base.pathname = `${withoutFinalSlashes(base.pathname).replace(/\/v1$/, '')}/v1`;
    this.#base = base;
    this.#apiKey = apiKey;
    this.#reach = reach;
  }

  /**
   * Sends a request and reads the whole answer, whatever its status. Throws ConnectionFailure; OperatorError if a repeat cannot succeed.
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
        ...(this.#apiKey !== undefined && { Authorization: `Bearer ${this.#apiKey}` }),
        Accept: save === undefined ? 'application/json' : '*/*',
        ...headers,
        ...(body && { 'Content-Type': body.contentType, 'Content-Length': body.bytes }),
      },
    });
    request.on('timeout', () => request.destroy(new Error('the server does not answer')));
    if (body === undefined) request.end();
    else sendBody(body.open(), request);
    return request;
  }
}

/** An error of the body ends the request. After an answer (a refusal) the rest of the body does not matter. */
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
