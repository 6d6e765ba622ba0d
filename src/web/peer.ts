import { existsSync } from 'node:fs';
import type { Socket } from 'node:net';
import { DATAGRAM_ADDON, openDatagramAddon } from '../base/journal.ts';

/** The process at the other end of a Unix socket. */
export interface Peer {
  /** Absent if a PID namespace hides the process: it runs outside the daemon's container. */
  pid?: number;
  /** Absent if a user namespace hides the user: with PrivateUsers=, every user except root and the daemon's user. */
  uid?: number;
}

/** The kernel reports this id for a user without a mapping in the namespace (user_namespaces(7), overflowuid). */
const OVERFLOW_UID = 65_534;

/** The peer as the kernel recorded it when the connection was made. Undefined for other sockets, and without the add-on. */
export function peerOf(socket: Socket): Peer | undefined {
  // Node has no public name for the file descriptor of a socket.
  const { _handle: handle } = socket as Socket & { _handle?: { fd?: number } };
  if (handle?.fd === undefined || handle.fd < 0 || !existsSync(DATAGRAM_ADDON)) return undefined;
  const peer = openDatagramAddon().peer(handle.fd);
  return peer && withoutStandIn(peer);
}

/** An unknown user is better on record than a wrong one. */
export function withoutStandIn({ uid, ...peer }: Peer): Peer {
  return uid === undefined || uid === OVERFLOW_UID ? peer : { ...peer, uid };
}
