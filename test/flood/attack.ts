/** A process that attacks one daemon in one way until its parent disconnects. Its only argument is an {@link Order}. Every 100 ms it reports how much it has sent. */
import { connect, type Socket } from 'node:net';
import { digestLines } from '../support/client.ts';

export interface Order {
  way: keyof typeof WAYS;
  port: number;
  /** Missing for a stranger. */
  apiKey?: string;
  connections: number;
  /** Of each connection, one after the other without waiting for answers. */
  requests: number;
}

const order = JSON.parse(process.argv[2] ?? '') as Order;
/** A connection that the daemon closed is opened again after so long. */
const AGAIN_MS = 100;
const REPORT_MS = 100;
const HEADS_PER_WRITE = 500;
const BATCH_LINES = 10_000;
const authorization = order.apiKey === undefined ? '' : `Authorization: Bearer ${order.apiKey}\r\n`;
let sent = 0;

const WAYS = {
  /** Requests without a key, pipelined; their answers are read. */
  pipelined: (socket: Socket) => {
    socket.resume();
    pipeline(socket, head('GET', '/v1/jobs'));
  },
  /** Lists, pipelined; no answer is ever read. */
  unread: (socket: Socket) => {
    socket.pause();
    pipeline(socket, head('GET', '/v1/jobs?limit=100'));
  },
  /** The beginning of a head, and then nothing. */
  silent: (socket: Socket) => {
    socket.resume();
    socket.write('GET /v1/jobs HTTP/1.1\r\nHost: ');
    sent += 1;
  },
  /** As many lines as a batch may have, each of which waits for its seal. */
  batches: (socket: Socket) => {
    socket.resume();
    const body = digestLines(BATCH_LINES, { mode: 'blocking' })
      .map((line) => `${line}\n`)
      .join('');
    const headers = `Content-Type: application/x-ndjson\r\nContent-Length: ${Buffer.byteLength(body)}\r\n`;
    socket.write(head('POST', '/v1/batches/seal', headers) + body);
    sent += 1;
  },
};

function head(method: string, path: string, headers = ''): string {
  return `${method} ${path} HTTP/1.1\r\nHost: a\r\n${authorization}${headers}\r\n`;
}

/** Writes as fast as the daemon reads. */
function pipeline(socket: Socket, request: string): void {
  const chunk = request.repeat(HEADS_PER_WRITE);
  let left = order.requests;
  const write = () => {
    while (left > 0 && !socket.destroyed) {
      left -= HEADS_PER_WRITE;
      sent += HEADS_PER_WRITE;
      if (!socket.write(chunk)) return;
    }
  };
  socket.on('drain', write);
  write();
}

function open(): void {
  const socket = connect({ host: '127.0.0.1', port: order.port });
  socket.once('connect', () => WAYS[order.way](socket));
  socket.on('error', () => {});
  socket.once('close', () => setTimeout(open, AGAIN_MS));
}

for (let n = 0; n < order.connections; n += 1) open();
setInterval(() => process.send?.(sent, () => {}), REPORT_MS);
process.on('disconnect', () => process.exit());
