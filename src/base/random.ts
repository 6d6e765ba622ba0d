import { randomBytes } from 'node:crypto';

const DRAWN_BYTES = 4096;

let drawn = Buffer.alloc(0);

/**
 * `count` random bytes for identifiers, from a buffer that the system filled in bulk: 16 bytes cost as much as 4096. Not for secrets, which
 * must not be in memory before they are needed.
 */
export function randomIdBytes(count: number): Buffer {
  if (drawn.length < count) drawn = randomBytes(Math.max(DRAWN_BYTES, count));
  const bytes = drawn.subarray(0, count);
  drawn = drawn.subarray(count);
  return bytes;
}
