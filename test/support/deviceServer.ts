/** The network side of a simulated device: HTTP on one port of the loopback, which can be away for a while. */
import { once } from 'node:events';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { Test } from 'tap';
import { freePort } from './freePort.ts';

const IDLE_MS_MAX = 75_000;

export interface DeviceRequest {
  method: string;
  /** With its query. */
  path: string;
  headers: IncomingHttpHeaders;
  body: Buffer;
}

export interface DeviceAnswer {
  status: number;
  /** Default: bytes. */
  type?: string;
  /** The address of what was created. */
  location?: string;
  body?: string | Buffer;
}

/** Answers requests one after the other, as a device does. */
export class DeviceServer {
  readonly port: number;
  readonly #answer: (request: DeviceRequest) => DeviceAnswer;
  #server: Server | undefined;

  private constructor(port: number, answer: (request: DeviceRequest) => DeviceAnswer) {
    this.port = port;
    this.#answer = answer;
  }

  /** Starts one that ends with `t`. */
  static async start(
    t: Pick<Test, 'teardown'>,
    answer: (request: DeviceRequest) => DeviceAnswer,
  ): Promise<DeviceServer> {
    const device = new DeviceServer(await freePort(), answer);
    t.teardown(() => device.stop());
    await device.start();
    return device;
  }

  async start(): Promise<void> {
    const server = createServer((request, response) => {
      read(request).then(
        (body) => {
          const { method = '', url: path = '', headers } = request;
          respond(response, this.#answer({ method, path, headers, body }));
        },
        () => response.destroy(),
      );
    });
    // Node closes idle connections after five seconds, just when a module may use one again.
    server.keepAliveTimeout = IDLE_MS_MAX;
    this.#server = server.listen(this.port, '127.0.0.1');
    await once(server, 'listening');
  }

  /** Refuses connections until it is started again, and breaks those that are open. What the device stores stays. */
  async stop(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined) return;
    server.close();
    server.closeAllConnections();
    await once(server, 'close');
  }
}

async function read(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks);
}

function respond(response: ServerResponse, { status, type, location, body = '' }: DeviceAnswer): void {
  response.writeHead(status, {
    'content-type': type ?? 'application/octet-stream',
    'content-length': Buffer.byteLength(body),
    ...(location !== undefined && { location }),
  });
  response.end(body);
}
