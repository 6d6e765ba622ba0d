import type { HttpExchange, HttpRequest } from '../web/httpClient.ts';
import { discardBody } from '../web/response.ts';

export interface Answer {
  status: number;
  /** The header as it was sent. */
  retryAfter?: string;
}

/** The body of an answer is not used. This much of it is read and discarded, to keep the connection. */
const BODY_BYTES_MAX = 64 * 1024;
const BODY_MS_MAX = 1000;

/**
 * Posts to a target that a client named. Redirects are not followed. Reads only the status and Retry-After of an answer. `timeoutMs`: for
 * connecting, sending and the head of the answer together. Throws NoAnswer.
 */
export function post(
  client: HttpExchange,
  request: Pick<HttpRequest, 'url' | 'headers' | 'body' | 'timeoutMs'>,
): Promise<Answer> {
  return client.exchange({ ...request, method: 'POST', timed: 'head' }, async (answer) => {
    await discardBody(answer, BODY_BYTES_MAX, BODY_MS_MAX);
    const { statusCode: status = 0, headers } = answer;
    const retryAfter = headers['retry-after'];
    return { status, retryAfter };
  });
}
