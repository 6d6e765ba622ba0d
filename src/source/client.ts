import { type IncomingMessage, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { getCACertificates } from 'node:tls';
import { ServiceError } from '../base/errors.ts';
import type { TargetPolicy } from '../net/policy.ts';
import { representationSha256 } from './digest.ts';
import { badAnswer, connectionFailure, notAllowed, unfetchable, unfetchableNow } from './failure.ts';

export interface SourceOptions {
  policy: Pick<TargetPolicy, 'guard'>;
  /** For connecting and the head of the answer, all redirects included. */
  answerTimeoutMs: number;
  /** PEM of certificate authorities to trust beside Node's own. */
  ca?: string | undefined;
}

/** What a source says of its document without giving it away. */
export interface Probe {
  /** Lower-case hex. */
  sha256?: string;
  bytes?: number;
}

const REDIRECTS_MAX = 3;
const REDIRECTS = [301, 302, 303, 307, 308];
/** A server that answers HEAD so may well answer GET: a URL signed for GET alone is one. */
const NO_HEAD = [403, 405, 501];

const HEADERS = {
  'Accept-Encoding': 'identity',
  'Want-Repr-Digest': 'sha-256=10',
  'User-Agent': 'pdfseald',
};

/**
 * Reads documents where callers say they are. Connects only to what the policy allows, on every hop, and keeps no connection.
 * All its failures are ServiceErrors; those that may pass have a `retryAfterSeconds`.
 */
export class SourceClient {
  readonly #options: SourceOptions;
  readonly #ca: { ca?: string[] };

  constructor(options: SourceOptions) {
    this.#options = options;
    this.#ca = options.ca === undefined ? {} : { ca: [...getCACertificates('default'), options.ca] };
  }

  /** Asks with HEAD. Nothing is known of a source that answers GET only. */
  async probe(url: string, signal: AbortSignal): Promise<Probe> {
    const response = await this.#ask('HEAD', url, signal);
    try {
      const { statusCode = 0, headersDistinct } = response;
      if (NO_HEAD.includes(statusCode)) return {};
      if (statusCode < 200 || statusCode > 299) throw badAnswer(response);
      requireUncoded(response);
      const sha256 = representationSha256(headersDistinct);
      const bytes = announcedBytes(response);
      return { ...(sha256 !== undefined && { sha256 }), ...(bytes !== undefined && { bytes }) };
    } finally {
      response.destroy();
    }
  }

  /** Asks with GET; the body of the answer is the document. Whoever reads it destroys the answer. */
  async open(url: string, signal: AbortSignal): Promise<IncomingMessage> {
    const response = await this.#ask('GET', url, signal);
    try {
      if (response.statusCode !== 200) throw badAnswer(response);
      requireUncoded(response);
      return response;
    } catch (error) {
      response.destroy();
      throw error;
    }
  }

  /** The first answer that is no redirect. Aborting `signal` also ends the answer's body. */
  async #ask(method: 'HEAD' | 'GET', text: string, signal: AbortSignal): Promise<IncomingMessage> {
    const { answerTimeoutMs } = this.#options;
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), answerTimeoutMs);
    try {
      return await this.#follow(method, new URL(text), AbortSignal.any([signal, late.signal]));
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      if (late.signal.aborted) throw unfetchableNow(`did not answer within ${answerTimeoutMs / 1000} s`);
      throw error instanceof ServiceError ? error : connectionFailure(error);
    } finally {
      clearTimeout(timer);
    }
  }

  async #follow(method: 'HEAD' | 'GET', start: URL, signal: AbortSignal): Promise<IncomingMessage> {
    let url = start;
    for (let redirects = 0; redirects <= REDIRECTS_MAX; redirects++) {
      const response = await this.#send(method, url, signal);
      const next = redirectOf(response, url);
      if (next === undefined) return response;
      response.destroy();
      url = next;
    }
    throw unfetchable(`redirects more than ${REDIRECTS_MAX} times`);
  }

  #send(method: 'HEAD' | 'GET', url: URL, signal: AbortSignal): Promise<IncomingMessage> {
    const options = { ...this.#options.policy.guard(url), method, signal, headers: HEADERS, agent: false };
    const request =
      url.protocol === 'https:'
        ? requestHttps(url, { ...options, rejectUnauthorized: true, ...this.#ca })
        : requestHttp(url, options);
    return new Promise((resolve, reject) => {
      request.on('error', reject).on('response', (response) => {
        response.on('error', () => {}); // whoever reads it sees it close
        resolve(response);
      });
      request.end();
    });
  }
}

/** What the head of an answer says of the length of the body; node:http allows one value, a number, at most. */
export function announcedBytes({ headers }: IncomingMessage): number | undefined {
  const length = headers['content-length'];
  return length === undefined ? undefined : Number(length);
}

/** Where to ask next; undefined for an answer that is none. What may be asked there, the policy says again. */
function redirectOf({ statusCode = 0, headers: { location } }: IncomingMessage, from: URL): URL | undefined {
  if (!REDIRECTS.includes(statusCode) || location === undefined) return undefined;
  const next = URL.parse(location, from.href);
  if (next === null) throw unfetchable('redirects to what is no URL');
  if (from.protocol === 'https:' && next.protocol === 'http:') {
    throw notAllowed(new Error('a redirect from https to http'));
  }
  return next;
}

/** The digest that was declared is of the document as it is, so no coding is undone here: none was asked for. */
function requireUncoded({ headers }: IncomingMessage): void {
  const content = headers['content-encoding'] ?? 'identity';
  const transfer = headers['transfer-encoding'] ?? 'chunked';
  if (content.trim().toLowerCase() === 'identity' && transfer.trim().toLowerCase() === 'chunked') return;
  throw unfetchable('answers with an encoded document, though none was asked for');
}
