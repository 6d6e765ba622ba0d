import canonicalize from 'canonicalize';
import { assert } from '../base/assert.ts';
import { fromUtf8 } from '../base/bytes.ts';

/**
 * The canonical form of a JSON value as UTF-8 (RFC 8785). Throws an Error for what has none: a number that is not finite,
 * a string with a lone surrogate.
 */
export function encodeCanonical(value: unknown): Uint8Array {
  const text = canonicalize(value);
  assert(text !== undefined, 'only a JSON value has a canonical form');
  return fromUtf8(text);
}

/**
 * Parses JSON in which no object names a member twice (I-JSON, RFC 7493, section 2.3, which RFC 8785 builds on): where
 * readers differ about which of the two counts, one of them would be shown something that is not sealed.
 * Throws a SyntaxError.
 */
export function parseUniqueJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  // In JSON a colon outside of strings stands for one member: in the text, but not in the value, doubles count. Every string of
  // it has an end; that this is not insisted on spares the search from ever going back.
  const written = text.match(/"(?:[^"\\]|\\.)*"?|:/g)?.filter((token) => token === ':').length ?? 0;
  if (written !== countMembers(value)) throw new SyntaxError('an object names a member twice');
  return value;
}

/** Members of all objects in the value. A list instead of recursion: depth is the writer's choice. */
function countMembers(value: unknown): number {
  let count = 0;
  const open: unknown[] = [value];
  while (open.length > 0) {
    const next = open.pop();
    if (typeof next !== 'object' || next === null) continue;
    const members: unknown[] = Object.values(next);
    if (!Array.isArray(next)) count += members.length;
    for (const member of members) open.push(member);
  }
  return count;
}
