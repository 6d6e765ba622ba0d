import { createCipheriv, randomBytes } from 'node:crypto';

const ALGORITHM = 'aes-256-ctr';
const KEY_BYTES = 32;
const BLOCK_BYTES = 16;

/** Each key encrypts one file, which is written once. So the counter can begin at 0. */
export function newKey(): Buffer {
  return randomBytes(KEY_BYTES);
}

/**
 * AES-256 in counter mode (NIST SP 800-38A, 6.5), from any byte offset of a file. The same function encrypts and
 * decrypts, and keeps the length. It does not authenticate: the reader must compare digests.
 */
export class Keystream {
  readonly #cipher: ReturnType<typeof createCipheriv>;

  constructor(key: Uint8Array, position = 0) {
    const counter = Buffer.alloc(BLOCK_BYTES);
    counter.writeBigUInt64BE(BigInt(Math.floor(position / BLOCK_BYTES)), BLOCK_BYTES - 8);
    this.#cipher = createCipheriv(ALGORITHM, key, counter);
    this.#cipher.update(Buffer.alloc(position % BLOCK_BYTES));
  }

  /** Encrypts or decrypts the next bytes into a new buffer. */
  apply(data: Uint8Array): Buffer {
    return this.#cipher.update(data);
  }
}
