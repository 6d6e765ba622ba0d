import { koaBody } from 'koa-body';
import { within } from '../base/deadline.ts';
import { ServiceError } from '../base/errors.ts';
import { invalidField } from '../job/fieldValues.ts';
import { parseUniqueJson } from '../manifest/jcs.ts';
import { askForBody } from '../web/incomingBody.ts';
import { requireMediaType } from './requestBody.ts';
import type { RequestContext } from './requestContext.ts';

const JSON_BYTES_MAX = 64 * 1024;
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** In Latin-1 each byte is one character, so nothing is silently replaced before {@link parseJson} decodes the body. */
const receive = koaBody({
  json: true,
  jsonLimit: JSON_BYTES_MAX,
  jsonStrict: false,
  encoding: 'latin1',
  includeUnparsed: true,
  multipart: false,
  urlencoded: false,
  text: false,
  onError: (error) => {
    throw bodyFailure(error);
  },
});

/** Reads a JSON body. Objects in the body must not name a member twice. Throws ServiceError. */
export async function readJson(ctx: RequestContext, timeoutMs: number): Promise<unknown> {
  askForBody(ctx);
  const late = () => new ServiceError('body_timeout', 'The body did not arrive in time. Send it again.');
  const received = receive(ctx, async () => {});
  await within(timeoutMs, received, late);
  return parseJson(Buffer.from(ctx.request.rawBody ?? '', 'latin1'), 'body');
}

/**
 * Reads a JSON body, and confirms the caller's key: one that was revoked or has expired in the meantime must not change anything. Throws
 * ServiceError.
 */
export async function readConfirmedJson(ctx: RequestContext, timeoutMs: number): Promise<unknown> {
  requireMediaType(ctx, ['application/json'], 'Content-Type must be application/json.');
  const body = await readJson(ctx, timeoutMs);
  await ctx.state.caller?.confirm();
  return body;
}

/** Like {@link readConfirmedJson}, for a body whose members are all optional, and which can be absent. */
export async function readOptionalJson(
  ctx: RequestContext,
  timeoutMs: number,
): Promise<Record<string, unknown>> {
  const { headers } = ctx.req;
  const isThere = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
  const body = isThere ? await readConfirmedJson(ctx, timeoutMs) : {};
  if (typeof body === 'object' && body !== null && !Array.isArray(body))
    return body as Record<string, unknown>;
  throw malformed('body');
}

/** `overlap_seconds` of a body, in milliseconds. Throws ServiceError. */
export function readOverlapMs(given: unknown, bounds: { min: number; max: number; default: number }): number {
  const { min, max } = bounds;
  const seconds = given === undefined ? bounds.default : given;
  if (typeof seconds === 'number' && Number.isInteger(seconds) && seconds >= min && seconds <= max)
    return seconds * 1000;
  throw invalidField('overlap_seconds', `must be an integer from ${min} to ${max}.`);
}

/** Translates the `type` of a koa-body error. These errors contain the body, so they are never kept as a cause. */
function bodyFailure(error: Error & { type?: string }): ServiceError {
  switch (error.type) {
    case 'entity.too.large':
      return new ServiceError('body_too_large', `A JSON body can have at most ${JSON_BYTES_MAX} bytes.`);
    case 'request.aborted':
    case 'request.size.invalid':
      return new ServiceError('incomplete_body', 'The body ended too early. Send it again.');
    default:
      return malformed('body');
  }
}

/** Parses a body, or one line of a batch. Throws ServiceError. */
export function parseJson(bytes: Uint8Array, what: 'body' | 'line'): unknown {
  let text: string;
  try {
    text = UTF8.decode(bytes);
    JSON.parse(text);
  } catch {
    throw malformed(what);
  }
  try {
    return parseUniqueJson(text);
  } catch {
    // JSON.parse silently keeps the last of two members with the same name; another reader may keep the first.
    const message = 'The JSON object names a member more than once. Name it once.';
    throw new ServiceError('duplicate_parameter', message);
  }
}

function malformed(what: 'body' | 'line'): ServiceError {
  return new ServiceError('malformed_json', `The ${what} must be one JSON object in UTF-8.`);
}
