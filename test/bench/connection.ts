import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

export interface Answer {
  status: number;
  body: string;
}

/**
 * A kept-alive HTTP/1.1 connection that sends one prepared request at a time. It does so little because it shares the
 * machine with the servers it measures: `node:http` would spend several times the cycles per request. It understands
 * answers with a Content-Length, which is what all the servers here give, and fails on any other.
 */
export class Connection {
  readonly #socket: Socket;
  /** One character per byte. */
  #received = '';
  #waiting: PromiseWithResolvers<Answer> | undefined;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setEncoding('latin1');
    socket.on('data', (text: string) => this.#receive(text));
    socket.on('error', (error) => this.#waiting?.reject(error));
    socket.on('close', () => this.#waiting?.reject(new Error('the server closed the connection')));
  }

  static async open(port: number): Promise<Connection> {
    const socket = connect({ host: '127.0.0.1', port, noDelay: true });
    await once(socket, 'connect');
    return new Connection(socket);
  }

  exchange(head: Buffer, rest: Buffer): Promise<Answer> {
    this.#waiting = Promise.withResolvers();
    this.#socket.cork();
    this.#socket.write(head);
    this.#socket.write(rest);
    this.#socket.uncork();
    return this.#waiting.promise;
  }

  close(): void {
    this.#waiting = undefined;
    this.#socket.destroy();
  }

  #receive(text: string): void {
    this.#received += text;
    const headEnd = this.#received.indexOf('\r\n\r\n');
    if (headEnd < 0) return;
    const head = this.#received.slice(0, headEnd);
    const length = /^content-length: *(\d+)$/im.exec(head)?.[1];
    if (length === undefined) {
      this.#waiting?.reject(new Error(`an answer without Content-Length: ${head}`));
      return;
    }
    const bodyStart = headEnd + 4;
    const bodyEnd = bodyStart + Number(length);
    if (this.#received.length < bodyEnd) return;
    const answer = { status: Number(head.slice(9, 12)), body: this.#received.slice(bodyStart, bodyEnd) };
    this.#received = this.#received.slice(bodyEnd);
    this.#waiting?.resolve(answer);
  }
}
