import { connect, type Socket } from 'node:net';
import type { ApiCheck } from './openapi.ts';

/** An answer read off the wire. */
export interface WireAnswer {
  status: number;
  headers: Headers;
  text: string;
}

/** Opens a connection to write what no HTTP library would. Everything received gathers in `received`. */
export class Wire {
  readonly socket: Socket;
  received = '';
  /** Resolves when the other side has closed; `reset` tells whether it did so the hard way. */
  readonly closed: Promise<{ reset: boolean }>;

  constructor(port: number) {
    this.socket = connect({ host: '127.0.0.1', port, allowHalfOpen: true });
    this.socket.setEncoding('latin1');
    this.socket.on('data', (chunk: string) => {
      this.received += chunk;
    });
    const { promise, resolve } = Promise.withResolvers<{ reset: boolean }>();
    this.closed = promise;
    this.socket.on('error', () => resolve({ reset: true }));
    this.socket.on('end', () => {
      this.socket.end();
      resolve({ reset: false });
    });
    this.socket.on('close', () => resolve({ reset: false }));
  }

  send(text: string | Uint8Array): void {
    this.socket.write(text);
  }

  /** Resolves when the pattern has been received; rejects when the connection ends before. */
  async until(pattern: RegExp): Promise<void> {
    while (!pattern.test(this.received)) {
      if (this.socket.readableEnded || this.socket.destroyed)
        throw new Error(`closed before ${pattern}, after:\n${this.received}`);
      const { promise, resolve } = Promise.withResolvers<void>();
      for (const event of ['data', 'end', 'close']) this.socket.once(event, () => resolve());
      await promise;
    }
  }

  destroy(): void {
    this.socket.destroy();
  }
}

/** Sends the text, reads until the server closes, and holds the answer to the served document. */
export async function exchange(port: number, request: string, check?: ApiCheck): Promise<WireAnswer> {
  const wire = new Wire(port);
  wire.send(request);
  await wire.closed;
  wire.destroy();
  const answer = parseAnswer(wire.received);
  const [method = '', path = ''] = request.split('\r\n')[0]?.split(' ') ?? [];
  check?.check({ method, path, ...answer });
  return answer;
}

/** The first answer in what was received. */
export function parseAnswer(received: string): WireAnswer {
  const end = received.indexOf('\r\n\r\n');
  const [statusLine = '', ...lines] = received.slice(0, end).split('\r\n');
  const headers = new Headers();
  for (const line of lines) {
    const colon = line.indexOf(':');
    headers.append(line.slice(0, colon), line.slice(colon + 1).trim());
  }
  const length = Number(headers.get('Content-Length') ?? 0);
  return {
    status: Number(statusLine.split(' ')[1]),
    headers,
    text: received.slice(end + 4, end + 4 + length),
  };
}
