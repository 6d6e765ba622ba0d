import { once } from 'node:events';
import { lstatSync, rmSync, statSync } from 'node:fs';
import { connect, createServer, type ListenOptions, type Server } from 'node:net';
import { dirname } from 'node:path';
import { OperatorError } from '../base/errors.ts';
import { codeOf, systemReason } from '../base/systemReason.ts';
import { formatAddress, type HostPort, type ListenAddress } from './address.ts';

/** A listening socket that the daemon inherits, for example from the service manager. */
export interface InheritedSocket {
  readonly fd: number;
}

/** sun_path of unix(7), without its final NUL. */
const SOCKET_PATH_BYTES_MAX = 107;
/** Only the socket's owner and group can connect. */
const UMASK = 0o117;
const BACKLOG = 1024;

/**
 * Makes the server listen. Only its owner and group can connect to a Unix socket; the socket replaces a stale one, and is removed with the
 * server. Throws OperatorError if the address is taken, or if all users can write to the folder of the socket. `key` is the config key that
 * names the address. With `reusePort`, other processes of this user may listen at the same port.
 */
export async function listenAt(
  server: Server,
  at: ListenAddress | InheritedSocket,
  key: string,
  { reusePort = false }: { reusePort?: boolean } = {},
): Promise<void> {
  try {
    if ('path' in at) await prepareSocket(at.path);
    await startListening(server, 'port' in at ? { ...at, reusePort } : at);
  } catch (cause) {
    const where = 'fd' in at ? `the inherited descriptor ${at.fd}` : formatAddress(at);
    const remedy = 'port' in at ? REMEDIES[codeOf(cause)]?.(at) : undefined;
    const hint = remedy === undefined ? '' : `; ${remedy}`;
    throw new OperatorError(`${key}: cannot listen on ${where} (${systemReason(cause)})${hint}`, { cause });
  }
}

/** Throws OperatorError, as {@link listenAt}, if no server could listen there now. */
export async function assertFree(at: HostPort, key: string): Promise<void> {
  const server = createServer();
  await listenAt(server, at, key).finally(() => server.close());
}

const REMEDIES: Readonly<Record<string, (at: HostPort) => string>> = {
  EAFNOSUPPORT: () =>
    'the unit of this process has no network, from /usr/lib/pdfseald/harden: run that command again, which opens the network if the ' +
    'configuration needs it, or choose a Unix socket',
  EADDRINUSE: ({ port }) =>
    `another program has that port (\`ss -ltnp sport = :${port}\` names it): stop that, or choose another`,
  EADDRNOTAVAIL: () => 'this machine has no such address: `ip address` lists those it has',
  EACCES: () =>
    'only root can listen on ports below 1024: choose a higher one, or let systemd listen (pdfseald@.socket)',
};

async function prepareSocket(path: string): Promise<void> {
  if (Buffer.byteLength(path) > SOCKET_PATH_BYTES_MAX) {
    throw new Error(`the path has more than ${SOCKET_PATH_BYTES_MAX} bytes; name a shorter one`);
  }
  const folder = dirname(path);
  const mode = statSync(folder, { throwIfNoEntry: false })?.mode;
  if (mode === undefined)
    throw new Error(`there is no folder ${folder}; create it, owned by the daemon's user`);
  if ((mode & 0o002) !== 0) {
    throw new Error(
      `anybody can write to ${folder} and replace the socket; run chmod o-w, or choose another folder`,
    );
  }
  await removeStale(path);
}

/** Removes the socket of a killed process. A socket that answers belongs to another process. */
async function removeStale(path: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (!found.isSocket())
    throw new Error('the file exists and is not a socket; remove it, or choose another path');
  if (await isAnswered(path))
    throw new Error('another process answers there; each daemon needs its own socket');
  rmSync(path);
}

function isAnswered(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path, () => {
      resolve(true);
      socket.destroy();
    });
    // Only a refused connection proves that no process listens.
    socket.once('error', (error) => resolve(codeOf(error) !== 'ECONNREFUSED'));
  });
}

async function startListening(server: Server, at: ListenOptions | InheritedSocket): Promise<void> {
  const listening = once(server, 'listening');
  // The call creates the socket with this umask, so others can never open it.
  const umask = process.umask(UMASK);
  server.listen({ ...at, backlog: BACKLOG });
  process.umask(umask);
  await listening;
}
