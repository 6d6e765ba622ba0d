import canonicalize from 'canonicalize';
import { assert } from '../base/assert.ts';
import { fromUtf8, toHex } from '../base/bytes.ts';
import { sha512 } from '../base/crypto.ts';

/**
 * The canonical form of a JSON value as UTF-8 (RFC 8785). Throws an Error for a number that is not finite and for a
 * string with a lone surrogate, which have no canonical form.
 */
export function encodeCanonical(value: unknown): Uint8Array {
  const text = canonicalize(value);
  assert(text !== undefined, 'only a JSON value has a canonical form');
  return fromUtf8(text);
}

/** Hex SHA-512 of the canonical form of an object without the member that states it. Throws an Error if there is no canonical form. */
export function digestWithout(member: string, object: object): string {
  return toHex(sha512(encodeCanonical({ ...object, [member]: undefined })));
}

/**
 * Parses JSON in which no object names a member twice (I-JSON, RFC 7493, section 2.3, the base of RFC 8785). Readers differ about which of
 * two equal members counts, so a reader could see a value that is not sealed. Throws a SyntaxError.
 */
export function parseUniqueJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  // In JSON, each colon outside a string belongs to one member. Duplicates are counted in the text, but not in the value. Every string is
  // terminated here; the pattern does not require it, so that the search never backtracks.
  const written = text.match(/"(?:[^"\\]|\\.)*"?|:/g)?.filter((token) => token === ':').length ?? 0;
  if (written !== countMembers(value)) throw new SyntaxError('an object names a member twice');
  return value;
}

/** Counts the members of all objects in the value. Uses a list instead of recursion, because the writer chooses the depth. */
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
