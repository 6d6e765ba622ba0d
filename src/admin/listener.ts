import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { Logger } from 'pino';
import { RequestLog } from '../http/requestLog.ts';
import { answerTransportFailures } from '../http/transport.ts';
import type { ListenAddress } from '../net/address.ts';
import { listenAt } from '../net/listen.ts';

const HEAD_BYTES_MAX = 16 * 1024;
const HEAD_MS_MAX = 5_000;
const REQUEST_MS_MAX = 120_000;
const CONNECTIONS_MAX = 256;

export interface AdminListener {
  /** Stops listening and cuts what is under way; a Unix socket is removed. */
  close(): Promise<void>;
}

/**
 * Serves the administration at its address. Throws OperatorError when that is taken, and for a socket where strangers could
 * put one of theirs.
 */
export async function openAdminListener(
  handle: RequestListener,
  address: ListenAddress,
  logger: Logger,
): Promise<AdminListener> {
  const server = createServer({
    maxHeaderSize: HEAD_BYTES_MAX,
    headersTimeout: HEAD_MS_MAX,
    requestTimeout: REQUEST_MS_MAX,
    requireHostHeader: false,
  });
  server.maxConnections = CONNECTIONS_MAX;
  server.on('request', handle);
  answerTransportFailures(server, new RequestLog(logger));
  await listenAt(server, address, 'admin.listen');
  return {
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
