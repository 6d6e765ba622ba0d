import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Logger } from 'pino';
import { BoundedBytes } from '../base/bounded.ts';
import { ServiceError } from '../base/errors.ts';
import { NOTE_LENGTH_MAX } from '../log/note.ts';
import { takingAnyBody } from '../web/admission.ts';
import { ConnectionLimits } from '../web/connectionLimits.ts';
import { IncomingBody } from '../web/incomingBody.ts';
import { openServer, type WebServer, type WebServerOptions } from '../web/server.ts';
import type { HeldCheckpoints } from './heldCheckpoints.ts';
import type { Witness, WitnessReply } from './witness.ts';

export interface WitnessServerOptions {
  listen: WebServerOptions['at'];
  witness: Witness;
  held: HeldCheckpoints;
  logger: Logger;
}

const HEAD_BYTES_MAX = 8 * 1024;
const HEAD_MS_MAX = 5_000;
const BODY_IDLE_MS_MAX = 5_000;
const REQUEST_MS_MAX = 15_000;
const CLOSE_MS_MAX = 2_000;
const CONNECTIONS = { max: 256, perAddressMax: 16 };
/** Room for the longest note, the longest proof, and `old`. */
const BODY_BYTES_MAX = NOTE_LENGTH_MAX + 4096;

type Reply = WitnessReply | { status: 404 | 405 | 408 | 413 | 500; type?: string; body: string };

/** Serves a witness over HTTP/1.1 (C2SP tlog-witness). Throws OperatorError if the address is not available. */
export function openWitnessServer(options: WitnessServerOptions): Promise<WebServer> {
  return openServer({
    at: options.listen,
    key: '--listen',
    headBytesMax: HEAD_BYTES_MAX,
    headMsMax: HEAD_MS_MAX,
    requestMsMax: REQUEST_MS_MAX,
    closeMsMax: CLOSE_MS_MAX,
    limits: new ConnectionLimits(CONNECTIONS),
    handle: takingAnyBody((req, res) => void handle(req, res, options)),
    logger: options.logger,
  });
}

/** Never rejects. */
async function handle(
  req: IncomingMessage,
  res: ServerResponse,
  options: WitnessServerOptions,
): Promise<void> {
  const reply = await answer(req, options).catch((error: unknown): Reply => {
    if (error instanceof ServiceError)
      return { status: error.code === 'body_too_large' ? 413 : 408, body: `${error.message}\n` };
    options.logger.error({ event: 'not_cosigned', err: error }, 'a checkpoint could not be cosigned');
    return { status: 500, body: 'the witness has a fault; its log says which\n' };
  });
  const { status, type = 'text/plain; charset=utf-8', body } = reply;
  res.writeHead(status, {
    'Content-Type': type,
    'Content-Length': Buffer.byteLength(body),
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    // The unread rest of a request could not be told apart from the next one.
    ...(req.complete ? {} : { Connection: 'close' }),
  });
  res.end(req.method === 'HEAD' ? undefined : body);
}

async function answer(req: IncomingMessage, { witness, held }: WitnessServerOptions): Promise<Reply> {
  const path = req.url ?? '';
  if (path === '/add-checkpoint') {
    if (req.method !== 'POST') return { status: 405, body: 'send it with POST\n' };
    return witness.addCheckpoint(await readBody(req));
  }
  const [, name] = /^\/([0-9a-f]{64})\/checkpoint$/.exec(path) ?? [];
  const note = name === undefined ? undefined : held.noteOf(name);
  if (note === undefined) return { status: 404, body: 'there is nothing at this path\n' };
  return req.method === 'GET' || req.method === 'HEAD'
    ? { status: 200, body: note }
    : { status: 405, body: 'only GET and HEAD\n' };
}

/** A note is UTF-8. Other bytes become characters that no valid signature covers. */
async function readBody(req: IncomingMessage): Promise<string> {
  const body = new BoundedBytes(BODY_BYTES_MAX);
  await new IncomingBody(req, { idleTimeoutMs: BODY_IDLE_MS_MAX }).read((chunk) => {
    if (!body.add(chunk))
      throw new ServiceError('body_too_large', `The body has more than ${BODY_BYTES_MAX} bytes.`);
  });
  return body.bytes.toString('utf8');
}
