import { once } from 'node:events';
import { readFileSync, readlinkSync } from 'node:fs';
import { createServer, type ServerOptions as HttpOptions, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { Logger } from 'pino';
import { OperatorError } from '../base/errors.ts';
import { formatAddress, isLoopback, type ListenAddress } from '../net/address.ts';
import { type InheritedSocket, listenAt } from '../net/listen.ts';
import type { TlsCertificates } from '../net/tls.ts';
import type { App } from './app.ts';
import { answerTransportFailures } from './transport.ts';

export interface ServerOptions {
  /** Where to listen; sockets that the service manager listens on already take the place of all addresses. */
  listen: readonly (ListenAddress | InheritedSocket)[];
  /** TCP speaks TLS with it; Unix sockets never do. */
  tls?: TlsCertificates;
  /** Without TLS, whether other machines may reach it nevertheless. */
  clearTextBeyondLoopback: boolean;
  /** How long the head of a request, and a TLS handshake, may take. */
  headerTimeoutMs: number;
  /** How long a connection may be silent within a request: longer than anything the service itself waits for. */
  silenceMsMax: number;
  logger: Logger;
}

const HEAD_BYTES_MAX = 16 * 1024;
/** Longer than the 60 s after which common proxies let go of a connection, so that it is they who close it. */
const KEEP_ALIVE_MS = 65_000;

/** The listening sockets, and their end. */
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

  /** Of the first TCP address. */
  get port(): number {
    return this.addresses.find((address) => 'port' in address)?.port ?? 0;
  }

  /**
   * Stops accepting connections, refuses new requests on open ones with `shutting_down`, and lets what is under way
   * finish; after `timeoutMs` the rest is cut. Resolves when no connection is left.
   */
  async drain(timeoutMs: number): Promise<void> {
    this.#app.lifecycle.draining = true;
    await Promise.all(this.#servers.map((server) => drain(server, timeoutMs)));
  }
}

async function drain(server: Server, timeoutMs: number): Promise<void> {
  const closed = once(server, 'close');
  const timer = setTimeout(() => server.closeAllConnections(), timeoutMs);
  server.close();
  await closed;
  clearTimeout(timer);
}

/** Serves the app over HTTP/1.1. Throws OperatorError when an address cannot be listened on, or must not be. */
export async function listen(app: App, options: ServerOptions): Promise<HttpServer> {
  const servers: Server[] = [];
  try {
    for (const at of options.listen) {
      const server = serverFor(app, isUnixSocket(at) ? undefined : options.tls, options);
      await listenAt(server, at, 'http.listen');
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
    // A large upload may take long; that it goes on at all is the intake's to watch.
    requestTimeout: 0,
    // Node would answer without an envelope; the app looks at Host itself.
    requireHostHeader: false,
    keepAliveTimeout: KEEP_ALIVE_MS,
    connectionsCheckingInterval: Math.min(1_000, headerTimeoutMs),
  };
  const server = tls ? tlsServer(http, tls, options) : createServer(http);
  // All headers that fit are seen: a header past a count would vanish silently.
  server.maxHeadersCount = 0;
  server.timeout = silenceMsMax;
  // Not answered here: the body is asked for once nothing speaks against the request. Other expectations are ignored.
  for (const event of ['request', 'checkContinue', 'checkExpectation']) server.on(event, app.handle);
  answerTransportFailures(server, app.log);
  app.connections.watch(server);
  return server;
}

function tlsServer(http: HttpOptions, tls: TlsCertificates, options: ServerOptions): Server {
  const server = createTlsServer({ ...http, ...tls.options, handshakeTimeout: options.headerTimeoutMs });
  tls.follow(server);
  server.on('tlsClientError', (err, socket) => {
    options.logger.debug({ err, remote_address: socket.remoteAddress }, 'no TLS with a client');
    socket.destroy();
  });
  return server;
}

function isUnixSocket(at: ListenAddress | InheritedSocket): boolean {
  if (!('fd' in at)) return 'path' in at;
  // proc_pid_net(5): "Num RefCount Protocol Flags Type St Inode Path".
  const [inode] = readlinkSync(`/proc/self/fd/${at.fd}`).match(/\d+/) ?? [];
  const lines = readFileSync('/proc/self/net/unix', 'latin1').split('\n');
  return lines.some((line) => line.split(/ +/)[6] === inode);
}

function addressOf(server: Server): ListenAddress {
  const address = server.address();
  if (address === null || typeof address === 'string') return { path: address ?? '' };
  return { host: address.address, port: address.port };
}

/** What it is bound to, whatever names and inherited sockets promised. */
function refuseClearText(server: Server, { tls, clearTextBeyondLoopback, logger }: ServerOptions): void {
  const address = addressOf(server);
  if ('path' in address || tls || isLoopback(address.host)) return;
  const where = formatAddress(address);
  if (!clearTextBeyondLoopback) {
    throw new OperatorError(
      `http.listen: ${where} is reached from the network, where API keys and documents would pass in clear. Set [http.tls]; ` +
        'or, if something else protects them on the way, http.clear_text_beyond_loopback = true',
    );
  }
  logger.warn(
    { address: where },
    'API keys and documents pass in clear between other machines and this address',
  );
}
