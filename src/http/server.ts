import type { Logger } from 'pino';
import { OperatorError } from '../base/errors.ts';
import { openDatagramAddon } from '../base/journal.ts';
import { formatAddress, isLoopback, type ListenAddress } from '../web/address.ts';
import type { InheritedSocket } from '../web/listen.ts';
import { openServer, type WebServer } from '../web/server.ts';
import type { TlsCertificates } from '../web/tls.ts';
import type { App } from './app.ts';
import { refusingWith } from './transport.ts';

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

/** Longer than 60 s, after which common proxies drop an idle connection: so the proxy closes it, and not this server. */
const KEEP_ALIVE_MS = 65_000;

/** The listening sockets, and the way to stop them. */
export interface HttpServer {
  readonly addresses: readonly ListenAddress[];
  /** The port of the first TCP address. */
  readonly port: number;
  /**
   * Stops accepting connections, refuses new requests on open connections with `shutting_down`, and lets requests in progress finish. Cuts
   * the remaining connections after `timeoutMs`. Resolves when no connection is left.
   */
  drain(timeoutMs: number): Promise<void>;
}

/** Serves the app over HTTP/1.1. Throws OperatorError if an address is not available or not allowed. */
export async function listen(app: App, options: ServerOptions): Promise<HttpServer> {
  const { tls, reusePort = false, headerTimeoutMs, silenceMsMax, logger } = options;
  const { handle, admission, connections, log } = app;
  await using opened = new AsyncDisposableStack();
  const servers: WebServer[] = [];
  for (const at of options.listen) {
    const server = await openServer({
      ...{ at, key: 'http.listen', tls: isUnixSocket(at) ? undefined : tls, reusePort, logger },
      ...{ handle, refuse: refusingWith(log), admission, limits: connections },
      headMsMax: headerTimeoutMs,
      silenceMsMax,
      keepAliveMs: KEEP_ALIVE_MS,
    });
    servers.push(opened.adopt(server, (one) => one.close()));
    refuseClearText(server.address, options);
  }
  opened.move();
  const addresses = servers.map(({ address }) => address);
  return {
    addresses,
    port: addresses.find((address) => 'port' in address)?.port ?? 0,
    drain: async (timeoutMs) => {
      app.lifecycle.draining = true;
      await Promise.all(servers.map((server) => server.close(timeoutMs)));
    },
  };
}

function isUnixSocket(at: ListenAddress | InheritedSocket): boolean {
  // The socket may belong to another network namespace, whose sockets /proc does not list.
  return 'fd' in at ? openDatagramAddon().peer(at.fd) !== undefined : 'path' in at;
}

/** Checks the actual bound address, whatever names and inherited sockets suggest. */
function refuseClearText(
  address: ListenAddress,
  { tls, clearTextBeyondLoopback, logger }: ServerOptions,
): void {
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
