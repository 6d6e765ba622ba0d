import { hash } from 'node:crypto';

// Both take the digest as a binary string on its way: for the short inputs of a Merkle tree this is twice as fast as
// asking node:crypto for a Buffer, which it allocates outside the pool.

/** SHA-256 of the bytes: 32 bytes. */
export function sha256(data: Uint8Array): Buffer {
  return Buffer.from(hash('sha256', data, 'binary'), 'binary');
}

/** SHA-512 of the bytes: 64 bytes. */
export function sha512(data: Uint8Array): Buffer {
  return Buffer.from(hash('sha512', data, 'binary'), 'binary');
}

/** Standard Base64 with padding (RFC 4648, section 4). */
export function toBase64(data: Uint8Array): string {
  return Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64');
}

/** Lower-case hexadecimal. */
export function toHex(data: Uint8Array): string {
  return Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('hex');
}

/** Decodes canonical Base64 with padding (RFC 4648, section 4); undefined for anything else. */
export function fromBase64(text: string): Buffer | undefined {
  const data = Buffer.from(text, 'base64');
  return data.toString('base64') === text ? data : undefined;
}

export function bytesEqual(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0;
}
