/** Opens an HTTP/1.1 server: the same way for the API, the administration, the console, a witness and the egress process. */
import { once } from 'node:events';
import { createServer, type ServerOptions as NodeOptions, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { Logger } from 'pino';
import type { ListenAddress } from './address.ts';
import { Admission, type Admitted } from './admission.ts';
import type { ConnectionLimits } from './connectionLimits.ts';
import { type InheritedSocket, listenAt } from './listen.ts';
import type { TlsCertificates } from './tls.ts';

export interface WebServerOptions extends Admitted {
  at: ListenAddress | InheritedSocket;
  /** The name of the option that has the address, for errors. */
  key: string;
  /** If present, the server uses TLS. */
  tls?: TlsCertificates | undefined;
  /** Whether other processes of this user may listen at the same port. Default: false. */
  reusePort?: boolean;
  /** Maximum length of a request line with all headers. */
  headBytesMax?: number;
  /** Time limit for the head of a request, and for a TLS handshake, in milliseconds. */
  headMsMax: number;
  /** Time limit for a whole request, in milliseconds. Absent: the receiver of the body watches its progress. */
  requestMsMax?: number;
  /** Time limit for silence on a connection, in milliseconds. Default: none. */
  silenceMsMax?: number;
  /** How long a connection may be idle between requests, in milliseconds. Default: that of Node. */
  keepAliveMs?: number;
  /** How long requests under way may take when the server is closed, in milliseconds. Default: 0. */
  closeMsMax?: number;
  /** Maximum number of connections: a further one is refused. With `limits`, it replaces another. */
  connectionsMax?: number;
  limits?: ConnectionLimits;
  /** Shared by servers whose requests take turns with each other. */
  admission?: Admission;
  logger: Logger;
}

export interface WebServer {
  readonly address: ListenAddress;
  /** Stops listening, and closes what is still open after `msMax`. Resolves when no connection is left; removes a Unix socket. */
  close(msMax?: number): Promise<void>;
}

const HEAD_BYTES_MAX = 16 * 1024;
const CHECK_MS = 1_000;

/** Throws OperatorError if the address is not available, or if other users could replace the socket. */
export async function openServer(options: WebServerOptions): Promise<WebServer> {
  const { at, key, handle, refuse, limits, admission = new Admission() } = options;
  const server = makeServer(options);
  // Accepts all headers that fit: Node would silently drop headers above a maximum number.
  server.maxHeadersCount = 0;
  server.timeout = options.silenceMsMax ?? 0;
  if (options.connectionsMax !== undefined) server.maxConnections = options.connectionsMax;
  admission.admit(server, { handle, refuse, isKnown: limits && ((socket) => limits.isKnown(socket)) });
  limits?.watch(server);
  await listenAt(server, at, key, { reusePort: options.reusePort === true });
  return {
    address: addressOf(server),
    close: (msMax = options.closeMsMax ?? 0) => closeServer(server, msMax),
  };
}

function makeServer(options: WebServerOptions): Server {
  const { tls, headMsMax, requestMsMax = 0, headBytesMax = HEAD_BYTES_MAX, keepAliveMs, logger } = options;
  const http: NodeOptions = {
    maxHeaderSize: headBytesMax,
    headersTimeout: headMsMax,
    requestTimeout: requestMsMax,
    // Node would answer in its own words and without the admission. Handlers that have names check Host; a witness and the egress process
    // have only one.
    requireHostHeader: false,
    connectionsCheckingInterval: Math.min(CHECK_MS, headMsMax),
    keepAliveTimeout: keepAliveMs,
  };
  if (tls === undefined) return createServer(http);
  const server = createTlsServer({ ...http, handshakeTimeout: headMsMax, ...tls.options });
  tls.follow(server);
  server.on('tlsClientError', (err, socket) => {
    logger.debug({ err, remote_address: socket.remoteAddress }, 'the TLS handshake with a client failed');
    socket.destroy();
  });
  return server;
}

function addressOf(server: Server): ListenAddress {
  const address = server.address();
  if (address === null || typeof address === 'string') return { path: address ?? '' };
  return { host: address.address, port: address.port };
}

async function closeServer(server: Server, msMax: number): Promise<void> {
  const closed = once(server, 'close');
  using _timer = setTimeout(() => server.closeAllConnections(), msMax);
  server.close();
  await closed;
}
