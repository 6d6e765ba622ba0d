import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import ipaddr from 'ipaddr.js';
import { isLoopback } from '../net/address.ts';

export interface ConnectionBounds {
  max: number;
  /** From one address; those of this machine and Unix sockets have no such bound: there, one proxy speaks for all. */
  perAddressMax: number;
}

/** How long a connection that brought no API key may be silent between requests. */
const STRANGER_KEEP_ALIVE_MS = 5_000;

interface Connection {
  socket: Socket;
  /** Undefined where all come from the same one. */
  address: string | undefined;
  /** Whether a request on it had an API key that is good. */
  isKnown: boolean;
  /** Requests that are not answered yet. */
  underWay: number;
}

/** Those that can be done without, the longest out of use first. */
class Dispensable {
  readonly strangers = new Set<Connection>();
  readonly idle = new Set<Connection>();
  count = 0;

  /** To be called after each change: whoever has just done something is the last to go. */
  note(connection: Connection): void {
    this.strangers.delete(connection);
    this.idle.delete(connection);
    if (!connection.isKnown) this.strangers.add(connection);
    else if (connection.underWay === 0) this.idle.add(connection);
  }

  remove(connection: Connection): void {
    this.strangers.delete(connection);
    this.idle.delete(connection);
    this.count -= 1;
  }

  /** One without an API key, else one that nothing is under way on. */
  first(): Connection | undefined {
    for (const one of this.strangers) return one;
    for (const one of this.idle) return one;
    return undefined;
  }
}

/**
 * Bounds the open connections of all servers together, and of each address: a connection too many takes the place of one that can
 * be done without, and is refused only when there is none. So whoever opens connections alone shuts nobody out.
 */
export class ConnectionLimits {
  readonly #options: ConnectionBounds;
  readonly #all = new Dispensable();
  readonly #byAddress = new Map<string, Dispensable>();
  readonly #bySocket = new WeakMap<Socket, Connection>();
  /** Of TLS, whose requests come by another socket than the connection. */
  readonly #byPeer = new Map<string, Connection>();

  constructor(options: ConnectionBounds) {
    this.#options = options;
  }

  get count(): number {
    return this.#all.count;
  }

  /** Has the connections of this server counted. */
  watch(server: Server): void {
    server.prependListener('connection', (socket: Socket) => this.#open(socket));
    for (const event of ['request', 'checkContinue', 'checkExpectation'])
      server.prependListener(event, (req: IncomingMessage, res: ServerResponse) => this.#begin(req, res));
  }

  /** A request on this socket had an API key that is good. */
  know(socket: Socket): void {
    const connection = this.#of(socket);
    if (connection === undefined || connection.isKnown) return;
    connection.isKnown = true;
    this.#note(connection);
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
    // Node sets its own time-out first: this listener is behind its own.
    res.once('finish', () => {
      if (!connection.isKnown) req.socket.setTimeout(STRANGER_KEEP_ALIVE_MS);
    });
    res.once('close', () => {
      connection.underWay -= 1;
      if (!connection.socket.destroyed) this.#note(connection);
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
    const neighbours = new Dispensable();
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

/** Whom an address stands for: an IPv6 network of 64 bits is one household. Undefined for this machine. */
export function addressKey(remoteAddress: string | undefined): string | undefined {
  if (remoteAddress === undefined || !ipaddr.isValid(remoteAddress)) return undefined;
  const address = ipaddr.process(remoteAddress);
  if (isLoopback(address.toString())) return undefined;
  return address instanceof ipaddr.IPv6 ? address.parts.slice(0, 4).join(':') : address.toString();
}
