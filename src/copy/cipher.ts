import { createCipheriv, createSecretKey, randomBytes } from 'node:crypto';

const ALGORITHM = 'aes-256-ctr';
const KEY_BYTES = 32;
const BLOCK_BYTES = 16;

/** Each key encrypts one file, which is written once. So the counter can begin at 0. */
export function newKey(): Buffer {
  return randomBytes(KEY_BYTES);
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
