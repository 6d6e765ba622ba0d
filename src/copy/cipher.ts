import { createCipheriv, randomBytes } from 'node:crypto';

const ALGORITHM = 'aes-256-ctr';
const KEY_BYTES = 32;
const BLOCK_BYTES = 16;

/** A key is for one file that is written once, so its counter may begin at 0. */
export function newKey(): Buffer {
  return randomBytes(KEY_BYTES);
}

/**
 * AES-256 in counter mode (NIST SP 800-38A, 6.5), from any byte of a file on: what enciphers deciphers too, and keeps
 * lengths. It hides and does not authenticate: whoever reads compares digests.
 */
export class Keystream {
  readonly #cipher: ReturnType<typeof createCipheriv>;

  constructor(key: Uint8Array, position = 0) {
    const counter = Buffer.alloc(BLOCK_BYTES);
    counter.writeBigUInt64BE(BigInt(Math.floor(position / BLOCK_BYTES)), BLOCK_BYTES - 8);
    this.#cipher = createCipheriv(ALGORITHM, key, counter);
    this.#cipher.update(Buffer.alloc(position % BLOCK_BYTES));
  }

  /** The next bytes; a new buffer. */
  apply(data: Uint8Array): Buffer {
    return this.#cipher.update(data);
  }
}
