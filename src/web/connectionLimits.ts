import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import ipaddr from 'ipaddr.js';
import { isLoopback } from './address.ts';

export interface ConnectionBounds {
  max: number;
  /**
   * Maximum per remote address. Connections from this machine and over Unix sockets are exempt, because one proxy there can serve all
   * clients.
   */
  perAddressMax: number;
  /**
   * Whether a connection without an API key is closed later if a request is under way, because its key may just be being looked up.
   * Default: true. False if such requests only wait for their senders.
   */
  sparesRequests?: boolean;
}

/** Maximum silence, in milliseconds, between requests on a connection that has not presented an API key. */
const STRANGER_KEEP_ALIVE_MS = 5_000;

interface Connection {
  socket: Socket;
  /** Undefined for connections from this machine and over Unix sockets. */
  address: string | undefined;
  /** Whether a request on this connection had a valid API key. */
  isKnown: boolean;
  /** Number of requests without a complete answer. */
  underWay: number;
}

/** The connections of a group that can be closed to make room. */
class Dispensable {
  /** Without an API key and without a request under way. */
  readonly #silent = new Set<Connection>();
  /** Without an API key, which may be being looked up for a request. */
  readonly #strangers = new Set<Connection>();
  readonly #idle = new Set<Connection>();
  /** The order in which they are closed, each least recently used first. */
  readonly #orders = [this.#silent, this.#strangers, this.#idle];
  readonly #sparesRequests: boolean;
  count = 0;

  constructor({ sparesRequests = true }: ConnectionBounds) {
    this.#sparesRequests = sparesRequests;
  }

  /** Moves the connection to the end of the closing order. Call this after each change. */
  note(connection: Connection): void {
    this.#leave(connection);
    const { isKnown, underWay } = connection;
    if (!isKnown) (underWay > 0 && this.#sparesRequests ? this.#strangers : this.#silent).add(connection);
    else if (underWay === 0) this.#idle.add(connection);
  }

  remove(connection: Connection): void {
    this.#leave(connection);
    this.count -= 1;
  }

  #leave(connection: Connection): void {
    for (const order of this.#orders) order.delete(connection);
  }

  /** The connection to be closed; undefined if all have an API key and a request under way. */
  first(): Connection | undefined {
    for (const order of this.#orders) for (const one of order) return one;
    return undefined;
  }
}

/**
 * Limits the open connections of all servers together, and of each address. A connection above the limit replaces a dispensable one; it is
 * refused only if there is none. So a client that only opens connections cannot lock out others.
 */
export class ConnectionLimits {
  readonly #options: ConnectionBounds;
  readonly #all: Dispensable;
  readonly #byAddress = new Map<string, Dispensable>();
  readonly #bySocket = new WeakMap<Socket, Connection>();
  /** With TLS, requests arrive on another socket than the connection, so they are matched by addresses and ports. */
  readonly #byPeer = new Map<string, Connection>();

  constructor(options: ConnectionBounds) {
    this.#options = options;
    this.#all = new Dispensable(options);
  }

  get count(): number {
    return this.#all.count;
  }

  /** Counts the connections of this server from now on. */
  watch(server: Server): void {
    server.prependListener('connection', (socket: Socket) => this.#open(socket));
    for (const event of ['request', 'checkContinue', 'checkExpectation'])
      server.prependListener(event, (req: IncomingMessage, res: ServerResponse) => this.#begin(req, res));
  }

  /** Records that a request on this socket had a valid API key. */
  know(socket: Socket): void {
    const connection = this.#of(socket);
    if (connection === undefined || connection.isKnown) return;
    connection.isKnown = true;
    this.#note(connection);
  }

  /** Whether a request on this socket had a valid API key. */
  isKnown(socket: Socket): boolean {
    return this.#of(socket)?.isKnown === true;
  }

  #open(socket: Socket): void {
    const address = addressKey(socket.remoteAddress);
    const neighbours = address === undefined ? undefined : this.#neighbours(address);
    const { max, perAddressMax } = this.#options;
    const hasRoom =
      (neighbours === undefined || neighbours.count < perAddressMax || this.#evict(neighbours)) &&
      (this.#all.count < max || this.#evict(this.#all));
    if (!hasRoom) {
      if (address !== undefined && neighbours?.count === 0) this.#byAddress.delete(address);
      socket.destroy();
      return;
    }
    const connection: Connection = { socket, address, isKnown: false, underWay: 0 };
    for (const group of this.#groupsOf(connection)) group.count += 1;
    this.#bySocket.set(socket, connection);
    const peer = peerOf(socket);
    if (peer !== undefined) this.#byPeer.set(peer, connection);
    this.#note(connection);
    socket.once('close', () => {
      this.#forget(connection);
      if (peer !== undefined && this.#byPeer.get(peer) === connection) this.#byPeer.delete(peer);
    });
  }

  #begin(req: IncomingMessage, res: ServerResponse): void {
    const connection = this.#of(req.socket);
    if (connection === undefined) return;
    connection.underWay += 1;
    this.#note(connection);
    const { socket } = req;
    // Node sets its own time-out before this event, so this one replaces it.
    res.once('close', () => {
      connection.underWay -= 1;
      if (connection.socket.destroyed) return;
      if (!connection.isKnown) socket.setTimeout(STRANGER_KEEP_ALIVE_MS);
      this.#note(connection);
    });
  }

  #evict(group: Dispensable): boolean {
    const connection = group.first();
    if (connection === undefined) return false;
    this.#forget(connection);
    connection.socket.destroy();
    return true;
  }

  #forget(connection: Connection): void {
    if (!this.#bySocket.delete(connection.socket)) return;
    for (const group of this.#groupsOf(connection)) group.remove(connection);
    const { address } = connection;
    if (address !== undefined && this.#byAddress.get(address)?.count === 0) this.#byAddress.delete(address);
  }

  #note(connection: Connection): void {
    if (!this.#bySocket.has(connection.socket)) return;
    for (const group of this.#groupsOf(connection)) group.note(connection);
  }

  #groupsOf({ address }: Connection): Dispensable[] {
    return address === undefined ? [this.#all] : [this.#all, this.#neighbours(address)];
  }

  #neighbours(address: string): Dispensable {
    const known = this.#byAddress.get(address);
    if (known) return known;
    const neighbours = new Dispensable(this.#options);
    this.#byAddress.set(address, neighbours);
    return neighbours;
  }

  #of(socket: Socket): Connection | undefined {
    return this.#bySocket.get(socket) ?? this.#byPeer.get(peerOf(socket) ?? '');
  }
}

function peerOf({ remoteAddress, remotePort, localPort }: Socket): string | undefined {
  return remoteAddress === undefined ? undefined : `${remoteAddress} ${remotePort} ${localPort}`;
}

/**
 * The key under which connections are counted: an address, or the first 64 bits of an IPv6 address, which one household shares. Undefined
 * for this machine.
 */
export function addressKey(remoteAddress: string | undefined): string | undefined {
  if (remoteAddress === undefined || !ipaddr.isValid(remoteAddress)) return undefined;
  const address = ipaddr.process(remoteAddress);
  if (isLoopback(address.toString())) return undefined;
  return address instanceof ipaddr.IPv6 ? address.parts.slice(0, 4).join(':') : address.toString();
}
