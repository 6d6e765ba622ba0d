import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import { ServiceError } from '../../src/base/errors.ts';
import type { HashPool } from '../../src/hash/pool.ts';
import { type IntakeOptions, openUpload, readUpload } from '../../src/http/receive.ts';
import type { CreateRequest } from '../../src/job/fields.ts';
import type { DocumentDigests } from '../../src/job/job.ts';

export const BOUNDARY = 'b0undary';
export const CONTENT_TYPE = `multipart/form-data; boundary=${BOUNDARY}`;

/** What the intake said of one request. */
export interface Received {
  code?: string;
  parameter?: string;
  message?: string;
  document?: DocumentDigests;
  request?: CreateRequest;
}

export interface UploadServer {
  port: number;
  /** What was said of every request, in order; also of those whose client had gone. */
  received: Received[];
}

export interface UploadServerOptions extends Partial<IntakeOptions> {
  pool: Pick<HashPool, 'hasher'>;
  bodyIdleTimeoutMs?: number;
  bodyBytesPerSecondMin?: number;
  signal?: AbortSignal;
  /** Time between the request's head and the reading of its body. */
  delayMs?: number;
}

/** The intake behind nothing but node:http, closed with the test. */
export async function openUploads(test: Test, options: UploadServerOptions): Promise<UploadServer> {
  const { signal, delayMs = 0, bodyIdleTimeoutMs = 60_000, bodyBytesPerSecondMin, ...overrides } = options;
  const intake: IntakeOptions = {
    documentBytesMax: 1024 * 1024,
    patience: { idleTimeoutMs: bodyIdleTimeoutMs, bytesPerSecondMin: bodyBytesPerSecondMin },
    ...overrides,
  };
  const received: Received[] = [];
  const server = createServer({ requestTimeout: 0 }, async (req, res) => {
    if (delayMs > 0) await sleep(delayMs);
    const receive = async () => {
      const upload = openUpload(req, { kind: 'multipart' }, intake);
      return readUpload(req, upload, intake, { clientId: 'a', signal, isAwaited: true });
    };
    const outcome = await receive().then(
      ({ content, request }): Received => ({ ...(content && { document: content.document }), request }),
      refused,
    );
    received.push(outcome);
    res.setHeader('Connection', 'close');
    res.end(JSON.stringify(outcome));
    req.resume();
  });
  test.teardown(() => close(server));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { port: (server.address() as AddressInfo).port, received };
}

function refused(error: unknown): Received {
  if (!(error instanceof ServiceError)) return { code: `not a ServiceError: ${error}` };
  return { code: error.code, message: error.message, ...(error.parameter && { parameter: error.parameter }) };
}

async function close(server: Server): Promise<void> {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
}

/** A connection with the request's head sent; the body is the caller's. Without a length it is chunked by the caller. */
export function startUpload(port: number, headers: Record<string, string | number>): Socket {
  const socket = connect(port, '127.0.0.1');
  const lines = Object.entries({ Host: 'localhost', ...headers }).map(([name, value]) => `${name}: ${value}`);
  socket.write(Buffer.from(`POST / HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`, 'latin1'));
  return socket;
}

/** Posts a body with its length, each piece in a write of its own. */
export async function upload(
  port: number,
  body: Uint8Array | Uint8Array[],
  contentType = CONTENT_TYPE,
): Promise<Received> {
  const pieces = body instanceof Uint8Array ? [body] : body;
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
  const socket = startUpload(port, { 'Content-Type': contentType, 'Content-Length': length });
  socket.setNoDelay(true);
  for (const piece of pieces) await new Promise((resolve) => socket.write(piece, resolve));
  return answerOf(socket);
}

/** Reads the answer and ends the connection. */
export async function answerOf(socket: Socket): Promise<Received> {
  let text = '';
  for await (const chunk of socket) text += chunk;
  return JSON.parse(text.slice(text.indexOf('\r\n\r\n') + 4));
}

export interface TestPart {
  /** Header lines without the last line end, as bytes in latin1. */
  headers: string;
  body: string | Uint8Array;
}

export function field(name: string, value: string | Uint8Array): TestPart {
  return { headers: `Content-Disposition: form-data; name="${name}"`, body: value };
}

export function file(bytes: string | Uint8Array, name = 'file'): TestPart {
  const disposition = `Content-Disposition: form-data; name="${name}"; filename="a.pdf"`;
  return { headers: `${disposition}\r\nContent-Type: application/pdf`, body: bytes };
}

/** A multipart body of these parts. */
export function form(...parts: TestPart[]): Buffer {
  const pieces = parts.flatMap(({ headers, body }) => [
    Buffer.from(`--${BOUNDARY}\r\n${headers}\r\n\r\n`, 'latin1'),
    Buffer.from(body),
    Buffer.from('\r\n'),
  ]);
  return Buffer.concat([...pieces, Buffer.from(`--${BOUNDARY}--\r\n`)]);
}
