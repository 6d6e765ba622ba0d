import type { IncomingMessage } from 'node:http';
import type { Certificate } from '../asn1/certificate.ts';
import type { HttpExchange } from '../net/httpClient.ts';
import { readBody } from '../net/response.ts';
import { TimestampUnavailable } from './unavailable.ts';

export interface RemoteAuthorityOptions {
  /** Name of the authority in logs and status. */
  name: string;
  /** `http:` or `https:`. */
  url: URL;
  /** Time-out for one token, from connecting to the last byte of the answer; milliseconds. */
  timeoutMs: number;
  /** The only roots that the authority's tokens can chain up to. */
  roots: readonly Certificate[];
  /** DER of certificates that the authority can leave out of its tokens. */
  intermediates?: readonly Uint8Array[];
  /** Dotted object identifier of the policy to ask for. */
  policy?: string;
  /** Reaches the URL. It is closed with the authority. */
  client: HttpExchange;
}

/** Longest response that the client reads: a token of 64 KiB and its wrapping. */
const REPLY_BYTES_MAX = 66_560;

/** An external authority, asked over HTTP (RFC 3161, section 3.4). Its answers are not verified here: `stamp.ts` verifies them. */
export class RemoteAuthority {
  readonly name: string;
  readonly roots: readonly Certificate[];
  readonly intermediates: readonly Uint8Array[];
  readonly policy: string | undefined;
  readonly #url: URL;
  readonly #timeoutMs: number;
  readonly #client: HttpExchange;

  constructor({ name, url, timeoutMs, roots, intermediates = [], policy, client }: RemoteAuthorityOptions) {
    this.name = name;
    this.roots = roots;
    this.intermediates = intermediates;
    this.policy = policy;
    this.#url = url;
    this.#timeoutMs = timeoutMs;
    this.#client = client;
  }

  /** Sends the query (DER) and returns the body of the response. Throws TimestampUnavailable `authority_unreachable`. */
  async answerQuery(query: Uint8Array, signal?: AbortSignal): Promise<Uint8Array> {
    const { status, mediaType, body } = await this.#post(query, signal).catch((cause: Error) => {
      throw new TimestampUnavailable('authority_unreachable', cause.message, { cause });
    });
    if (status !== 200 || mediaType !== 'application/timestamp-reply') {
      const what = `HTTP status ${status} with content type ${JSON.stringify(mediaType.slice(0, 100))}`;
      throw new TimestampUnavailable('authority_unreachable', `answered ${what}`);
    }
    return body;
  }

  /** Cancels the requests under way. */
  close(): void {
    this.#client.close();
  }

  /** Follows no redirects: only the configured URL is asked. */
  #post(query: Uint8Array, signal: AbortSignal | undefined) {
    const request = {
      method: 'POST',
      url: this.#url,
      headers: { 'Content-Type': 'application/timestamp-query' },
      body: query,
      timeoutMs: this.#timeoutMs,
      ...(signal && { signal }),
    } as const;
    return this.#client.exchange(request, async (answer) => ({
      status: answer.statusCode ?? 0,
      mediaType: mediaTypeOf(answer),
      body: await readBody(answer, REPLY_BYTES_MAX),
    }));
  }
}

/** The media type without parameters, in lower case. */
function mediaTypeOf({ headers }: IncomingMessage): string {
  return (headers['content-type'] ?? '').split(';', 1).join('').trim().toLowerCase();
}
