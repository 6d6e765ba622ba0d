import { hash, hkdfSync, randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const SECRET_LENGTH = 30;
const CHECKSUM_LENGTH = 6;

/**
 * A new API key, `seal_<environment>_<30 base62><6 base62 CRC-32>`: 178 bits of the system's randomness. With the checksum, a mistyped or
 * foreign key is refused without a look-up, and secret scanners can distinguish a key from noise.
 */
export function newApiKey(environment: string): string {
  const secret = Array.from({ length: SECRET_LENGTH }, () => ALPHABET[randomInt(ALPHABET.length)]).join('');
  return withChecksum(prefixOf(environment) + secret);
}

/**
 * The key that replaces another: the same key each time. It cannot be derived from the old key without the salt, which is random and stays
 * in the store.
 */
export function successorApiKey(apiKey: string, salt: Uint8Array, environment: string): string {
  const bytes = new Uint8Array(
    hkdfSync('sha256', apiKey, salt, 'pdfseal successor of an API key', 4 * SECRET_LENGTH),
  );
  // Only bytes below a multiple of the alphabet's length are used, so that all digits are equally likely. There are always enough of them.
  const digits = Array.from(
    bytes.filter((byte) => byte < 4 * ALPHABET.length),
    (byte) => ALPHABET[byte % ALPHABET.length],
  );
  return withChecksum(prefixOf(environment) + digits.slice(0, SECRET_LENGTH).join(''));
}

/** Whether the text has the form of a key of this environment, checksum included. The key may still be unknown. */
export function isApiKey(text: string, environment: string): boolean {
  const prefix = prefixOf(environment);
  if (text.length !== prefix.length + SECRET_LENGTH + CHECKSUM_LENGTH || !text.startsWith(prefix))
    return false;
  if (!/^[0-9A-Za-z]+$/.test(text.slice(prefix.length))) return false;
  return withChecksum(text.slice(0, -CHECKSUM_LENGTH)) === text;
}

/** The form in which the store keeps a key: the lower-case hex SHA-256 of the whole key. Keys are random, so a salt is not needed. */
export function hashApiKey(apiKey: string): string {
  return hash('sha256', apiKey, 'hex');
}

/** The name under which the store knows a client certificate that is mapped to a client. API keys never have this form. */
export function hashCertificateName(name: string): string {
  return hash('sha256', `certificate ${name}`, 'hex');
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
