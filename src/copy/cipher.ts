import { createCipheriv, createSecretKey, randomFillSync } from 'node:crypto';

const ALGORITHM = 'aes-256-ctr';
const KEY_BYTES = 32;
const BLOCK_BYTES = 16;

/** Random bytes for the next keys. To fill one key costs as much as to fill all. */
const random = Buffer.alloc(128 * KEY_BYTES);
let usedBytes = random.length;

/** Each key encrypts one file, which is written once. So the counter can begin at 0. */
export function newKey(): Buffer {
  if (usedBytes === random.length) {
    randomFillSync(random);
    usedBytes = 0;
  }
  const key = Buffer.alloc(KEY_BYTES);
  random.copy(key, 0, usedBytes, usedBytes + KEY_BYTES);
  random.fill(0, usedBytes, usedBytes + KEY_BYTES);
  usedBytes += KEY_BYTES;
  return key;
}

/**
 * AES-256 in counter mode (NIST SP 800-38A, 6.5), from any byte offset of a file. The returned function encrypts or decrypts the next bytes
 * into a new buffer of the same length. It does not authenticate: the reader must compare digests.
 */
export function keystream(key: Uint8Array, position = 0): (data: Uint8Array) => Buffer {
  const counter = Buffer.alloc(BLOCK_BYTES);
  counter.writeBigUInt64BE(BigInt(Math.floor(position / BLOCK_BYTES)), BLOCK_BYTES - 8);
  // Node takes four times as long for a key in bytes.
  const cipher = createCipheriv(ALGORITHM, createSecretKey(key), counter);
  cipher.update(Buffer.alloc(position % BLOCK_BYTES));
  return (data) => cipher.update(data);
}
