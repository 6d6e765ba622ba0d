import { ServiceError } from '../base/errors.ts';
import { invalidField } from '../job/fieldValues.ts';
import { parseUniqueJson } from '../manifest/jcs.ts';
import { readWhole, requireMediaType } from './requestBody.ts';
import type { RequestContext } from './requestContext.ts';

const JSON_BYTES_MAX = 64 * 1024;
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Reads a JSON body. No object in the body may name a member twice, or `__proto__`. Throws ServiceError. */
export async function readJson(ctx: RequestContext, timeoutMs: number): Promise<unknown> {
  const bytes = await readWhole(ctx, { what: 'A JSON body', bytesMax: JSON_BYTES_MAX, timeoutMs });
  const body = parseJson(bytes, 'body');
  if (namesPrototype(body)) throw malformed('body');
  return body;
}

/** Whether an object in the value has a member that, once copied, would be the prototype of the copy. Without recursion, since the writer chooses the depth. */
function namesPrototype(value: unknown): boolean {
  const open: unknown[] = [value];
  while (open.length > 0) {
    const next = open.pop();
    if (typeof next !== 'object' || next === null) continue;
    if (Object.hasOwn(next, '__proto__')) return true;
    open.push(...Object.values(next));
  }
  return false;
}

/** Reads the members of a JSON body that the caller can leave out. Throws ServiceError. */
export async function readOptionalJson(
  ctx: RequestContext,
  timeoutMs: number,
): Promise<Record<string, unknown>> {
  const { headers } = ctx.req;
  const isThere = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
  if (!isThere) return {};
  requireMediaType(ctx, ['application/json'], 'Content-Type must be application/json.');
  const body = await readJson(ctx, timeoutMs);
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
    // JSON.parse silently keeps the last of two members with one name; another reader may keep the first.
    const message = 'The JSON object names a member more than once. Name it once.';
    throw new ServiceError('duplicate_parameter', message);
  }
}

function malformed(what: 'body' | 'line'): ServiceError {
  return new ServiceError('malformed_json', `The ${what} must be one JSON object in UTF-8.`);
}
