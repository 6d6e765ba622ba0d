import type { IncomingMessage } from 'node:http';
import { HttpClient, type HttpRequest } from '../net/httpClient.ts';
import { NoAnswer } from '../net/noAnswer.ts';
import type { TargetPolicy } from '../net/policy.ts';
import { representationSha256 } from './digest.ts';
import { badAnswer, unanswered, unfetchable, unfetchableNow } from './fetchFailure.ts';

export interface SourceOptions {
  policy: Pick<TargetPolicy, 'guard'>;
  /** For connecting and the head of the answer, all redirects included. */
  answerTimeoutMs: number;
  /** PEM of the only certificate authorities to trust; default: Node's own. */
  ca?: string | readonly string[] | undefined;
}

/** What a source says of its document without giving it away. */
export interface Probe {
  /** Lower-case hex. */
  sha256?: string;
  bytes?: number;
}

const REDIRECTS_MAX = 3;
/** A server that answers HEAD so may well answer GET: a URL signed for GET alone is one. */
const NO_HEAD = [403, 405, 501];

const HEADERS = {
  'Accept-Encoding': 'identity',
  'Want-Repr-Digest': 'sha-256=10',
};

/**
 * Reads documents where callers say they are. Connects only to what the policy allows, on every hop, and keeps no connection.
 * All its failures are ServiceErrors; those that may pass have a `retryAfterSeconds`.
 */
export class SourceClient {
  readonly #answerTimeoutMs: number;
  readonly #client: HttpClient;

  constructor({ policy, answerTimeoutMs, ca }: SourceOptions) {
    this.#answerTimeoutMs = answerTimeoutMs;
    this.#client = new HttpClient({ policy, ca });
  }

  /** Asks with HEAD. Nothing is known of a source that answers GET only. */
  probe(url: string, signal: AbortSignal): Promise<Probe> {
    return this.#ask({ method: 'HEAD', url: new URL(url), signal }, async (answer) => {
      const { statusCode = 0, headersDistinct } = answer;
      if (NO_HEAD.includes(statusCode)) return {};
      if (statusCode < 200 || statusCode > 299) throw badAnswer(answer);
      requireUncoded(answer);
      const sha256 = representationSha256(headersDistinct);
      const bytes = announcedBytes(answer);
      return { ...(sha256 !== undefined && { sha256 }), ...(bytes !== undefined && { bytes }) };
    });
  }

  /**
   * Asks with GET; the body of the answer, which is the document, is there until `read` settles, and what that throws is thrown.
   * Aborting `signal` also ends the body. Whoever reads it sees to its pace.
   */
  fetch<T>(url: string, signal: AbortSignal, read: (answer: IncomingMessage) => Promise<T>): Promise<T> {
    return this.#ask({ method: 'GET', url: new URL(url), signal, timed: 'head' }, (answer) => {
      if (answer.statusCode !== 200) throw badAnswer(answer);
      requireUncoded(answer);
      return read(answer);
    });
  }

  async #ask<T>(
    request: Pick<HttpRequest, 'method' | 'url' | 'signal' | 'timed'>,
    read: (answer: IncomingMessage) => Promise<T>,
  ): Promise<T> {
    const timeoutMs = this.#answerTimeoutMs;
    const bounds = { headers: HEADERS, timeoutMs, redirectsMax: REDIRECTS_MAX };
    try {
      return await this.#client.exchange({ ...request, ...bounds }, read);
    } catch (error) {
      if (!(error instanceof NoAnswer)) throw error;
      if (error.reason === 'timeout') throw unfetchableNow(`did not answer within ${timeoutMs / 1000} s`);
      throw unanswered(error);
    }
  }
}

/** What the head of an answer says of the length of the body; node:http allows one value, a number, at most. */
export function announcedBytes({ headers }: IncomingMessage): number | undefined {
  const length = headers['content-length'];
  return length === undefined ? undefined : Number(length);
}

/** The digest that was declared is of the document as it is, so no coding is undone here: none was asked for. */
function requireUncoded({ headers }: IncomingMessage): void {
  const content = headers['content-encoding'] ?? 'identity';
  const transfer = headers['transfer-encoding'] ?? 'chunked';
  if (content.trim().toLowerCase() === 'identity' && transfer.trim().toLowerCase() === 'chunked') return;
  throw unfetchable('answers with an encoded document, though none was asked for');
}
