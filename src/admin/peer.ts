import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Socket } from 'node:net';
import { fileURLToPath } from 'node:url';

/** Who is at the other end of a Unix socket. */
export interface Peer {
  /** Absent where a PID namespace hides it: of somebody outside of the daemon's container. */
  pid?: number;
  /** Absent where a user namespace hides it: with PrivateUsers= of whoever is neither root nor the daemon's user. */
  uid?: number;
}

/** What the kernel says in place of a user that has no place in the namespace (user_namespaces(7), overflowuid). */
const OVERFLOW_UID = 65_534;

interface PeerAddon {
  peer(fd: number): Peer | undefined;
}

const ADDON = fileURLToPath(new URL('../../native/build/Release/pdfseal_notify.node', import.meta.url));

/** As the kernel noted it when the connection was made; undefined for other sockets, and where the add-on was not built. */
export function peerOf(socket: Socket): Peer | undefined {
  // Node has no name for the descriptor of a socket.
  const { _handle: handle } = socket as Socket & { _handle?: { fd?: number } };
  if (handle?.fd === undefined || handle.fd < 0 || !existsSync(ADDON)) return undefined;
  const addon = createRequire(import.meta.url)(ADDON) as PeerAddon;
  const peer = addon.peer(handle.fd);
  return peer && withoutStandIn(peer);
}

/** Better nobody known than a user who was not there. */
export function withoutStandIn({ uid, ...peer }: Peer): Peer {
  return uid === undefined || uid === OVERFLOW_UID ? peer : { ...peer, uid };
}
