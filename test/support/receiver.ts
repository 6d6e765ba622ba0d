import { once } from 'node:events';
import {
  createServer as createHttpServer,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { Webhook } from 'standardwebhooks';
import type { Test } from 'tap';

export interface Received {
  webhookId: string;
  /** Milliseconds since the epoch, as this process saw it. */
  at: number;
  body: string;
  event: { type: string; timestamp: string; data: Record<string, unknown> };
  headers: IncomingMessage['headers'];
}

/** Answers a delivery that was received whole; none of these need to be well-behaved. */
export type Answering = (res: ServerResponse, received: Received, nth: number) => void;

export const OK: Answering = (res) => void res.writeHead(204).end();
export const answerWith =
  (status: number, headers: Record<string, string> = {}): Answering =>
  (res) =>
    void res.writeHead(status, headers).end('{}');

/** Somebody's webhook receiver: a real server on the loopback, on which the stock verifier checks every delivery. */
export class Receiver {
  readonly received: Received[] = [];
  /** Deliveries that the stock verifier refused. */
  readonly refused: string[] = [];
  readonly url: string;
  /** Connections that are open. */
  readonly sockets = new Set<Socket>();
  /** Set before anything is delivered; each must verify. */
  secrets: string[] = [];
  answering: Answering;

  private constructor(url: string, answering: Answering) {
    this.url = url;
    this.answering = answering;
  }

  static async open(
    t: Pick<Test, 'teardown'>,
    answering: Answering = OK,
    tls?: { key: string; cert: string },
  ): Promise<Receiver> {
    let receiver: Receiver | undefined;
    const handle: RequestListener = (req, res) => void receiver?.handle(req, res).catch(() => {});
    const server = tls === undefined ? createHttpServer(handle) : createHttpsServer(tls, handle);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const created = new Receiver(
      `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}/hook`,
      answering,
    );
    receiver = created;
    server.on('connection', (socket: Socket) => {
      created.sockets.add(socket);
      socket.on('error', () => {});
      socket.once('close', () => created.sockets.delete(socket));
    });
    t.teardown(() => {
      server.close();
      for (const socket of created.sockets) socket.destroy();
    });
    return created;
  }

  /** How often each message came. */
  counts(): Map<string, number> {
    const counts = new Map<string, number>();
    for (const { webhookId } of this.received) counts.set(webhookId, (counts.get(webhookId) ?? 0) + 1);
    return counts;
  }

  async handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks).toString();
    const webhookId = String(req.headers['webhook-id']);
    try {
      for (const secret of this.secrets)
        new Webhook(secret).verify(body, req.headers as Record<string, string>);
    } catch (error) {
      this.refused.push(`${webhookId}: ${error}`);
    }
    const received = { webhookId, at: Date.now(), body, event: JSON.parse(body), headers: req.headers };
    this.received.push(received);
    this.answering(res, received, this.received.length);
  }
}
