/** The sockets of the console: their connection limits, and how they are closed. */
import { createServer, type RequestListener, type Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Logger } from 'pino';
import { formatAddress, type HostPort, type ListenAddress } from '../web/address.ts';
import { Admission, takingAnyBody } from '../web/admission.ts';
import { ConnectionLimits } from '../web/connectionLimits.ts';
import { closeServer, listenAt } from '../web/listen.ts';
import type { TlsCertificates } from '../web/tls.ts';
import { createTlsServer } from '../web/tlsServer.ts';

const HEAD_MS_MAX = 5_000;
/** Longer than the interval between events of a stream: a client that reads nothing for so long is gone. */
const SILENCE_MS_MAX = 60_000;
/** Four for each of fifty open consoles, and some more. */
const CONNECTIONS_MAX = 256;
/** Connections from one network address. */
const PER_ADDRESS_MAX = 64;

const HTTP = {
  maxHeaderSize: 16 * 1024,
  headersTimeout: HEAD_MS_MAX,
  requestTimeout: 30_000,
  // The checks of each request verify the Host instead.
  requireHostHeader: false,
  connectionsCheckingInterval: 1_000,
};

interface Listener {
  close(): Promise<void>;
}

/** The connections of all clients of one listener. A new connection replaces the oldest that has not shown a session. */
export function consoleLimits(): ConnectionLimits {
  return new ConnectionLimits({
    max: CONNECTIONS_MAX,
    perAddressMax: PER_ADDRESS_MAX,
    // Until a session is shown, the console waits only for the rest of a form.
    sparesRequests: false,
  });
}

interface Opening {
  limits: ConnectionLimits;
  logger: Logger;
}

/** Listens on a Unix socket or on loopback. Throws OperatorError if the address is in use, or if other users could replace the socket. */
export async function openPlain(
  handle: RequestListener,
  { listen, ...opening }: Opening & { listen: ListenAddress },
): Promise<Listener> {
  return open(createServer(HTTP), handle, { listen, key: 'console.listen', ...opening });
}

/** Throws OperatorError if the address is in use. */
export async function openOverTls(
  handle: RequestListener,
  { listen, certificates, ...opening }: Opening & { listen: HostPort; certificates: TlsCertificates },
): Promise<Listener> {
  const server = createTlsServer({ ...HTTP, handshakeTimeout: HEAD_MS_MAX }, certificates, opening.logger);
  return open(server, handle, { listen, key: 'console.tls.listen', ...opening });
}

async function open(
  server: Server,
  handle: RequestListener,
  { listen, key, limits, logger }: Opening & { listen: ListenAddress; key: string },
): Promise<Listener> {
  server.timeout = SILENCE_MS_MAX;
  limits.watch(server);
  const isKnown = (socket: Socket) => limits.isKnown(socket);
  new Admission().admit(server, { handle: takingAnyBody(handle), isKnown });
  await listenAt(server, listen, key);
  logger.info({ address: formatAddress(listen) }, 'the console is open');
  return { close: () => closeServer(server, 0) };
}
