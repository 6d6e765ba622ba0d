import { readFileSync } from 'node:fs';
import { Agent as HttpAgent, type IncomingMessage, request as requestHttp } from 'node:http';
import { Agent as HttpsAgent, request as requestHttps } from 'node:https';
import { createSecureContext, getCACertificates } from 'node:tls';
import { codeOf, NoAnswer, toNoAnswer } from './noAnswer.ts';
import type { TargetPolicy } from './policy.ts';
import { answerTo } from './response.ts';

export interface HttpClientOptions {
  /** What may be connected to. Absent: every URL, since an administrator configured each. */
  policy?: Pick<TargetPolicy, 'guard'>;
  /** PEM of the only certificate authorities to trust; default: Node's own. */
  ca?: string | readonly string[] | undefined;
  /** Idle connections to each target that are kept; default 0. */
  idleConnectionsMax?: number;
}

export interface HttpRequest {
  method: 'GET' | 'HEAD' | 'POST';
  url: URL;
  headers?: Readonly<Record<string, string>>;
  body?: Uint8Array;
  /** For all of it: looking up, connecting, sending, redirects, and what `timed` says of the answer. */
  timeoutMs: number;
  /** `answer` (default): to the last byte of its body. `head`: whoever reads the body sees to its pace. */
  timed?: 'head' | 'answer';
  /** How many redirects are followed. Absent: a redirect is an answer like any other. */
  redirectsMax?: number;
  signal?: AbortSignal;
}

/** Which certificate authorities to trust for TLS, as a table of the config file says it. */
export interface TrustedAuthorities {
  /** PEM. Without it, the authorities that Node.js brings are trusted. */
  caFile?: string;
  /** Trust the authorities that Node.js brings besides those of `caFile`. */
  publicCas: boolean;
}

/** For {@link HttpClientOptions.ca}. Throws the error of the file system. */
export function readAuthorities({ caFile, publicCas }: TrustedAuthorities): readonly string[] | undefined {
  if (caFile === undefined) return undefined;
  return [...(publicCas ? getCACertificates('default') : []), readFileSync(caFile, 'utf8')];
}

/** Longest head of an answer, all header fields together. */
const HEAD_BYTES_MAX = 16 * 1024;
/** How long an idle connection is kept. */
const IDLE_MS_MAX = 30_000;
const REDIRECTS = [301, 302, 303, 307, 308];

/**
 * Asks servers that nobody vouches for. Whatever they do, {@link exchange} ends within its time-out, and nothing is left of it but
 * connections that are kept.
 */
export class HttpClient {
  readonly #policy: HttpClientOptions['policy'];
  readonly #http: HttpAgent;
  readonly #https: HttpsAgent;
  readonly #underWay = new Set<AbortController>();

  constructor({ policy, ca, idleConnectionsMax = 0 }: HttpClientOptions) {
    this.#policy = policy;
    const keeping = {
      keepAlive: idleConnectionsMax > 0,
      maxFreeSockets: idleConnectionsMax,
      timeout: IDLE_MS_MAX,
    };
    this.#http = new HttpAgent(keeping);
    this.#https = new HttpsAgent({
      ...keeping,
      rejectUnauthorized: true,
      maxCachedSessions: 0, // each connection has its server prove itself
      // Made once: reading all of Node's authorities for each connection takes milliseconds.
      ...(ca !== undefined && { secureContext: createSecureContext({ ca: [ca].flat() }) }),
    });
  }

  /**
   * What `read` makes of the answer. Throws NoAnswer, the reason of `signal`, or what `read` throws. Once this settles, an answer
   * that was not read to its end is cut off.
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

  /** Cuts off what is under way: it ends with NoAnswer `closed`. */
  close(): void {
    for (const end of this.#underWay)
      end.abort(new NoAnswer('closed', 'broken off, since it is being stopped'));
    this.#http.destroy();
    this.#https.destroy();
  }

  /** The first answer that is not followed. */
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
    const [send, agent] = url.protocol === 'https:' ? [requestHttps, this.#https] : [requestHttp, this.#http];
    const request = send(url, {
      ...this.#policy?.guard(url),
      agent,
      method,
      headers: {
        'User-Agent': 'pdfseald',
        ...headers,
        ...(body && { 'Content-Length': String(body.length) }),
      },
      maxHeaderSize: HEAD_BYTES_MAX,
    });
    end.addEventListener('abort', () => request.destroy(end.reason));
    request.end(body);
    try {
      return await answerTo(request);
    } catch (error) {
      // The other side may close a kept connection at the moment it is used again; it then has read nothing.
      const isStale = request.reusedSocket && ['ECONNRESET', 'EPIPE'].includes(codeOf(error));
      throw isStale ? new StaleConnection() : error;
    }
  }
}

class StaleConnection extends Error {}

/** Where to ask next; undefined for an answer that is no redirect. What may be asked there, the policy says again. */
function redirectOf({ statusCode = 0, headers: { location } }: IncomingMessage, from: URL): URL | undefined {
  if (!REDIRECTS.includes(statusCode) || location === undefined) return undefined;
  const next = URL.parse(location, from.href);
  if (next === null) throw new NoAnswer('invalid_redirect', 'redirects to what is no URL');
  if (from.protocol === 'https:' && next.protocol === 'http:')
    throw new NoAnswer('not_allowed', 'a redirect from https to http');
  return next;
}
