import { once } from 'node:events';
import { lstatSync, rmSync, statSync } from 'node:fs';
import { createServer, type RequestListener, type Server } from 'node:http';
import { connect } from 'node:net';
import { dirname } from 'node:path';
import type { Logger } from 'pino';
import { OperatorError } from '../base/errors.ts';
import { systemReason } from '../base/systemReason.ts';
import type { AdminAddress } from '../config.ts';
import { answerTransportFailures } from '../http/transport.ts';

const HEAD_BYTES_MAX = 16 * 1024;
const HEAD_MS_MAX = 5_000;
const REQUEST_MS_MAX = 120_000;
const CONNECTIONS_MAX = 256;
/** sun_path of unix(7), without its final NUL. */
const SOCKET_PATH_BYTES_MAX = 107;
/** The socket is for its owner and its group. */
const UMASK = 0o117;

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
  address: AdminAddress,
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
  answerTransportFailures(server, logger);
  if ('path' in address) await listenOnSocket(server, address.path);
  else await startListening(server, address, `${address.host} port ${address.port}`);
  return {
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

async function listenOnSocket(server: Server, path: string): Promise<void> {
  if (Buffer.byteLength(path) > SOCKET_PATH_BYTES_MAX) {
    throw mistake(
      `${path} is longer than the ${SOCKET_PATH_BYTES_MAX} bytes a socket may have; name a shorter one`,
    );
  }
  checkFolder(dirname(path));
  await removeStale(path);
  await startListening(server, { path }, path);
}

function checkFolder(folder: string): void {
  let mode: number;
  try {
    mode = statSync(folder).mode;
  } catch (cause) {
    throw mistake(
      `cannot use ${folder} (${systemReason(cause)}); make it, owned by the daemon’s user`,
      cause,
    );
  }
  if ((mode & 0o002) !== 0) {
    throw mistake(
      `anybody may write to ${folder}, and so put a socket of theirs there; chmod o-w, or name another`,
    );
  }
}

/** A socket outlives a process that was killed; one that answers belongs to somebody. */
async function removeStale(path: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (!found.isSocket()) throw mistake(`${path} is there and is no socket; remove it, or name another`);
  if (await isAnswered(path)) throw mistake(`somebody answers at ${path}; each daemon needs its own`);
  rmSync(path);
}

function isAnswered(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket
      .once('connect', () => resolve(true))
      .once('error', (error: NodeJS.ErrnoException) => {
        // Only a refusal says that nobody is there.
        resolve(error.code !== 'ECONNREFUSED');
      });
    socket.once('connect', () => socket.destroy());
  });
}

async function startListening(server: Server, at: AdminAddress, shown: string): Promise<void> {
  const listening = once(server, 'listening');
  // A socket is made within the call, so that there is no moment in which others could open it.
  const umask = process.umask(UMASK);
  server.listen(at);
  process.umask(umask);
  try {
    await listening;
  } catch (cause) {
    throw mistake(`cannot listen on ${shown} (${systemReason(cause)})`, cause);
  }
}

function mistake(message: string, cause?: unknown): OperatorError {
  return new OperatorError(`admin.listen: ${message}`, { cause });
}
