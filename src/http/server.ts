import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Logger } from 'pino';
import { OperatorError } from '../base/errors.ts';
import type { App } from './app.ts';
import { answerTransportFailures } from './transport.ts';

export interface ServerOptions {
  host: string;
  /** 0 takes any free port. */
  port: number;
  /** A socket that the service manager listens on already; host and port are then not used. */
  fd?: number;
  /** How long the head of a request may take. */
  headerTimeoutMs: number;
  /** How long a connection may be silent within a request: longer than anything the service itself waits for. */
  silenceMsMax: number;
  logger: Logger;
}

const HEAD_BYTES_MAX = 16 * 1024;
const CONNECTIONS_MAX = 16_384;
/** Longer than the 60 s after which common proxies let go of a connection, so that it is they who close it. */
const KEEP_ALIVE_MS = 65_000;

/** The listening socket, and its end. */
export class HttpServer {
  readonly #server: Server;
  readonly #app: App;

  constructor(server: Server, app: App) {
    this.#server = server;
    this.#app = app;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /**
   * Stops accepting connections, refuses new requests on open ones with `shutting_down`, and lets what is under way
   * finish; after `timeoutMs` the rest is cut. Resolves when no connection is left.
   */
  async drain(timeoutMs: number): Promise<void> {
    this.#app.lifecycle.draining = true;
    const closed = once(this.#server, 'close');
    const timer = setTimeout(() => this.#server.closeAllConnections(), timeoutMs);
    this.#server.close();
    await closed;
    clearTimeout(timer);
  }
}

/** Serves the app over plain HTTP/1.1. Throws OperatorError when the address cannot be listened on. */
export async function listen(app: App, options: ServerOptions): Promise<HttpServer> {
  const server = createServer({
    maxHeaderSize: HEAD_BYTES_MAX,
    headersTimeout: options.headerTimeoutMs,
    // A large upload may take long; that it goes on at all is the intake's to watch.
    requestTimeout: 0,
    // Node would answer without an envelope; the app looks at Host itself.
    requireHostHeader: false,
    keepAliveTimeout: KEEP_ALIVE_MS,
    connectionsCheckingInterval: Math.min(1_000, options.headerTimeoutMs),
  });
  // All headers that fit are seen: a header past a count would vanish silently.
  server.maxHeadersCount = 0;
  server.maxConnections = CONNECTIONS_MAX;
  server.timeout = options.silenceMsMax;
  // Not answered here: the body is asked for once nothing speaks against the request. Other expectations are ignored.
  for (const event of ['request', 'checkContinue', 'checkExpectation']) server.on(event, app.handle);
  answerTransportFailures(server, options.logger);
  await startListening(server, options);
  return new HttpServer(server, app);
}

async function startListening(server: Server, { host, port, fd }: ServerOptions): Promise<void> {
  try {
    server.listen(fd === undefined ? { host, port, backlog: 1024 } : { fd });
    await once(server, 'listening');
  } catch (cause) {
    const reason = cause instanceof Error && 'code' in cause ? cause.code : cause;
    const where = fd === undefined ? `${host} port ${port}` : `the inherited descriptor ${fd}`;
    throw new OperatorError(`cannot listen on ${where} (${reason}); see http.listen`, { cause });
  }
}
