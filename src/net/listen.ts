import { once } from 'node:events';
import { lstatSync, rmSync, statSync } from 'node:fs';
import { connect, type Server } from 'node:net';
import { dirname } from 'node:path';
import { OperatorError } from '../base/errors.ts';
import { systemReason } from '../base/systemReason.ts';
import { formatAddress, type HostPort, type ListenAddress } from './address.ts';

/** A socket that somebody listens on already, such as the service manager. */
export interface InheritedSocket {
  readonly fd: number;
}

/** sun_path of unix(7), without its final NUL. */
const SOCKET_PATH_BYTES_MAX = 107;
/** The socket is for its owner and its group. */
const UMASK = 0o117;
const BACKLOG = 1024;

/**
 * Has the server listen. A Unix socket is for its owner and group, replaces one that nobody answers at, and goes with the
 * server. Throws OperatorError when the address is taken, and for a socket where strangers could put one of theirs.
 * `key` is the one of the configuration that names the address.
 */
export async function listenAt(
  server: Server,
  at: ListenAddress | InheritedSocket,
  key: string,
): Promise<void> {
  try {
    if ('path' in at) await prepareSocket(at.path);
    await startListening(server, at);
  } catch (cause) {
    const where = 'fd' in at ? `the inherited descriptor ${at.fd}` : formatAddress(at);
    const remedy = remedyOf(cause, at);
    throw new OperatorError(
      `${key}: cannot listen on ${where} (${systemReason(cause)})${remedy === undefined ? '' : `; ${remedy}`}`,
      { cause },
    );
  }
}

function remedyOf(cause: unknown, at: ListenAddress | InheritedSocket): string | undefined {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : '';
  return 'port' in at ? REMEDIES[code]?.(at) : undefined;
}

const REMEDIES: Readonly<Record<string, (at: HostPort) => string>> = {
  EADDRINUSE: ({ port }) =>
    `another program has that port (\`ss -ltnp sport = :${port}\` names it): stop that, or choose another`,
  EADDRNOTAVAIL: () => 'this machine has no such address: `ip address` lists those it has',
  EACCES: () =>
    'ports below 1024 are for root: choose a higher one, or let systemd listen (pdfseald@.socket)',
};

async function prepareSocket(path: string): Promise<void> {
  if (Buffer.byteLength(path) > SOCKET_PATH_BYTES_MAX) {
    throw new Error(`the path has more than ${SOCKET_PATH_BYTES_MAX} bytes; name a shorter one`);
  }
  checkFolder(dirname(path));
  await removeStale(path);
}

function checkFolder(folder: string): void {
  const mode = statSync(folder, { throwIfNoEntry: false })?.mode;
  if (mode === undefined)
    throw new Error(`there is no folder ${folder}; make it, owned by the daemon's user`);
  if ((mode & 0o002) !== 0) {
    throw new Error(
      `anybody may write to ${folder}, and so put a socket of theirs there; chmod o-w, or name another`,
    );
  }
}

/** A socket outlives a process that was killed; one that answers belongs to somebody. */
async function removeStale(path: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (!found.isSocket()) throw new Error('it is there and is no socket; remove it, or name another');
  if (await isAnswered(path)) throw new Error('somebody answers there; each daemon needs its own');
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

async function startListening(server: Server, at: ListenAddress | InheritedSocket): Promise<void> {
  const listening = once(server, 'listening');
  // A socket is made within the call, so that there is no moment in which others could open it.
  const umask = process.umask(UMASK);
  server.listen({ ...at, backlog: BACKLOG });
  process.umask(umask);
  await listening;
}
