import { koaBody } from 'koa-body';
import { ServiceError } from '../base/errors.ts';
import {
  type DigestCreateRequest,
  type JsonCreateRequest,
  parseDigestCreate,
  parseJsonCreate,
} from '../job/fields.ts';
import { parseUniqueJson } from '../manifest/jcs.ts';
import { askForBody } from './body.ts';
import type { RequestContext } from './state.ts';

const JSON_BYTES_MAX = 64 * 1024;

const parseBody = koaBody({
  json: true,
  jsonLimit: JSON_BYTES_MAX,
  jsonStrict: true,
  multipart: false,
  urlencoded: false,
  text: false,
  includeUnparsed: true,
  onError: (error) => {
    throw bodyFailure(error);
  },
});

/** Reads a create by reference, `{"source_url": …}`. Throws ServiceError. */
export async function readJsonCreate(ctx: RequestContext, bodyTimeoutMs: number): Promise<JsonCreateRequest> {
  return parseJsonCreate(await readJson(ctx, bodyTimeoutMs));
}

/** Reads a create by digests, `{"document_sha256": …}`. Throws ServiceError. */
export async function readDigestCreate(
  ctx: RequestContext,
  bodyTimeoutMs: number,
): Promise<DigestCreateRequest> {
  return parseDigestCreate(await readJson(ctx, bodyTimeoutMs));
}

/** Reads a JSON body, none of whose objects names a member twice. Throws ServiceError. */
export async function readJson(ctx: RequestContext, timeoutMs: number): Promise<unknown> {
  askForBody(ctx);
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    late.reject(new ServiceError('body_timeout', 'The body did not arrive in time. Send it again.'));
  }, timeoutMs);
  try {
    await Promise.race([parseBody(ctx, async () => {}), late.promise]);
    requireUniqueMembers(ctx.request.rawBody);
    return ctx.request.body;
  } finally {
    clearTimeout(timer);
  }
}

/** Of a member named twice JSON.parse keeps the last, in silence: another reader might have taken the first. */
function requireUniqueMembers(json: string | undefined): void {
  try {
    if (json) parseUniqueJson(json);
  } catch {
    throw new ServiceError(
      'duplicate_parameter',
      'The JSON body names a member more than once. Name it once.',
    );
  }
}

/** What koa-body says in `type` and `status`. Its errors carry the raw body, so they are never kept as a cause. */
function bodyFailure(error: Error & { type?: string }): ServiceError {
  switch (error.type) {
    case 'entity.too.large':
      return new ServiceError('body_too_large', `A JSON body may have ${JSON_BYTES_MAX} bytes at most.`);
    case 'request.aborted':
    case 'request.size.invalid':
      return new ServiceError('incomplete_body', 'The body ended too early. Send it again.');
    default:
      return new ServiceError('malformed_json', 'The body must be one JSON object in UTF-8.');
  }
}
