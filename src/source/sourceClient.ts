import type { IncomingMessage } from 'node:http';
import { ServiceError } from '../base/errors.ts';
import { EgressAway } from '../web/egressClient.ts';
import type { HttpExchange, HttpRequest } from '../web/httpClient.ts';
import { NoAnswer } from '../web/noAnswer.ts';
import { representationSha256 } from './digest.ts';
import { badAnswer, unanswered, unfetchable, unfetchableNow } from './fetchFailure.ts';

/** Statements about a document in the headers. */
export interface Probe {
  /** Lower-case hex. */
  sha256?: string;
  bytes?: number;
}

const REDIRECTS_MAX = 3;
/** A server that answers HEAD with these statuses can still answer GET, for example when the URL is signed for GET only. */
const NO_HEAD = [403, 405, 501];

const HEADERS = {
  'Accept-Encoding': 'identity',
  'Want-Repr-Digest': 'sha-256=10',
};

/**
 * Fetches documents from the URLs that clients name. Its client connects only to targets that the policy allows, at every redirect. All
 * failures are ServiceErrors; temporary ones have `retryAfterSeconds`.
 */
export class SourceClient {
  readonly #answerTimeoutMs: number;
  readonly #client: HttpExchange;

  /** `answerTimeoutMs`: for the connection and the head of the answer, including all redirects. */
  constructor(client: HttpExchange, answerTimeoutMs: number) {
    this.#answerTimeoutMs = answerTimeoutMs;
    this.#client = client;
  }

  /**
   * Sends HEAD. The result is empty for a source that answers only GET, and if the request cannot be sent, which says nothing about the
   * source.
   */
  async probe(url: string, signal: AbortSignal): Promise<Probe> {
    const probed = this.#ask({ method: 'HEAD', url: new URL(url), signal }, async (answer) => {
      const { statusCode = 0, headersDistinct } = answer;
      if (NO_HEAD.includes(statusCode)) return {};
      if (statusCode < 200 || statusCode > 299) throw badAnswer(answer);
      requireUncoded(answer);
      const sha256 = representationSha256(headersDistinct);
      const bytes = announcedBytes(answer);
      return { sha256, bytes };
    });
    return probed.catch((error) => {
      if (isNotAsked(error)) return {};
      throw error;
    });
  }

  /**
   * Sends GET. The body of the answer is the document; it can be read until `read` settles. Throws what `read` throws. Aborting `signal`
   * also ends the body. The reader of the body limits its time.
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

/** Whether an attempt failed because of our own egress process, which says nothing about the source. */
export function isNotAsked(error: unknown): boolean {
  return error instanceof ServiceError && error.cause instanceof EgressAway;
}

/** The Content-Length of an answer. node:http allows one value, a number, at most. */
export function announcedBytes({ headers }: IncomingMessage): number | undefined {
  const length = headers['content-length'];
  return length === undefined ? undefined : Number(length);
}

/** The request does not allow content codings, and the declared digest is that of the uncoded document, so a coded answer fails. */
function requireUncoded({ headers }: IncomingMessage): void {
  const content = headers['content-encoding'] ?? 'identity';
  const transfer = headers['transfer-encoding'] ?? 'chunked';
  if (content.trim().toLowerCase() === 'identity' && transfer.trim().toLowerCase() === 'chunked') return;
  throw unfetchable('answers with an encoded document, although the request allows none');
}
