import {
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { askForBody } from './incomingBody.ts';

/** Maximum number of requests that begin in one turn of the event loop. */
const BEGUN_MAX = 8;
/** The share of {@link BEGUN_MAX} reserved for strangers while any wait: a client about to present its API key is still a stranger. */
const STRANGERS_BEGUN = 2;
/** A waiting connection is read ahead up to this limit: the end of a connection shows only while it is read. */
const READ_AHEAD_BYTES_MAX = 16 * 1024;
/** Maximum number of bytes held for all connections together. */
const HELD_BYTES_MAX = 16 * 1024 * 1024;

/** The code of the error that stands for `CONNECT`. */
export const TUNNEL = 'CONNECT';

/** The callback's answer that stops the parser at the end of a head (`HPE_PAUSED` of llhttp). */
const STOP = 21;
/**
 * Input that makes the parser continue. It has an address, unlike other empty buffers, which the parser takes for the end of the
 * connection.
 */
const NOTHING = Buffer.alloc(1).subarray(1);

/** An error of Node's parser; with the code {@link TUNNEL}, a request for a tunnel. */
export interface RequestError extends NodeJS.ErrnoException {
  /** The last packet, and how many of its bytes the parser read. */
  rawPacket?: Buffer;
  bytesParsed?: number;
}

/** Node's parser of a connection. After the connection has ended, Node reuses it for another one. */
interface Parser {
  onIncoming(req: IncomingMessage, keepAlive: boolean): number;
  resume(): void;
}

/** Handles the requests of a server. */
export interface Admitted {
  handle: RequestListener;
  /**
   * Refuses a connection whose bytes are not a valid request, after earlier requests are answered, and a request for a tunnel. Default: a
   * status without a body; for a tunnel, the connection is closed.
   */
  refuse?(error: RequestError, socket: Duplex): void;
  /** Whether the client has authenticated. Default: every client counts as known. */
  isKnown?(socket: Socket): boolean;
}

interface HttpSocket extends Socket {
  /** Null after the end of the connection, and after a request for a tunnel. */
  parser?: Parser | null;
  /** Whether Node waits for the other end to read. Meanwhile the parser refuses bytes. */
  _paused?: boolean;
}

interface Request {
  req: IncomingMessage;
  res: ServerResponse;
}

/** A connection with its current request, the next one, and the bytes behind it. */
interface Connection extends Admitted {
  socket: HttpSocket;
  /** The request that has begun or waits for its turn. */
  current?: Request | undefined;
  /** The request behind whose head the parser has stopped. */
  next?: Request | undefined;
  /** The bytes behind that head. */
  held: Buffer;
  isStopped: boolean;
  isFaulty: boolean;
  /** Passes bytes to the parser. Absent until a request first comes early: up to then, bytes reach the parser without JavaScript. */
  parse?(bytes: Buffer): void;
}

/**
 * Stands between sockets and handlers. Node alone parses all requests of a packet at once, and carries them out even after the connection
 * has closed. Here each connection has one request under way, and at most the head of the next one is parsed. Few requests begin in each
 * turn of the event loop, and the connections take turns. Waiting requests are dropped when their connection closes.
 *
 * The answers to the clients of one batch bring as many new requests at the same time. If all of these began at once, the signatures and
 * the commit of the next batch, for which other clients wait, would be noticed only after them.
 */
export class Admission {
  readonly #connections = new WeakMap<Socket, Connection>();
  /** Connections whose request waits for its turn. */
  readonly #known = new Set<Connection>();
  readonly #strangers = new Set<Connection>();
  /** Connections with held bytes, ordered by how long they have had some: the longest first. */
  readonly #holders = new Set<Connection>();
  readonly #heldBytesMax: number;
  #heldBytes = 0;
  #begun = 0;

  constructor({ heldBytesMax = HELD_BYTES_MAX }: { heldBytesMax?: number } = {}) {
    this.#heldBytesMax = heldBytesMax;
  }

  /** Controls the requests of this server from now on. */
  admit(server: Server, admitted: Admitted): void {
    for (const event of ['request', 'checkContinue', 'checkExpectation']) {
      server.on(event, (req: IncomingMessage, res: ServerResponse) =>
        this.#arrive(this.#of(req.socket, admitted), { req, res }),
      );
    }
    server.on('clientError', (error: RequestError, socket: Socket) =>
      this.#fail(this.#of(socket, admitted), error),
    );
    const { refuse } = admitted;
    if (refuse)
      server.on('connect', (_req: IncomingMessage, socket: Duplex) =>
        refuse(Object.assign(new Error('a request for a tunnel'), { code: TUNNEL }), socket),
      );
  }

  #of(socket: Socket, admitted: Admitted): Connection {
    const open = this.#connections.get(socket);
    if (open !== undefined) return open;
    const connection: Connection = { ...admitted, socket, held: NOTHING, isStopped: false, isFaulty: false };
    this.#connections.set(socket, connection);
    socket.once('close', () => this.#drop(connection));
    const { parser } = connection.socket;
    const onIncoming = parser?.onIncoming;
    if (parser && onIncoming) {
      parser.onIncoming = (req, keepAlive) => {
        const verdict = onIncoming(req, keepAlive);
        return verdict === 0 && connection.next ? STOP : verdict;
      };
    }
    return connection;
  }

  /** Receives each parsed head. */
  #arrive(connection: Connection, request: Request): void {
    if (connection.current === undefined) {
      this.#await(connection, request);
    } else {
      connection.next = request;
      this.#stop(connection);
    }
  }

  #await(connection: Connection, request: Request): void {
    connection.current = request;
    request.res.once('close', () => this.#end(connection));
    (isStranger(connection) ? this.#strangers : this.#known).add(connection);
    this.#begin();
  }

  #begin(): void {
    while (this.#begun < BEGUN_MAX) {
      const isForStrangers = this.#strangers.size > 0 && BEGUN_MAX - this.#begun <= STRANGERS_BEGUN;
      const waiting = isForStrangers || this.#known.size === 0 ? this.#strangers : this.#known;
      const [connection] = waiting;
      if (connection === undefined) return;
      waiting.delete(connection);
      if (this.#begun === 0) setImmediate(() => this.#nextTurn());
      this.#begun += 1;
      this.#carryOut(connection);
    }
  }

  #nextTurn(): void {
    this.#begun = 0;
    this.#begin();
  }

  #carryOut(connection: Connection): void {
    const { current, handle, parse, isStopped } = connection;
    if (current === undefined) return;
    handle(current.req, current.res);
    if (isStopped && parse) this.#goOn(connection, parse);
  }

  #end(connection: Connection): void {
    const { next, socket } = connection;
    connection.current = undefined;
    connection.next = undefined;
    if (next !== undefined && !socket.destroyed) this.#await(connection, next);
  }

  /** From the first stop on, all bytes of this connection pass through {@link #read}, so that nothing can overtake the held bytes. */
  #stop(connection: Connection): void {
    connection.isStopped = true;
    if (connection.parse !== undefined) return;
    const { socket } = connection;
    const [parse] = listenersOf(socket, 'data');
    if (parse === undefined) return;
    connection.parse = parse;
    const [pause, resume] = [listenersOf(socket, 'pause'), listenersOf(socket, 'resume')];
    socket.off('data', parse);
    socket.on('data', (bytes: Buffer) => this.#read(connection, bytes));
    // Node removes its own pause and resume listeners: without them, a socket that was paused is never read again.
    for (const listener of pause) socket.on('pause', listener);
    for (const listener of resume) socket.on('resume', listener);
  }

  #read(connection: Connection, bytes: Buffer): void {
    const { isStopped, held, socket, parse } = connection;
    if (isStopped) this.#hold(connection, Buffer.concat([held, bytes]));
    else if (socket.parser) parse?.(bytes);
  }

  /** Parses the bytes behind the current request, up to the end of the next head. */
  #goOn(connection: Connection, parse: (bytes: Buffer) => void): void {
    const { socket, held } = connection;
    connection.isStopped = false;
    this.#hold(connection, NOTHING);
    // The previous answer is complete, so no part of it can be waiting for the other end.
    if (socket._paused) socket.destroy();
    socket.parser?.resume();
    for (const bytes of [NOTHING, held]) if (socket.parser && !socket.destroyed) parse(bytes);
    if (connection.held.length <= READ_AHEAD_BYTES_MAX) socket.resume();
  }

  #fail(connection: Connection, error: RequestError): void {
    const { socket, current, isStopped, isFaulty } = connection;
    if (isStopped && error.code === 'HPE_PAUSED') {
      const rest = error.rawPacket?.subarray(error.bytesParsed) ?? NOTHING;
      // A short rest is copied, so that it does not keep the memory of its packet.
      this.#hold(connection, rest.length * 2 < rest.buffer.byteLength ? Buffer.from(rest) : rest);
      return;
    }
    // After the first fault, all further bytes are faulty too.
    if (isFaulty && socket.writable) return;
    connection.isFaulty = true;
    const answer = () => (connection.refuse ?? refuseBriefly)(error, socket);
    const isOpen = current?.res.writableFinished === false;
    if (!socket.writable || error.code === 'ECONNRESET') socket.destroy();
    // The request before the fault is answered first; otherwise the client would take the refusal for its answer.
    else if (isOpen && current.req.complete) current.res.once('finish', answer);
    else if (isOpen && current.res.headersSent) socket.destroy();
    else answer();
  }

  #hold(connection: Connection, bytes: Buffer): void {
    this.#heldBytes += bytes.length - connection.held.length;
    connection.held = bytes;
    this.#holders.delete(connection);
    if (bytes.length > 0) this.#holders.add(connection);
    if (bytes.length > READ_AHEAD_BYTES_MAX) connection.socket.pause();
    while (this.#heldBytes > this.#heldBytesMax) this.#makeRoom();
  }

  /** Closes the connection that has held bytes longest, a stranger's if there is one. */
  #makeRoom(): void {
    let [closed] = this.#holders;
    for (const holder of this.#holders) {
      if (!isStranger(holder)) continue;
      closed = holder;
      break;
    }
    if (closed === undefined) return;
    closed.socket.destroy();
    this.#drop(closed);
  }

  #drop(connection: Connection): void {
    connection.current = undefined;
    connection.next = undefined;
    this.#known.delete(connection);
    this.#strangers.delete(connection);
    this.#hold(connection, NOTHING);
  }
}

function listenersOf(socket: Socket, event: string): ((...args: unknown[]) => void)[] {
  return socket.listeners(event) as ((...args: unknown[]) => void)[];
}

/** Makes a handler that accepts every body announced with `Expect: 100-continue`. */
export function takingAnyBody(handle: RequestListener): RequestListener {
  return (req, res) => {
    askForBody({ req, res });
    handle(req, res);
  };
}

const STATUSES: Readonly<Record<string, number>> = {
  HPE_HEADER_OVERFLOW: 431,
  ERR_HTTP_REQUEST_TIMEOUT: 408,
};

function refuseBriefly({ code = '' }: RequestError, socket: Duplex): void {
  const status = STATUSES[code] ?? 400;
  const head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nConnection: close\r\n\r\n`;
  socket.end(head, () => socket.destroy());
}

function isStranger({ isKnown, socket }: Connection): boolean {
  return isKnown?.(socket) === false;
}
