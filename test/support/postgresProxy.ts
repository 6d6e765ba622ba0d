import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const SOCKET = '.s.PGSQL.5432';

/** What becomes of a message of a client. `forward`: nothing is done to it. */
export type Fate =
  | 'forward' /** The connection is cut before the server gets it. */
  | 'cut before' /** The server gets it, and the client no answer. */
  | 'cut after' /** The same, and the connection stays. */
  | 'silence';

/**
 * Stands between a client and a PostgreSQL, on a Unix socket of its own, and cuts connections at messages that it chooses.
 */
export class PostgresProxy {
  /** The folder of its socket, for `?host=`. */
  readonly dir: string;
  /** Decides about what a client sends; `text` holds the statement. */
  fate: (text: string) => Fate = () => 'forward';
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(dir: string, server: Server) {
    this.dir = dir;
    this.#server = server;
  }

  /** `target` is the folder of the server's socket. */
  static async start(target: string): Promise<PostgresProxy> {
    const dir = mkdtempSync(join(tmpdir(), 'pdfseal-proxy-')); // A socket's path is short.
    const server = createServer();
    const proxy = new PostgresProxy(dir, server);
    server.on('connection', (client) => proxy.#join(client, connect(join(target, SOCKET))));
    await new Promise<void>((resolve) => server.listen(join(dir, SOCKET), resolve));
    return proxy;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
    rmSync(this.dir, { recursive: true });
  }

  #join(client: Socket, server: Socket): void {
    const both = [client, server];
    let isCut = false;
    let isSilent = false;
    for (const socket of both) {
      this.#sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => {
        this.#sockets.delete(socket);
        for (const other of both) other.destroy();
      });
    }
    client.on('data', (bytes) => {
      const fate = this.fate(bytes.toString('latin1'));
      if (fate === 'cut before') {
        client.destroy();
        return;
      }
      server.write(bytes);
      isCut ||= fate === 'cut after';
      isSilent ||= fate === 'silence';
    });
    server.on('data', (bytes) => {
      if (isCut) client.destroy();
      else if (!isSilent) client.write(bytes);
    });
  }
}
