import { type ClamdVersion, parseVersion } from './clamdReply.ts';
import { proveScanner } from './proofs.ts';
import { ScannerFailure } from './scannerFailure.ts';
import { type ClamdAddress, type ClamdSession, openSession } from './session.ts';

export interface ConnectionPoolOptions {
  address: ClamdAddress;
  /** Time-out for an answer of clamd, and for a document that waits for a connection. */
  timeoutMs: number;
  connectionsMax: number;
  /** Size of the largest document to scan. clamd's own limits must allow it. */
  documentBytesMax: number;
  /** Called with every version that clamd reports. */
  onVersion(version: ClamdVersion): void;
}

/** A connection that belongs to its user until it is released or closed. */
export interface Connection {
  session: ClamdSession;
  /** Just reported: clamd scans with these signatures, or with newer ones. */
  version: ClamdVersion;
}

/** The pool closes connections that are idle for longer than this, except one. */
const IDLE_MS_MAX = 5 * 60_000;

/**
 * A limited number of connections to clamd. One document at a time uses a connection, and only after the scanner
 * has passed the test over this connection. So a scanner that was restarted or reconfigured is tested again, and so
 * is every new version of the signatures.
 */
export class ConnectionPool {
  readonly #options: ConnectionPoolOptions;
  /** The most recently used connection is last. */
  #idle: { session: ClamdSession; since: number }[] = [];
  readonly #waiting: (() => void)[] = [];
  #count = 0;
  /** The answer to VERSION with which the scanner passed the test. */
  #proven = '';
  #closed = false;

  constructor(options: ConnectionPoolOptions) {
    this.#options = options;
  }

  get count(): number {
    return this.#count;
  }

  get idleCount(): number {
    return this.#idle.length;
  }

  /** Documents that wait for a connection. */
  get waitingCount(): number {
    return this.#waiting.length;
  }

  /** Rejects with ScannerFailure; `busy` if no connection became free in time. */
  async take(): Promise<Connection> {
    const giveUpAt = performance.now() + this.#options.timeoutMs;
    for (;;) {
      const session = this.#idle.pop()?.session;
      const connection = session && (await this.#lookAgain(session));
      if (connection) return connection;
      if (session === undefined && this.#count < this.#options.connectionsMax) return this.#connect();
      if (session === undefined) await this.#turn(giveUpAt);
    }
  }

  /** Returns a connection that expects no more answers. A broken connection can be released too. */
  release({ session }: Connection): void {
    this.#park(session, performance.now());
  }

  /**
   * Asks clamd for its version over every idle connection, so that clamd keeps the connection open. Closes connections that are idle for
   * too long, and opens one if none is left. Rejects with ScannerFailure.
   */
  async refresh(): Promise<void> {
    const idle = this.#idle.splice(0);
    const newest = idle.at(-1);
    const oldest = performance.now() - IDLE_MS_MAX;
    await Promise.all(
      idle.map(async (one) => {
        if (one !== newest && one.since < oldest) one.session.close();
        else if (await this.#lookAgain(one.session)) this.#park(one.session, one.since);
      }),
    );
    const { connectionsMax } = this.#options;
    if (this.#idle.length === 0 && this.#count < connectionsMax) this.release(await this.#connect());
  }

  close(): void {
    this.#closed = true;
    for (const { session } of this.#idle.splice(0)) session.close();
  }

  #park(session: ClamdSession, since: number): void {
    if (this.#closed || !session.isOpen) session.close();
    else this.#idle.push({ session, since });
    this.#waiting.shift()?.();
  }

  /** Undefined if clamd has closed the connection in the meantime, as it can at any time. */
  async #lookAgain(session: ClamdSession): Promise<Connection | undefined> {
    try {
      return await this.#look(session, this.#proven);
    } catch (error) {
      if (error instanceof ScannerFailure && error.trouble === 'closed') return undefined;
      throw error;
    }
  }

  async #connect(): Promise<Connection> {
    const { address, timeoutMs } = this.#options;
    this.#count += 1;
    try {
      const session = await openSession(address, timeoutMs);
      void session.closed.then(() => this.#leave(session));
      return await this.#look(session);
    } catch (error) {
      // An open connection is removed when it closes.
      if (error instanceof ScannerFailure && error.trouble === 'unreachable') this.#leave();
      throw error;
    }
  }

  #leave(session?: ClamdSession): void {
    this.#count -= 1;
    this.#idle = this.#idle.filter((one) => one.session !== session);
    this.#waiting.shift()?.();
  }

  /** Asks for the version, and tests the scanner unless the version equals `proven`. Closes a connection that fails. */
  async #look(session: ClamdSession, proven?: string): Promise<Connection> {
    try {
      const text = await session.version();
      const version = parseVersion(text);
      if (version === undefined)
        throw text === 'COMMAND UNAVAILABLE'
          ? new ScannerFailure(
              'unfit',
              'clamd does not say its version: set EnableVersionCommand yes in clamd.conf',
            )
          : new ScannerFailure('garbled', 'the program that answers at scan.clamd is not clamd');
      if (text !== proven) await proveScanner(session, this.#options.documentBytesMax);
      this.#proven = text;
      this.#options.onVersion(version);
      return { session, version };
    } catch (error) {
      session.close();
      throw error;
    }
  }

  /** Resolves when a connection is released or lost. */
  #turn(giveUpAt: number): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const giveUp = () => {
      this.#waiting.splice(this.#waiting.indexOf(resolve), 1);
      const { connectionsMax, timeoutMs } = this.#options;
      const message = `all ${connectionsMax} connections to clamd were in use for ${timeoutMs} ms: raise scan.connections_max`;
      reject(new ScannerFailure('busy', message));
    };
    const timer = setTimeout(giveUp, giveUpAt - performance.now());
    this.#waiting.push(resolve);
    return promise.finally(() => clearTimeout(timer));
  }
}
