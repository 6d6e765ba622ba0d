import { Agent as HttpAgent, type IncomingMessage, request as requestHttp } from 'node:http';
import { Agent as HttpsAgent, request as requestHttps } from 'node:https';

export interface Reply {
  status: number;
  /** Media type without parameters, in lower case. */
  mediaType: string;
  body: Buffer;
}

export interface PosterOptions {
  url: URL;
  contentType: string;
  /** For all of it: connecting, sending, and the last byte of the answer. */
  timeoutMs: number;
  /** Longest answer that is read. */
  replyBytesMax: number;
  /** PEM of the certificate authorities to trust for TLS, in the place of the system's. */
  ca?: string;
}

/** Posts to one URL, over connections that are kept. Follows no redirects: what is configured is what is asked. */
export class Poster {
  readonly #options: PosterOptions;
  readonly #agent: HttpAgent;
  readonly #request: typeof requestHttp;

  constructor(options: PosterOptions) {
    this.#options = options;
    const secure = options.url.protocol === 'https:';
    this.#agent = secure
      ? new HttpsAgent({ keepAlive: true, ...(options.ca !== undefined && { ca: options.ca }) })
      : new HttpAgent({ keepAlive: true });
    this.#request = secure ? requestHttps : requestHttp;
  }

  /** Throws Error when there is no whole answer in time. */
  async post(body: Uint8Array): Promise<Reply> {
    const { timeoutMs } = this.#options;
    const signal = AbortSignal.timeout(timeoutMs);
    try {
      return await this.#postOnce(body, signal);
    } catch (error) {
      if (signal.aborted) throw new Error(`no answer within ${timeoutMs} ms`, { cause: error });
      // The other side may close a kept connection at the moment it is used again; it then has read nothing.
      if (!(error instanceof StaleConnection)) throw error;
      return await this.#postOnce(body, signal);
    }
  }

  close(): void {
    this.#agent.destroy();
  }

  async #postOnce(body: Uint8Array, signal: AbortSignal): Promise<Reply> {
    const { url, contentType, replyBytesMax } = this.#options;
    const headers = { 'content-type': contentType, 'content-length': body.length, 'user-agent': 'pdfseald' };
    const request = this.#request(url, { method: 'POST', agent: this.#agent, headers, signal });
    const answered = new Promise<IncomingMessage>((resolve, reject) => {
      request.on('response', resolve);
      request.on('error', (error: NodeJS.ErrnoException) => {
        reject(request.reusedSocket && error.code === 'ECONNRESET' ? new StaleConnection() : error);
      });
    });
    request.end(body);
    const response = await answered;
    const { statusCode = 0, headers: received } = response;
    const mediaType = (received['content-type'] ?? '').split(';', 1).join('').trim().toLowerCase();
    return { status: statusCode, mediaType, body: await readBody(response, replyBytesMax) };
  }
}

class StaleConnection extends Error {}

async function readBody(response: IncomingMessage, bytesMax: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    // Leaving the loop destroys the connection.
    if (bytes > bytesMax) throw new Error(`an answer of more than ${bytesMax} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
