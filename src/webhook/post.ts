import {
  type ClientRequest,
  Agent as HttpAgent,
  type IncomingMessage,
  request as requestHttp,
} from 'node:http';
import { Agent as HttpsAgent, request as requestHttps } from 'node:https';
import { type TargetPolicy, TargetRefused } from '../net/policy.ts';

export interface PosterOptions {
  policy: TargetPolicy;
  /** For connecting, sending and the head of the answer together. */
  timeoutMs: number;
  /** PEM of the certificate authorities to trust for TLS, in the place of the well-known ones. */
  ca?: string | undefined;
}

export interface Answer {
  status: number;
  /** As it was sent. */
  retryAfter?: string;
}

/** There is no answer. `reason` is safe to show to whoever owns the endpoint; the cause is not. */
export class NoAnswer extends Error {
  readonly reason: string;

  constructor(reason: string, cause?: unknown) {
    super(reason, { cause });
    this.name = 'NoAnswer';
    this.reason = reason;
  }
}

/** What follows the head of an answer means nothing to us: so much of it is discarded to keep the connection, no more. */
const BODY_BYTES_MAX = 64 * 1024;
const BODY_MS_MAX = 1000;
/** Informational answers (1xx) before the real one. */
const INTERIM_MAX = 10;
const FREE_SOCKETS_MAX = 4;

/** Posts to targets that others name, over connections that are kept. Follows no redirects. */
export class Poster {
  readonly #policy: TargetPolicy;
  readonly #timeoutMs: number;
  readonly #http: HttpAgent;
  readonly #https: HttpsAgent;
  readonly #open = new Set<ClientRequest>();

  constructor({ policy, timeoutMs, ca }: PosterOptions) {
    this.#policy = policy;
    this.#timeoutMs = timeoutMs;
    const kept = { keepAlive: true, maxFreeSockets: FREE_SOCKETS_MAX, timeout: 2 * timeoutMs };
    this.#http = new HttpAgent(kept);
    this.#https = new HttpsAgent({
      ...kept,
      ...(ca !== undefined && { ca }),
    });
  }

  /** Throws NoAnswer, within the time-out. A target may answer with anything: only status and Retry-After are looked at. */
  async post(url: URL, headers: Record<string, string>, body: Uint8Array): Promise<Answer> {
    for (;;) {
      const attempt = this.#attempt(url, headers, body);
      try {
        return await attempt.answer;
      } catch (error) {
        // The other side may close a kept connection at the moment it is used again; it then has read nothing.
        if (!attempt.isStale(error)) throw new NoAnswer(reasonOf(error), error);
      }
    }
  }

  /** Cuts off what is under way. */
  close(): void {
    for (const request of this.#open) request.destroy();
    this.#http.destroy();
    this.#https.destroy();
  }

  #attempt(
    url: URL,
    headers: Record<string, string>,
    body: Uint8Array,
  ): { answer: Promise<Answer>; isStale(error: unknown): boolean } {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    const [send, agent] = url.protocol === 'https:' ? [requestHttps, this.#https] : [requestHttp, this.#http];
    let isReused = false;
    try {
      const request = send(url, {
        ...this.#policy.guard(url),
        method: 'POST',
        agent,
        headers: { ...headers, 'content-length': String(body.length) },
      });
      this.#open.add(request);
      const timer = setTimeout(() => request.destroy(new NoAnswer('timeout')), this.#timeoutMs);
      let interim = 0;
      request.on('information', () => {
        interim += 1;
        if (interim > INTERIM_MAX) request.destroy(new NoAnswer('invalid_answer'));
      });
      request.on('upgrade', (_, socket) => {
        socket.destroy();
        reject(new NoAnswer('invalid_answer'));
      });
      request.on('response', (response) => discard(response, () => resolve(answerOf(response))));
      request.on('error', (error) => {
        isReused = request.reusedSocket;
        reject(error);
      });
      request.on('close', () => {
        clearTimeout(timer);
        this.#open.delete(request);
      });
      request.end(body);
    } catch (error) {
      reject(error);
    }
    return {
      answer: promise,
      isStale: (error) => isReused && ['ECONNRESET', 'EPIPE'].includes(codeOf(error)),
    };
  }
}

function answerOf({ statusCode = 0, headers }: IncomingMessage): Answer {
  const retryAfter = headers['retry-after'];
  return { status: statusCode, ...(retryAfter !== undefined && { retryAfter }) };
}

/** Reads the rest of an answer away, or cuts the connection when that is too much or too slow. */
function discard(response: IncomingMessage, done: () => void): void {
  const timer = setTimeout(() => response.destroy(), BODY_MS_MAX);
  let bytes = 0;
  response.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > BODY_BYTES_MAX) response.destroy();
  });
  response.on('error', () => {}); // The status is there; what breaks after it breaks nothing.
  response.on('close', () => {
    clearTimeout(timer);
    done();
  });
}

/** In the words of README and API. */
function reasonOf(error: unknown): string {
  if (error instanceof NoAnswer) return error.reason;
  if (error instanceof TargetRefused) return 'not_allowed';
  const code = codeOf(error);
  if (code === 'ENOTFOUND' || code.startsWith('EAI_')) return 'name_not_found';
  if (code === 'ECONNREFUSED') return 'connection_refused';
  if (code === 'ECONNRESET' || code === 'EPIPE') return 'connection_reset';
  if (code.startsWith('HPE_')) return 'invalid_answer';
  if (/^(ERR_TLS|ERR_SSL|EPROTO|CERT|UNABLE|SELF_SIGNED|DEPTH_ZERO|ERR_OSSL)/.test(code)) return 'tls_failed';
  return 'unreachable';
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}
