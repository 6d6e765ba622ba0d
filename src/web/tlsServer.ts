import type { Server, ServerOptions } from 'node:http';
import { createServer } from 'node:https';
import type { Logger } from 'pino';
import type { TlsCertificates } from './tls.ts';

/** Creates a server whose certificates follow their files. A connection may take `handshakeTimeout` milliseconds to begin. */
export function createTlsServer(
  options: ServerOptions & { handshakeTimeout: number },
  tls: TlsCertificates,
  logger: Logger,
): Server {
  const server = createServer({ ...options, ...tls.options });
  tls.follow(server);
  server.on('tlsClientError', (err, socket) => {
    logger.debug({ err, remote_address: socket.remoteAddress }, 'the TLS handshake with a client failed');
    socket.destroy();
  });
  return server;
}
