import { v7 as uuidv7 } from 'uuid';
import { randomIdBytes } from './random.ts';

const SEQUENCE_MAX = 0xffff_ffff;

let newestMs = 0;
let sequence = 0;

/**
 * A UUIDv7 (RFC 9562, section 5.7) as 32 hex characters. Those of one process ascend, even within a millisecond, by a counter with a random
 * start (section 6.2, method 1).
 */
export function newUuid(): string {
  const random = randomIdBytes(16);
  const now = Date.now();
  if (now > newestMs || sequence === SEQUENCE_MAX) {
    newestMs = Math.max(now, newestMs + 1);
    sequence = random.readUInt32BE(6) >>> 1;
  } else {
    sequence += 1;
  }
  return uuidv7({ random, msecs: newestMs, seq: sequence }, Buffer.allocUnsafe(16)).toString('hex');
}
