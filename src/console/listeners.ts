/** The sockets of the console: what a connection may take, and how all of them are closed. */
import { createServer, type RequestListener, type Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Logger } from 'pino';
import { formatAddress, type HostPort, type ListenAddress } from '../net/address.ts';
import { Admission, type Admitted, takingAnyBody } from '../net/admission.ts';
import { ConnectionLimits } from '../net/connectionLimits.ts';
import { closeServer, listenAt } from '../net/listen.ts';
import type { TlsCertificates } from '../net/tls.ts';
import { createTlsServer } from '../net/tlsServer.ts';

const HEAD_MS_MAX = 5_000;
/** Longer than the beat of the streams: whoever takes nothing for so long is gone. */
const SILENCE_MS_MAX = 60_000;
/** Four for each of fifty open consoles, and some more. */
const CONNECTIONS_MAX = 256;
/** Of one machine of a network, or of those behind one address. */
const PER_ADDRESS_MAX = 64;

const HTTP = {
  maxHeaderSize: 16 * 1024,
  headersTimeout: HEAD_MS_MAX,
  requestTimeout: 30_000,
  // The checks of each request want the right one.
  requireHostHeader: false,
  connectionsCheckingInterval: 1_000,
};

interface Listener {
  close(): Promise<void>;
}

/** Of a Unix socket or of loopback. Throws OperatorError if the address is taken, or if other users could replace the socket. */
export async function openPlain(
  handle: RequestListener,
  listen: ListenAddress,
  logger: Logger,
): Promise<Listener> {
  const server = createServer(HTTP);
  server.maxConnections = CONNECTIONS_MAX;
  return open(server, handle, { listen, key: 'console.listen', logger });
}

/** The connections of all who reach the port. One that has shown no session makes room for others. */
export function networkLimits(): ConnectionLimits {
  return new ConnectionLimits({ max: CONNECTIONS_MAX, perAddressMax: PER_ADDRESS_MAX });
}

/** Throws OperatorError if the address is taken. */
export async function openOverTls(
  handle: RequestListener,
  {
    listen,
    certificates,
    limits,
  }: { listen: HostPort; certificates: TlsCertificates; limits: ConnectionLimits },
  logger: Logger,
): Promise<Listener> {
  const server = createTlsServer({ ...HTTP, handshakeTimeout: HEAD_MS_MAX }, certificates, logger);
  limits.watch(server);
  const isKnown = (socket: Socket) => limits.isKnown(socket);
  return open(server, handle, { listen, key: 'console.tls.listen', logger, isKnown });
}

interface Opening extends Pick<Admitted, 'isKnown'> {
  listen: ListenAddress;
  key: string;
  logger: Logger;
}

async function open(
  server: Server,
  handle: RequestListener,
  { listen, key, logger, isKnown }: Opening,
): Promise<Listener> {
  server.timeout = SILENCE_MS_MAX;
  new Admission().admit(server, { handle: takingAnyBody(handle), ...(isKnown && { isKnown }) });
  await listenAt(server, listen, key);
  logger.info({ address: formatAddress(listen) }, 'the console is open');
  return { close: () => closeServer(server, 0) };
}
