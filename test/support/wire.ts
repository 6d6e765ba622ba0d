import { connect, type Socket } from 'node:net';
import type { Client } from './client.ts';
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

export interface SlowUpload {
  /** Sends the document; resolves to the answer. */
  finish(): Promise<WireAnswer>;
  /** Sends the document, and waits for nothing. */
  send(): void;
  hangUp(): void;
  /** Sends a piece of the document and hangs up. */
  abandon(): void;
}

/** Begins a private upload; resolves when the service has asked for the body, which tells that it holds key and slot. */
export async function slowUpload(
  client: Client,
  document: Uint8Array,
  headers: Record<string, string> = {},
): Promise<SlowUpload> {
  const body = Buffer.concat([
    Buffer.from(`${part('name="visibility"')}private\r\n${part('name="file"; filename="a"')}`),
    document,
    Buffer.from('\r\n--b--\r\n'),
  ]);
  const lines = Object.entries({
    Host: 'localhost',
    Authorization: `Bearer ${client.apiKey}`,
    'Content-Type': 'multipart/form-data; boundary=b',
    'Content-Length': String(body.length),
    Expect: '100-continue',
    Connection: 'close',
    ...headers,
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  const wire = new Wire(Number(new URL(client.baseUrl).port));
  wire.send(`POST /v1/jobs/seal HTTP/1.1\r\n${lines.join('')}\r\n`);
  await wire.until(/^HTTP\/1\.1 100 Continue\r\n\r\n/);
  return {
    finish: async () => {
      wire.send(body);
      await wire.closed;
      const answer = parseAnswer(wire.received.replace(/^HTTP\/1\.1 100 Continue\r\n\r\n/, ''));
      client.check.check({ method: 'POST', path: '/v1/jobs/seal', ...answer });
      return answer;
    },
    send: () => wire.send(body),
    hangUp: () => wire.destroy(),
    abandon: () => {
      wire.send(body.subarray(0, 150));
      wire.destroy();
    },
  };
}

function part(disposition: string): string {
  return `--b\r\nContent-Disposition: form-data; ${disposition}\r\n\r\n`;
}
