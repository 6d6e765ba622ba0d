import type { IncomingMessage } from 'node:http';
import type { HttpExchange } from '../web/httpClient.ts';
import { readBody } from '../web/response.ts';
import type { TimestampAuthority } from './stamp.ts';
import { TimestampUnavailable } from './unavailable.ts';

export interface RemoteAuthorityOptions extends Omit<TimestampAuthority, 'answerQuery'> {
  /** `http:` or `https:`. */
  url: URL;
  /** Time-out for one token, from connecting to the last byte of the answer; milliseconds. */
  timeoutMs: number;
  /** The HTTP client for the URL. Closing it cancels the requests in progress. */
  client: HttpExchange;
}

/** Longest response that the client reads: a token of 64 KiB and its wrapping. */
const REPLY_BYTES_MAX = 66_560;

/**
 * An external authority, asked over HTTP (RFC 3161, section 3.4). Redirects are not followed: only the configured URL is asked. Its answers
 * are not verified here, but in `stamp.ts`. Throws TimestampUnavailable `authority_unreachable`.
 */
export function remoteAuthority({
  url,
  timeoutMs,
  client,
  ...authority
}: RemoteAuthorityOptions): TimestampAuthority {
  const answerQuery = async (query: Uint8Array, signal?: AbortSignal) => {
    const request = {
      method: 'POST',
      url,
      headers: { 'Content-Type': 'application/timestamp-query' },
      body: query,
      timeoutMs,
      signal,
    } as const;
    const reply = client.exchange(request, async (answer) => ({
      status: answer.statusCode ?? 0,
      mediaType: mediaTypeOf(answer),
      body: await readBody(answer, REPLY_BYTES_MAX),
    }));
    const { status, mediaType, body } = await reply.catch((cause: Error) => {
      throw new TimestampUnavailable('authority_unreachable', cause.message, { cause });
    });
    if (status !== 200 || mediaType !== 'application/timestamp-reply') {
      const what = `HTTP status ${status} with content type ${JSON.stringify(mediaType.slice(0, 100))}`;
      throw new TimestampUnavailable('authority_unreachable', `answered ${what}`);
    }
    return body;
  };
  return { ...authority, answerQuery };
}

/** The media type without parameters, in lower case. */
function mediaTypeOf({ headers }: IncomingMessage): string {
  return (headers['content-type'] ?? '').split(';', 1).join('').trim().toLowerCase();
}
