import { unsignedContent } from '../asn1/der.ts';
import { randomIdBytes } from '../base/random.ts';

const TIME_BYTES = 6;
const RANDOM_BYTES = 12;

/**
 * A unique serial number (RFC 3161, section 2.4.2: unique "even after a possible interruption"): 48 bits of milliseconds and 96 random
 * bits, within the 160 bits that every client must support. Content octets of the INTEGER.
 *
 * The number is not a counter: a counter on disk would cost a flush for each token, would repeat itself after a backup is restored, and
 * could not be shared by the units of one authority. Two tokens of the same millisecond collide with a probability of 2^-96.
 */
export function newSerial(epochMs: number): Uint8Array {
  const octets = Buffer.alloc(TIME_BYTES + RANDOM_BYTES);
  octets.writeUIntBE(epochMs, 0, TIME_BYTES);
  randomIdBytes(RANDOM_BYTES).copy(octets, TIME_BYTES);
  return unsignedContent(octets);
}
