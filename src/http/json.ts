import { koaBody } from 'koa-body';
import { ServiceError } from '../base/errors.ts';
import { parseUniqueJson } from '../manifest/jcs.ts';
import { askForBody } from './requestBody.ts';
import type { RequestContext } from './requestContext.ts';

const JSON_BYTES_MAX = 64 * 1024;
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** In Latin-1 each byte is a character, so that nothing is replaced in silence before {@link parseJson} decodes it. */
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

/** Reads a JSON body, none of whose objects names a member twice. Throws ServiceError. */
export async function readJson(ctx: RequestContext, timeoutMs: number): Promise<unknown> {
  askForBody(ctx);
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    late.reject(new ServiceError('body_timeout', 'The body did not arrive in time. Send it again.'));
  }, timeoutMs);
  try {
    await Promise.race([receive(ctx, async () => {}), late.promise]);
  } finally {
    clearTimeout(timer);
  }
  return parseJson(Buffer.from(ctx.request.rawBody ?? '', 'latin1'), 'body');
}

/** What koa-body says in `type`. Its errors carry the body, so they are never kept as a cause. */
function bodyFailure(error: Error & { type?: string }): ServiceError {
  switch (error.type) {
    case 'entity.too.large':
      return new ServiceError('body_too_large', `A JSON body may have ${JSON_BYTES_MAX} bytes at most.`);
    case 'request.aborted':
    case 'request.size.invalid':
      return new ServiceError('incomplete_body', 'The body ended too early. Send it again.');
    default:
      return malformed('body');
  }
}

/** Parses a body, or a line of one. Throws ServiceError. */
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
    // Of a member named twice JSON.parse keeps the last, in silence: another reader might have taken the first.
    const message = 'The JSON object names a member more than once. Name it once.';
    throw new ServiceError('duplicate_parameter', message);
  }
}

function malformed(what: 'body' | 'line'): ServiceError {
  return new ServiceError('malformed_json', `The ${what} must be one JSON object in UTF-8.`);
}
