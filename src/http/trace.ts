import { randomIdBytes } from '../base/random.ts';

const TRACEPARENT =
  /^(?<version>[0-9a-f]{2})-(?<traceId>[0-9a-f]{32})-(?<parentId>[0-9a-f]{16})-[0-9a-f]{2}(?<more>-.*)?$/;

/**
 * The trace id of a request, 32 lower-case hex characters: from a valid `traceparent` (W3C Trace Context, section 3.2) that was sent
 * exactly once, else 16 random bytes.
 */
export function traceIdOf(traceparents: readonly string[] = []): string {
  const [traceparent] = traceparents;
  const lent = traceparents.length === 1 && traceparent ? parseTraceparent(traceparent) : undefined;
  return lent ?? randomIdBytes(16).toString('hex');
}

function parseTraceparent(text: string): string | undefined {
  const fields = TRACEPARENT.exec(text.trim())?.groups;
  if (!fields) return undefined;
  const { version, traceId, parentId, more } = fields;
  // Later versions may append fields. Version 00 has exactly four fields, and ff is not a version.
  if (version === 'ff' || (version === '00' && more !== undefined)) return undefined;
  if (/^0+$/.test(traceId ?? '') || /^0+$/.test(parentId ?? '')) return undefined;
  return traceId;
}
