import { hash, randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const SECRET_LENGTH = 30;
const CHECKSUM_LENGTH = 6;

/**
 * A new API key, `seal_<environment>_<30 base62><6 base62 CRC-32>`: 178 bits of the system's randomness. With the checksum, a mistyped
 * or foreign key is refused without a look-up, and secret scanners can tell a key from noise.
 */
export function newApiKey(environment: string): string {
  const secret = Array.from({ length: SECRET_LENGTH }, () => ALPHABET[randomInt(ALPHABET.length)]).join('');
  return withChecksum(prefixOf(environment) + secret);
}

/** Whether the text has the form of a key of this environment, checksum included. The key may still be unknown. */
export function isApiKey(text: string, environment: string): boolean {
  const prefix = prefixOf(environment);
  if (text.length !== prefix.length + SECRET_LENGTH + CHECKSUM_LENGTH || !text.startsWith(prefix))
    return false;
  if (!/^[0-9A-Za-z]+$/.test(text.slice(prefix.length))) return false;
  return withChecksum(text.slice(0, -CHECKSUM_LENGTH)) === text;
}

/** What the store keeps of a key: the lower-case hex SHA-256 of the whole key. Keys are random, so no salt is needed. */
export function hashApiKey(apiKey: string): string {
  return hash('sha256', apiKey, 'hex');
}

function prefixOf(environment: string): string {
  return `seal_${environment}_`;
}

/** CRC-32 (as in zlib) over the text before the checksum, in base 62, most significant digit first, padded with `0`. */
function withChecksum(text: string): string {
  let rest = crc32(text);
  let digits = '';
  for (let n = 0; n < CHECKSUM_LENGTH; n++) {
    digits = ALPHABET.charAt(rest % ALPHABET.length) + digits;
    rest = Math.floor(rest / ALPHABET.length);
  }
  return text + digits;
}
