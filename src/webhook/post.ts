import type { IncomingMessage } from 'node:http';
import type { HttpExchange } from '../net/httpClient.ts';
import { discardBody } from '../net/response.ts';

export interface Answer {
  status: number;
  /** The header as it was sent. */
  retryAfter?: string;
}

/** The body of an answer means nothing to us. This much of it is read and discarded, to keep the connection. */
const BODY_BYTES_MAX = 64 * 1024;
const BODY_MS_MAX = 1000;

/** Posts to targets that clients name. Follows no redirects. */
export class Poster {
  readonly #timeoutMs: number;
  readonly #client: HttpExchange;

  /** `timeoutMs`: for connecting, sending and the head of the answer together. */
  constructor(client: HttpExchange, timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
    this.#client = client;
  }

  /** Throws NoAnswer within the time-out. Reads only the status and Retry-After of an answer. */
  post(url: URL, headers: Record<string, string>, body: Uint8Array): Promise<Answer> {
    const request = {
      method: 'POST',
      url,
      headers,
      body,
      timeoutMs: this.#timeoutMs,
      timed: 'head',
    } as const;
    return this.#client.exchange(request, async (answer) => {
      await discardBody(answer, BODY_BYTES_MAX, BODY_MS_MAX);
      return answerOf(answer);
    });
  }

  /** Cuts off requests under way. */
  close(): void {
    this.#client.close();
  }
}

function answerOf({ statusCode = 0, headers }: IncomingMessage): Answer {
  const retryAfter = headers['retry-after'];
  return { status: statusCode, ...(retryAfter !== undefined && { retryAfter }) };
}
