import { createServer, type ServerOptions as HttpOptions, type Server } from 'node:http';
import type { Logger } from 'pino';
import { OperatorError } from '../base/errors.ts';
import { openDatagramAddon } from '../base/journal.ts';
import { formatAddress, isLoopback, type ListenAddress } from '../web/address.ts';
import { closeServer, type InheritedSocket, listenAt } from '../web/listen.ts';
import type { TlsCertificates } from '../web/tls.ts';
import { createTlsServer } from '../web/tlsServer.ts';
import type { App } from './app.ts';
import { answerRequests } from './transport.ts';

export interface ServerOptions {
  /** The addresses to listen on. Listening sockets from the service manager replace all of them. */
  listen: readonly (ListenAddress | InheritedSocket)[];
  /** If present, TCP addresses use TLS; Unix sockets never do. */
  tls?: TlsCertificates;
  /** Whether other machines may connect without TLS. */
  clearTextBeyondLoopback: boolean;
  /** Whether other processes of this user may listen at the same port. Default: false. */
  reusePort?: boolean;
  /** Time limit for the head of a request, and for a TLS handshake, in milliseconds. */
  headerTimeoutMs: number;
  /** Time limit for silence within a request, in milliseconds. It must be longer than any wait of the service itself. */
  silenceMsMax: number;
  logger: Logger;
}

const HEAD_BYTES_MAX = 16 * 1024;
/** Longer than 60 s, after which common proxies drop an idle connection: so the proxy closes it, and not this server. */
const KEEP_ALIVE_MS = 65_000;

/** The listening sockets, and the way to stop them. */
export class HttpServer {
  readonly #servers: Server[];
  readonly #app: App;

  constructor(servers: Server[], app: App) {
    this.#servers = servers;
    this.#app = app;
  }

  get addresses(): ListenAddress[] {
    return this.#servers.map(addressOf);
  }

  /** The port of the first TCP address. */
  get port(): number {
    return this.addresses.find((address) => 'port' in address)?.port ?? 0;
  }

  /**
   * Stops accepting connections, refuses new requests on open connections with `shutting_down`, and lets requests in progress finish. Cuts
   * the remaining connections after `timeoutMs`. Resolves when no connection is left.
   */
  async drain(timeoutMs: number): Promise<void> {
    this.#app.lifecycle.draining = true;
    await Promise.all(this.#servers.map((server) => closeServer(server, timeoutMs)));
  }
}

/** Serves the app over HTTP/1.1. Throws OperatorError if an address is not available or not allowed. */
export async function listen(app: App, options: ServerOptions): Promise<HttpServer> {
  const servers: Server[] = [];
  try {
    for (const at of options.listen) {
      const server = serverFor(app, isUnixSocket(at) ? undefined : options.tls, options);
      await listenAt(server, at, 'http.listen', { reusePort: options.reusePort === true });
      servers.push(server);
      refuseClearText(server, options);
    }
  } catch (error) {
    for (const server of servers) server.close();
    throw error;
  }
  return new HttpServer(servers, app);
}

function serverFor(app: App, tls: TlsCertificates | undefined, options: ServerOptions): Server {
  const { headerTimeoutMs, silenceMsMax } = options;
  const http: HttpOptions = {
    maxHeaderSize: HEAD_BYTES_MAX,
    headersTimeout: headerTimeoutMs,
    // A large upload can take long; the receiver of the body watches its progress.
    requestTimeout: 0,
    // Node would answer without an envelope, so the app checks Host itself.
    requireHostHeader: false,
    keepAliveTimeout: KEEP_ALIVE_MS,
    connectionsCheckingInterval: Math.min(1_000, headerTimeoutMs),
  };
  const server = tls
    ? createTlsServer({ ...http, handshakeTimeout: headerTimeoutMs }, tls, options.logger)
    : createServer(http);
  // Accepts all headers that fit: Node would silently drop headers above a maximum number.
  server.maxHeadersCount = 0;
  server.timeout = silenceMsMax;
  // The app requests the body after all checks of the head.
  const { handle, admission, connections, log } = app;
  answerRequests(server, { handle, admission, isKnown: (socket) => connections.isKnown(socket), log });
  connections.watch(server);
  return server;
}

function isUnixSocket(at: ListenAddress | InheritedSocket): boolean {
  // The socket may belong to another network namespace, whose sockets /proc does not list.
  return 'fd' in at ? openDatagramAddon().peer(at.fd) !== undefined : 'path' in at;
}

function addressOf(server: Server): ListenAddress {
  const address = server.address();
  if (address === null || typeof address === 'string') return { path: address ?? '' };
  return { host: address.address, port: address.port };
}

/** Checks the actual bound address, whatever names and inherited sockets suggest. */
function refuseClearText(server: Server, { tls, clearTextBeyondLoopback, logger }: ServerOptions): void {
  const address = addressOf(server);
  if ('path' in address || tls || isLoopback(address.host)) return;
  const where = formatAddress(address);
  if (!clearTextBeyondLoopback) {
    throw new OperatorError(
      `http.listen: ${where} is reachable from the network, which would carry API keys and documents in clear text. Set [http.tls]; ` +
        'or, if another means protects the connection, http.clear_text_beyond_loopback = true',
    );
  }
  logger.warn(
    { address: where },
    'API keys and documents travel in clear text between other machines and this address',
  );
}
