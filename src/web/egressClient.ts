/**
 * The daemon's end of the egress process, and the protocol of both ends. The protocol is HTTP/1.1 over a Unix socket, one connection for
 * each request: `POST /<purpose>` with the request to send in {@link REQUEST_HEADER} and its body as the body. The answer has in
 * {@link ANSWER_HEADER} either the head of the server's answer, whose body is then streamed, or the reason why there is none.
 */
import type { IncomingMessage } from 'node:http';
import * as z from 'zod';
import { HttpClient, type HttpExchange, type HttpRequest } from './httpClient.ts';
import { NO_ANSWER_REASONS, NoAnswer } from './noAnswer.ts';
import { readBody } from './response.ts';

export const REQUEST_HEADER = 'pdfseal-request';
export const ANSWER_HEADER = 'pdfseal-answer';

/** Longer than any that the configuration allows. */
const TIMEOUT_MS_MAX = 600_000;
const URL_CHARS_MAX = 16_384;
const HEADER_CHARS_MAX = 4096;
const MESSAGE_CHARS_MAX = 1000;
const REDIRECTS_MAX = 5;
/** The egress process gives up this much later than the daemon, so that the daemon reports the reason. */
const SLACK_MS = 1000;

const requestSchema = z.strictObject({
  method: z.enum(['GET', 'HEAD', 'POST']),
  url: z
    .string()
    .max(URL_CHARS_MAX)
    .refine((text) => URL.canParse(text)),
  headers: z.record(z.string(), z.string().max(HEADER_CHARS_MAX)),
  timeoutMs: z.number().min(0).max(TIMEOUT_MS_MAX),
  timed: z.enum(['head', 'answer']),
  redirectsMax: z.int().min(1).max(REDIRECTS_MAX).optional(),
});

/** A request as the daemon asks the egress process to send it. */
export type EgressRequest = z.infer<typeof requestSchema>;

const answerSchema = z.union([
  z.strictObject({
    statusCode: z.int().min(0).max(999),
    headers: z.record(z.string(), z.union([z.string(), z.array(z.string())])),
    headersDistinct: z.record(z.string(), z.array(z.string())),
  }),
  z.strictObject({ reason: z.enum(NO_ANSWER_REASONS), message: z.string().max(MESSAGE_CHARS_MAX) }),
]);

const aboutSchema = z.strictObject({ version: z.string().max(100), configSha256: z.string().max(64) });

/** The version of an egress process, and the SHA-256 of its configuration file in hexadecimal. */
export type EgressAbout = z.infer<typeof aboutSchema>;

type EgressAnswer = z.infer<typeof answerSchema>;

/** State of the egress process, for status and metrics. */
export interface EgressStatus {
  mode: 'unit' | 'child';
  /** Whether it answered the newest request or question; undefined before the first. */
  isAnswering?: boolean;
  /** The fault, if it is not answering. */
  trouble?: string;
  /** Number of times that the daemon started the child again. */
  restarts: number;
}

/** Encodes a header: Base64 of JSON, which is ASCII whatever a server has sent. */
function encode(value: EgressRequest | EgressAnswer): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}

/** Undefined for text that does not fit the schema or is not JSON. */
function decode<T>(schema: z.ZodType<T>, text: string | string[] | undefined): T | undefined {
  try {
    return schema.parse(JSON.parse(Buffer.from(String(text), 'base64url').toString()));
  } catch {
    return undefined;
  }
}

/** Undefined for a request that the daemon never makes. */
export function parseEgressRequest({ headers }: IncomingMessage): EgressRequest | undefined {
  return decode(requestSchema, headers[REQUEST_HEADER]);
}

export function encodeHeadOf({ statusCode = 0, headers, headersDistinct }: IncomingMessage): string {
  return encode({ statusCode, headers, headersDistinct } as EgressAnswer);
}

export function encodeFailure({ reason, message }: NoAnswer): string {
  return encode({ reason, message: message.slice(0, MESSAGE_CHARS_MAX) });
}

const ABOUT_BYTES_MAX = 1000;

/** Asks the egress process about itself. Throws NoAnswer. */
export async function askAboutEgress(
  socketPath: () => Promise<string>,
  timeoutMs: number,
): Promise<EgressAbout> {
  const request = { method: 'GET', url: new URL('http://egress/'), timeoutMs } as const;
  const body = await new HttpClient({ socketPath }).exchange(request, (answer) =>
    readBody(answer, ABOUT_BYTES_MAX),
  );
  const about = decode(aboutSchema, body.toString('base64url'));
  if (about === undefined) throw new NoAnswer('invalid_answer', 'the egress process answers something else');
  return about;
}

/** The egress process does not answer, or did not for a while: this says nothing about the server that should have been asked. */
export class EgressAway extends NoAnswer {
  constructor(cause: NoAnswer) {
    super('unreachable', `the egress process does not answer: ${cause.message}`, { cause });
    this.name = 'EgressAway';
  }
}

/** The state of the egress process, as its clients see it. */
export interface EgressProcess {
  /** Resolves once it listens. */
  socketPath(): Promise<string>;
  /** Receives, for each request, the fault of the egress process; no argument if it answered. */
  noticed(trouble?: NoAnswer): void;
  /**
   * The reason why it did not answer the daemon at some time after `since` (`performance.now()`); undefined if it always did. `isDoubtful`:
   * also asks it now.
   */
  troubleSince(since: number, isDoubtful: boolean): Promise<NoAnswer | undefined>;
}

/** Sends requests of one purpose through the egress process. Without that process, a request fails as if its server were unreachable. */
export class EgressClient implements HttpExchange {
  readonly #purpose: string;
  readonly #egress: EgressProcess;
  readonly #client: HttpClient;

  constructor(purpose: string, egress: EgressProcess) {
    this.#purpose = purpose;
    this.#egress = egress;
    this.#client = new HttpClient({ socketPath: () => egress.socketPath() });
  }

  /** As {@link HttpClient.exchange}; this end measures the time-out too. */
  async exchange<T>(request: HttpRequest, read: (answer: IncomingMessage) => Promise<T>): Promise<T> {
    const { url, method, headers = {}, body = new Uint8Array(), signal, ...bounds } = request;
    const { timeoutMs, timed = 'answer', redirectsMax } = bounds;
    const asked = {
      ...{ method, url: url.href, headers, timeoutMs: timeoutMs + SLACK_MS, timed },
      redirectsMax,
    };
    const toEgress = {
      method: 'POST',
      url: new URL(`http://egress/${this.#purpose}`),
      headers: { [REQUEST_HEADER]: encode(asked) },
      ...{ body, timeoutMs, timed },
      signal,
    } as const;
    let isAnswered = false;
    let isThere = false;
    const startedAt = performance.now();
    this.#egress.socketPath().then(
      () => {
        isThere = true;
      },
      () => {},
    );
    try {
      return await this.#client.exchange(toEgress, (answer) => {
        isAnswered = true;
        this.#egress.noticed();
        return read(unpack(answer));
      });
    } catch (error) {
      if (!(error instanceof NoAnswer) || error.reason === 'closed') throw error;
      const isLate = error.reason === 'timeout';
      const isOfEgress = !isAnswered && !(isLate && isThere);
      // A hanging process looks like a hanging server: only a question to the process itself distinguishes them.
      const cause = isOfEgress ? error : await this.#egress.troubleSince(startedAt, isLate);
      if (cause === undefined) throw error;
      const trouble = new EgressAway(cause);
      this.#egress.noticed(trouble);
      throw trouble;
    }
  }

  close(): void {
    this.#client.close();
  }
}

/** Extracts the server's answer from that of the egress process. Throws NoAnswer. */
function unpack(answer: IncomingMessage): IncomingMessage {
  const packed = decode(answerSchema, answer.headers[ANSWER_HEADER]);
  if (packed === undefined) throw new NoAnswer('unreachable', 'the egress process answers something else');
  if ('reason' in packed) throw new NoAnswer(packed.reason, packed.message);
  return Object.assign(answer, packed);
}
