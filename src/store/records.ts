import { DamagedRecord } from '../base/assert.ts';
import { sha256 } from '../base/crypto.ts';

/** Enough to notice damage. It does not protect against tampering: a process that can write to the store can make a new one. */
const CHECKSUM_BYTES = 8;

/**
 * A record on disk: a checksum, which is the first 8 bytes of SHA-256 over the rest; then JSON, because JSON keeps every string code unit
 * for code unit, lone surrogates included, and V8 reads it faster than anything written in JavaScript.
 *
 * LMDB lacks checksums of its own, and a manifest does not cover all of a record: it does not name the client of the job.
 */
export function encodeRecord(record: unknown): Buffer {
  const json = Buffer.from(JSON.stringify(record));
  return Buffer.concat([checksumOf(json), json]);
}

/** Throws DamagedRecord if these are not the bytes that were written; `what` names them. */
export function parseRecord<T>(bytes: Uint8Array, what = 'a record'): T {
  // A list reads hundreds of records, so this makes only one view of each.
  const json = bytes.length < CHECKSUM_BYTES ? undefined : jsonOf(bytes);
  if (json === undefined || !hasChecksum(bytes, json))
    throw new DamagedRecord(`${what} in the store is damaged: its checksum is wrong`);
  return JSON.parse(json.toString()) as T;
}

/** A record that exists once in a store. */
export interface OneRecord {
  read(): Promise<Buffer | undefined>;
  write(record: Buffer): Promise<void>;
}

/** Undefined for bytes that are not a valid record. */
export function readable<T>(bytes: Uint8Array | undefined): T | undefined {
  try {
    return bytes && parseRecord<T>(bytes);
  } catch {
    return undefined;
  }
}

function hasChecksum(bytes: Uint8Array, json: Uint8Array): boolean {
  const checksum = sha256(json);
  for (let at = 0; at < CHECKSUM_BYTES; at += 1) if (bytes[at] !== checksum[at]) return false;
  return true;
}

function jsonOf(bytes: Uint8Array): Buffer {
  const { buffer, byteOffset, length } = bytes;
  return Buffer.from(buffer, byteOffset + CHECKSUM_BYTES, length - CHECKSUM_BYTES);
}

function checksumOf(json: Uint8Array): Uint8Array {
  return sha256(json).subarray(0, CHECKSUM_BYTES);
}
