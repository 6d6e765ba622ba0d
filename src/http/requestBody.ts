import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { BoundedBytes } from '../base/bounded.ts';
import { ServiceError } from '../base/errors.ts';
import { SlotQueue } from '../base/slotQueue.ts';
import { Slots } from '../base/slots.ts';
import { askForBody, IncomingBody } from '../web/incomingBody.ts';
import { type Middleware, type RequestContext, senderOf } from './requestContext.ts';

/**
 * The media type of the body, in lower case; it is one of those accepted. Throws ServiceError `unsupported_media_type` for any other type,
 * with `remedy` as the message.
 */
export function requireMediaType<Type extends string>(
  { req }: RequestContext,
  accepted: readonly Type[],
  remedy: string,
): Type {
  const [contentType, ...others] = req.headersDistinct['content-type'] ?? [];
  if (others.length > 0) throw new ServiceError('unsupported_media_type', 'Send Content-Type exactly once.');
  // Node decodes only chunked; any other coding remains on the bytes (RFC 9112, section 6.1).
  const transferCoding = req.headers['transfer-encoding']?.toLowerCase() ?? 'chunked';
  if (req.headers['content-encoding'] !== undefined || transferCoding !== 'chunked') {
    throw new ServiceError(
      'unsupported_media_type',
      'Send the body without Content-Encoding, and with no Transfer-Encoding other than chunked.',
    );
  }
  const mediaType = contentType?.split(';')[0]?.trim().toLowerCase();
  const found = accepted.find((type) => type === mediaType);
  if (found !== undefined) return found;
  throw new ServiceError('unsupported_media_type', remedy);
}

/**
 * Reads a small body to its end, which messages name as `what`. The time limit, in milliseconds, is for the whole body: it fits into a few
 * packets. Throws ServiceError.
 */
export async function readWhole(
  ctx: RequestContext,
  { what, bytesMax, timeoutMs }: { what: string; bytesMax: number; timeoutMs: number },
): Promise<Buffer> {
  const tooLong = () => new ServiceError('body_too_large', `${what} can have at most ${bytesMax} bytes.`);
  if (Number(ctx.req.headers['content-length'] ?? 0) > bytesMax) throw tooLong();
  const body = new IncomingBody(ctx.req, { idleTimeoutMs: timeoutMs });
  const late = new ServiceError('body_timeout', 'The body did not arrive in time. Send it again.');
  using _timer = setTimeout(() => body.fail(late), timeoutMs);
  const whole = new BoundedBytes(bytesMax);
  askForBody(ctx);
  await body.read((chunk) => {
    if (!whole.add(chunk)) throw tooLong();
  });
  return whole.bytes;
}

/** Limits on the bytes of an unwanted body that are discarded before the connection is closed, and on the time that this takes. */
const LINGER_BYTES_MAX = 64 * 1024 * 1024;
const LINGER_MS_MAX = 5_000;
/**
 * Bytes of all unwanted bodies together that are read in a millisecond. Reading them costs as much as reading wanted ones, and a refused
 * client sends the next one at once.
 */
const DISCARDED_BYTES_PER_MS = 32 * 1024;
const UNWANTED = { of: 'unwanted bodies' };
const discarding = new SlotQueue({ ...UNWANTED, max: 1, perClientMax: 1 });
/** Connections kept open for that. Further ones are closed, and may lose the answer. */
const lingering = new Slots({ ...UNWANTED, max: 256, perClientMax: 32 });

/**
 * An answer during the upload of the body would be lost: closing a socket with unread bytes resets it, and the reset overtakes the
 * answer. So the whole answer is sent, with its length and `Connection: close`. Then the rest of the body is discarded until it ends,
 * the client disconnects, or the limits are reached (RFC 9112, section 9.6).
 */
export const linger: Middleware = async (ctx, next) => {
  await next();
  const { req, body } = ctx;
  if (req.complete || req.destroyed) return;
  ctx.set('Connection', 'close');
  if (typeof body !== 'string' || ctx.method === 'HEAD') return;
  const answer = Buffer.from(body);
  const answerThenDiscard = async function* () {
    yield answer;
    await discard(req, senderOf(ctx));
  };
  ctx.body = Readable.from(answerThenDiscard(), { objectMode: false });
  ctx.length = answer.length;
};

/**
 * Discards the rest of the body until it ends, the client disconnects, or the limits are reached. Takes turns with other bodies; if a
 * sender has very many, the others are left unread.
 */
export async function discard(req: IncomingMessage, sender: string): Promise<void> {
  const leave = lingering.tryTake(sender);
  if (leave === undefined) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  using _patience = setTimeout(resolve, LINGER_MS_MAX);
  const over = new AbortController();
  let discardedBytes = 0;
  req.on('data', (chunk: Buffer) => {
    discardedBytes += chunk.length;
    if (discardedBytes > LINGER_BYTES_MAX) return resolve();
    req.pause();
    // Continues when it is the turn of this body.
    const goOn = (give: () => void) => {
      setTimeout(give, chunk.length / DISCARDED_BYTES_PER_MS);
      req.resume();
    };
    discarding.take('', { signal: over.signal }).then(goOn, () => {});
  });
  for (const event of ['end', 'close', 'error']) req.once(event, () => resolve());
  req.resume();
  await promise;
  over.abort();
  leave();
}
