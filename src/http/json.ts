import { ServiceError } from '../base/errors.ts';
import { parseUniqueJson } from '../manifest/jcs.ts';
import { readWhole } from './body.ts';
import type { RequestContext } from './state.ts';

const JSON_BYTES_MAX = 64 * 1024;
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Reads a JSON body, none of whose objects names a member twice. Throws ServiceError. */
export async function readJson(ctx: RequestContext, timeoutMs: number): Promise<unknown> {
  const bytes = await readWhole(ctx, { what: 'A JSON body', bytesMax: JSON_BYTES_MAX, timeoutMs });
  return parseJson(bytes, 'body');
}

/** Parses a body, or a line of one. Throws ServiceError. */
export function parseJson(bytes: Uint8Array, what: 'body' | 'line'): unknown {
  let text: string;
  try {
    text = UTF8.decode(bytes);
    JSON.parse(text);
  } catch {
    throw new ServiceError('malformed_json', `The ${what} must be one JSON object in UTF-8.`);
  }
  try {
    return parseUniqueJson(text);
  } catch {
    // Of a member named twice JSON.parse keeps the last, in silence: another reader might have taken the first.
    const message = 'The JSON object names a member more than once. Name it once.';
    throw new ServiceError('duplicate_parameter', message);
  }
}
