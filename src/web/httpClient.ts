import { readFileSync } from 'node:fs';
import { Agent as HttpAgent, type IncomingMessage, request as requestHttp } from 'node:http';
import { Agent as HttpsAgent, request as requestHttps } from 'node:https';
import { createSecureContext, getCACertificates } from 'node:tls';
import { codeOf } from '../base/systemReason.ts';
import { NoAnswer, toNoAnswer } from './noAnswer.ts';
import type { TargetPolicy } from './policy.ts';
import { answerTo } from './response.ts';

export interface HttpClientOptions {
  /** The targets that the client can connect to. Absent: all, since an administrator configured each URL. */
  policy?: Pick<TargetPolicy, 'guard'>;
  /** PEM of the only certificate authorities to trust; default: those of Node.js. */
  ca?: string | readonly string[] | undefined;
  /** How many idle connections to keep for each target; default 0. */
  idleConnectionsMax?: number;
  /** Path of the Unix socket of a server on this machine, to which all requests go. */
  socketPath?: () => Promise<string>;
}

/** The sender of requests: {@link HttpClient}, or the daemon's end of the egress process. */
export type HttpExchange = Pick<HttpClient, 'exchange' | 'close'>;

export interface HttpRequest {
  method: 'GET' | 'HEAD' | 'POST';
  url: URL;
  headers?: Readonly<Record<string, string>>;
  body?: Uint8Array;
  /** Time-out for the look-up, the connection, the request, redirects, and the part of the answer that `timed` names. */
  timeoutMs: number;
  /** `answer` (default): up to the last byte of the body. `head`: up to the head; the reader of the body limits its time. */
  timed?: 'head' | 'answer';
  /** How many redirects to follow. Absent: a redirect is returned like any other answer. */
  redirectsMax?: number;
  signal?: AbortSignal;
}

/** The certificate authorities to trust for TLS, as a table of the config file names them. */
export interface TrustedAuthorities {
  /** PEM file. Without it, the authorities of Node.js are trusted. */
  caFile?: string | undefined;
  /** Also trust the authorities of Node.js, in addition to those of `caFile`. */
  publicCas: boolean;
}

/** Reads the authorities for {@link HttpClientOptions.ca}. Throws the error of the file system. */
export function readAuthorities({ caFile, publicCas }: TrustedAuthorities): readonly string[] | undefined {
  if (caFile === undefined) return undefined;
  return [...(publicCas ? getCACertificates('default') : []), readFileSync(caFile, 'utf8')];
}

/** Longest head of an answer, all header fields together; bytes. */
const HEAD_BYTES_MAX = 16 * 1024;
/** The same limit for a server on this machine: its head can contain the encoded head of another server's answer. */
const LOCAL_HEAD_BYTES_MAX = 256 * 1024;
/** How long an idle connection stays open. */
const IDLE_MS_MAX = 30_000;
const REDIRECTS = [301, 302, 303, 307, 308];

/**
 * Sends requests to servers that are not trusted. Whatever a server does, {@link exchange} ends within its time-out
 * and leaves nothing behind but idle connections.
 */
export class HttpClient {
  readonly #policy: HttpClientOptions['policy'];
  readonly #socketPath: HttpClientOptions['socketPath'];
  readonly #http: HttpAgent;
  readonly #https: HttpsAgent;
  readonly #underWay = new Set<AbortController>();

  constructor({ policy, ca, idleConnectionsMax = 0, socketPath }: HttpClientOptions) {
    this.#policy = policy;
    this.#socketPath = socketPath;
    const keeping = {
      keepAlive: idleConnectionsMax > 0,
      maxFreeSockets: idleConnectionsMax,
      timeout: IDLE_MS_MAX,
    };
    this.#http = new HttpAgent(keeping);
    this.#https = new HttpsAgent({
      ...keeping,
      rejectUnauthorized: true,
      maxCachedSessions: 0, // every connection verifies the server's certificate
      // Created once: reading all authorities of Node.js for each connection takes milliseconds.
      ...(ca !== undefined && { secureContext: createSecureContext({ ca: [ca].flat() }) }),
    });
  }

  /**
   * Sends a request, passes the answer to `read`, and returns the result of `read`. Throws NoAnswer, the reason of
   * `signal`, or the error of `read`. Once the promise settles, the connection of an answer that was not read to
   * its end is closed.
   */
  async exchange<T>(request: HttpRequest, read: (answer: IncomingMessage) => Promise<T>): Promise<T> {
    const { signal, timeoutMs, timed = 'answer' } = request;
    const end = new AbortController();
    const late = () => end.abort(new NoAnswer('timeout', `no answer within ${timeoutMs} ms`));
    const timer = setTimeout(late, timeoutMs);
    const stop = () => end.abort(signal?.reason);
    signal?.addEventListener('abort', stop);
    if (signal?.aborted) stop();
    this.#underWay.add(end);
    try {
      const answer = await this.#follow(request, end.signal);
      if (timed === 'head') clearTimeout(timer);
      return await read(answer);
    } catch (error) {
      throw end.signal.aborted ? end.signal.reason : error;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', stop);
      this.#underWay.delete(end);
      end.abort();
    }
  }

  /** Cancels the requests under way: they end with NoAnswer `closed`. */
  close(): void {
    for (const end of this.#underWay)
      end.abort(new NoAnswer('closed', 'cancelled: the daemon is being stopped'));
    this.#http.destroy();
    this.#https.destroy();
  }

  /** Follows redirects and returns the first answer that is not one. */
  async #follow(request: HttpRequest, end: AbortSignal): Promise<IncomingMessage> {
    const { redirectsMax } = request;
    let { url } = request;
    for (let redirects = 0; ; redirects++) {
      const answer = await this.#ask({ ...request, url }, end);
      const next = redirectsMax === undefined ? undefined : redirectOf(answer, url);
      if (next === undefined) return answer;
      answer.destroy();
      if (redirects === redirectsMax)
        throw new NoAnswer('invalid_redirect', `redirects more than ${redirectsMax} times`);
      url = next;
    }
  }

  async #ask(request: HttpRequest, end: AbortSignal): Promise<IncomingMessage> {
    for (;;) {
      try {
        return await this.#askOnce(request, end);
      } catch (error) {
        if (end.aborted || !(error instanceof StaleConnection)) throw toNoAnswer(error);
      }
    }
  }

  async #askOnce({ method, url, headers, body }: HttpRequest, end: AbortSignal): Promise<IncomingMessage> {
    end.throwIfAborted();
    const socketPath = this.#socketPath && (await Promise.race([this.#socketPath(), aborted(end)]));
    const [send, agent] = url.protocol === 'https:' ? [requestHttps, this.#https] : [requestHttp, this.#http];
    const request = send(url, {
      ...this.#policy?.guard(url),
      socketPath,
      agent,
      method,
      headers: {
        'User-Agent': 'pdfseald',
        ...headers,
        ...(body && { 'Content-Length': String(body.length) }),
      },
      maxHeaderSize: socketPath === undefined ? HEAD_BYTES_MAX : LOCAL_HEAD_BYTES_MAX,
    });
    end.addEventListener('abort', () => request.destroy(end.reason));
    request.end(body);
    try {
      return await answerTo(request);
    } catch (error) {
      // A server can close an idle connection just when a request reuses it. The server then has not read the request.
      const isStale = request.reusedSocket && ['ECONNRESET', 'EPIPE'].includes(codeOf(error));
      throw isStale ? new StaleConnection() : error;
    }
  }
}

class StaleConnection extends Error {}

/** Rejects with the reason of the signal when the signal aborts. */
function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
}

/** The target of a redirect; undefined for any other answer. The policy must check the target again. */
function redirectOf({ statusCode = 0, headers: { location } }: IncomingMessage, from: URL): URL | undefined {
  if (!REDIRECTS.includes(statusCode) || location === undefined) return undefined;
  const next = URL.parse(location, from.href);
  if (next === null) throw new NoAnswer('invalid_redirect', 'redirects to an invalid URL');
  if (from.protocol === 'https:' && next.protocol === 'http:')
    throw new NoAnswer('not_allowed', 'redirects from https to http');
  return next;
}
