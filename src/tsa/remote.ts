import type { Certificate } from '../asn1/certificate.ts';
import { Poster } from './post.ts';
import { TimestampUnavailable } from './unavailable.ts';

export interface RemoteAuthorityOptions {
  /** How logs and status name it. */
  name: string;
  /** `http:` or `https:`. */
  url: URL;
  timeoutMs: number;
  /** The only certificates its tokens may chain up to. */
  roots: readonly Certificate[];
  /** DER of certificates that it may leave out of its tokens. */
  intermediates?: readonly Uint8Array[];
  /** Dotted object identifier of the policy to ask for. */
  policy?: string;
  /** PEM of the certificate authorities to trust for TLS, in the place of the system's. */
  ca?: string;
}

/** Longest response that is read: a token of 64 KiB and its wrapping. */
const REPLY_BYTES_MAX = 66_560;

/** An external authority, asked over HTTP (RFC 3161, section 3.4). What it answers is not trusted here: see `stamp.ts`. */
export class RemoteAuthority {
  readonly name: string;
  readonly roots: readonly Certificate[];
  readonly intermediates: readonly Uint8Array[];
  readonly policy: string | undefined;
  readonly #poster: Poster;

  constructor({ name, roots, intermediates = [], policy, ...connection }: RemoteAuthorityOptions) {
    this.name = name;
    this.roots = roots;
    this.intermediates = intermediates;
    this.policy = policy;
    this.#poster = new Poster({
      ...connection,
      contentType: 'application/timestamp-query',
      replyBytesMax: REPLY_BYTES_MAX,
    });
  }

  /** The body of the response to the DER query. Throws TimestampUnavailable `authority_unreachable`. */
  async answerQuery(query: Uint8Array): Promise<Uint8Array> {
    const { status, mediaType, body } = await this.#poster.post(query).catch((cause: Error) => {
      throw new TimestampUnavailable('authority_unreachable', cause.message, { cause });
    });
    if (status !== 200 || mediaType !== 'application/timestamp-reply') {
      const what = `HTTP status ${status} with content type ${JSON.stringify(mediaType.slice(0, 100))}`;
      throw new TimestampUnavailable('authority_unreachable', `answered ${what}`);
    }
    return body;
  }

  close(): void {
    this.#poster.close();
  }
}
