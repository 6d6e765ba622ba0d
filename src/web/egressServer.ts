import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Logger } from 'pino';
import { takingAnyBody } from './admission.ts';
import {
  ANSWER_HEADER,
  type EgressAbout,
  type EgressRequest,
  encodeFailure,
  encodeHeadOf,
  parseEgressRequest,
} from './egressClient.ts';
import type { HttpExchange, HttpRequest } from './httpClient.ts';
import { NoAnswer, toNoAnswer } from './noAnswer.ts';
import { readBody } from './response.ts';
import { openServer, type WebServer, type WebServerOptions } from './server.ts';

/** The requests that the daemon may send for one purpose. */
export interface Destination {
  /** Its policy decides which addresses it connects to, also after each redirect. */
  client: HttpExchange;
  /** The only permitted URLs; absent: the policy of the client decides. */
  urls?: ReadonlySet<string>;
  methods: readonly HttpRequest['method'][];
  /** The permitted header names, in lower case. Never `host`: it would choose another server behind the address. */
  headers: readonly string[];
  /** Maximum number of redirects to follow. 0: a redirect is an answer like any other. */
  redirectsMax: number;
  /** Maximum number of requests under way: the purposes share no connections. */
  requestsMax: number;
}

export type Destinations = ReadonlyMap<string, Destination>;

export interface EgressServerOptions {
  listen: WebServerOptions['at'];
  /** Destinations by purpose. */
  destinations: Destinations;
  /** This process, as `GET /` describes it to the daemon. */
  about: EgressAbout;
  logger: Logger;
}

/** Maximum length of a request body: an event with a receipt, a query, a checkpoint with its proof. */
const BODY_BYTES_MAX = 1024 * 1024;
/** Maximum length of a request head: a URL and the headers of a request, encoded. */
const HEAD_BYTES_MAX = 64 * 1024;
/** Time limit for the daemon to send the head, and for all of a request. */
const HEAD_MS_MAX = 5_000;
const REQUEST_MS_MAX = 15_000;
const CLOSE_MS_MAX = 2_000;
/** Maximum silence of a connection: longer than a server can take to answer and a document can pause. */
const SILENCE_MS_MAX = 900_000;
/** Connections in addition to the requests of all purposes: those that are just opened or closed. */
const SPARE_CONNECTIONS = 64;
const REFUSAL_LOG_MS = 1_000;

/** The daemon asked for something that the configuration does not permit, or that no daemon asks. */
class NotPermitted extends NoAnswer {
  constructor(message: string) {
    super('not_allowed', message);
  }
}

/**
 * Sends requests for the daemon, as far as the destinations permit. The daemon is not trusted: it cannot reach an address that the
 * configuration does not allow, set a header beyond those of the purpose, or use more than the share of each purpose. Throws OperatorError
 * if the address is not available.
 */
export function openEgressServer(options: EgressServerOptions): Promise<WebServer> {
  const shares = [...options.destinations.values()].map(({ requestsMax }) => requestsMax);
  const relay = new Relay(options);
  return openServer({
    at: options.listen,
    key: '--listen',
    headBytesMax: HEAD_BYTES_MAX,
    headMsMax: HEAD_MS_MAX,
    requestMsMax: REQUEST_MS_MAX,
    closeMsMax: CLOSE_MS_MAX,
    silenceMsMax: SILENCE_MS_MAX,
    connectionsMax: shares.reduce((sum, share) => sum + share, SPARE_CONNECTIONS),
    handle: takingAnyBody((req, res) => void relay.answer(req, res)),
    logger: options.logger,
  });
}

class Relay {
  readonly #options: EgressServerOptions;
  readonly #underWay = new Map<string, number>();
  #loggedAt = Number.NEGATIVE_INFINITY;

  constructor(options: EgressServerOptions) {
    this.#options = options;
  }

  /** Never rejects. */
  async answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    if (req.url === '/') {
      res.end(JSON.stringify(this.#options.about));
      return;
    }
    const purpose = req.url?.slice(1) ?? '';
    const underWay = this.#underWay.get(purpose) ?? 0;
    this.#underWay.set(purpose, underWay + 1);
    try {
      const destination = this.#options.destinations.get(purpose);
      if (destination === undefined) throw new NotPermitted('nothing is configured for this purpose');
      if (underWay >= destination.requestsMax)
        throw new NoAnswer('unreachable', `${underWay} requests of this purpose are under way already`);
      await relayTo(destination, req, res);
    } catch (error) {
      this.#fail(purpose, error, res);
    } finally {
      const left = (this.#underWay.get(purpose) ?? 1) - 1;
      if (left > 0) this.#underWay.set(purpose, left);
      else this.#underWay.delete(purpose);
    }
  }

  /** Sends the failure. If the head of an answer was already sent, the answer is cut off, as its server did. */
  #fail(purpose: string, error: unknown, res: ServerResponse): void {
    const failure = toNoAnswer(error);
    if (error instanceof NotPermitted && performance.now() - this.#loggedAt > REFUSAL_LOG_MS) {
      this.#loggedAt = performance.now();
      const fields = { event: 'egress_refused', purpose: purpose.slice(0, 100), reason: failure.message };
      this.#options.logger.warn(fields, 'the daemon asked for what the configuration does not permit');
    }
    if (res.headersSent) res.destroy();
    // The unread rest of the request cannot be distinguished from a next request.
    else res.writeHead(200, { [ANSWER_HEADER]: encodeFailure(failure), Connection: 'close' }).end();
  }
}

/** Throws NoAnswer, or the error of either connection. */
async function relayTo(destination: Destination, req: IncomingMessage, res: ServerResponse): Promise<void> {
  const asked = parseEgressRequest(req);
  if (asked === undefined || req.method !== 'POST') throw new NotPermitted('the request is not valid');
  const { url: href, timed, redirectsMax = 0, ...rest } = asked;
  const url = new URL(href);
  permit(destination, asked, url);
  // The daemon may leave: no other process waits for the answer.
  const gone = new AbortController();
  res.once('close', () => gone.abort(new NoAnswer('closed', 'the daemon no longer waits')));
  const body = await readBody(req, BODY_BYTES_MAX).catch((cause: unknown) => {
    throw cause instanceof NoAnswer ? new NotPermitted(`a body of more than ${BODY_BYTES_MAX} bytes`) : cause;
  });
  if (rest.method !== 'POST' && body.length > 0) throw new NotPermitted(`a body for ${rest.method}`);
  const request = {
    ...{ ...rest, url, timed, signal: gone.signal },
    ...(rest.method === 'POST' && { body }),
    ...(redirectsMax > 0 && { redirectsMax }),
  };
  await destination.client.exchange(request, async (answer) => {
    res.writeHead(200, { [ANSWER_HEADER]: encodeHeadOf(answer) });
    res.flushHeaders();
    for await (const chunk of answer as AsyncIterable<Buffer>)
      if (!res.write(chunk)) await once(res, 'drain', { signal: gone.signal });
    res.end();
  });
}

/** Checks a request against its destination. Throws NotPermitted. */
function permit(
  { urls, methods, headers, redirectsMax }: Destination,
  asked: EgressRequest,
  { href }: URL,
): void {
  if (!methods.includes(asked.method)) throw new NotPermitted(`${asked.method} is not for this purpose`);
  if (urls?.has(href) === false)
    throw new NotPermitted('the URL is none that is configured for this purpose');
  const other = Object.keys(asked.headers).find((name) => !headers.includes(name.toLowerCase()));
  if (other !== undefined) throw new NotPermitted(`the header ${other} is not for this purpose`);
  if ((asked.redirectsMax ?? 0) > redirectsMax) throw new NotPermitted('redirects are not for this purpose');
}
