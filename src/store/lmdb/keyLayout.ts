import { assert } from '../../base/assert.ts';
import { toHex } from '../../base/bytes.ts';
import { sha256 } from '../../base/crypto.ts';
import type { QuotaWindow } from '../../job/job.ts';
import { type IdKind, ownUuid, uuidOf } from '../ids.ts';
import type { IdempotencyKey } from '../store.ts';

/**
 * Keys are short and fixed in length, so that indexes stay small and names of any length fit: everything except numbers and job ids is a
 * truncated SHA-256. Readers of such an index check the record itself.
 */
const CREDENTIAL_HASH = /^[0-9a-f]{64}$/;
export const TERM_BYTES = 8;
const IDEMPOTENCY_BYTES = 16;
const QUOTA_BYTES = 16;
const TIME_BYTES = 6;

export const JOB_KEY_BYTES = 16;

/** Sorts after every job key. */
export const JOB_KEY_END = Buffer.alloc(JOB_KEY_BYTES + 1, 0xff);

/** The value of an entry that consists of its key alone. */
export const NOTHING = Buffer.alloc(0);

/** The 16 bytes of a UUID; undefined if the id is not of that kind, or does not have the form this store issues. */
export function idKey(kind: IdKind, id: string): Buffer | undefined {
  const uuid = uuidOf(kind, id);
  return uuid === undefined ? undefined : Buffer.from(uuid, 'hex');
}

/** Like {@link idKey}, but throws BrokenInvariant for an id that this service did not issue. */
export function ownIdKey(kind: IdKind, id: string): Buffer {
  return Buffer.from(ownUuid(kind, id), 'hex');
}

export function parseJobKey(key: Uint8Array): string {
  return `job_${toHex(key)}`;
}

/** The smallest job key of that millisecond (RFC 9562, section 5.7: a UUIDv7 begins with it). */
export function jobKeyAt(epochMs: number): Buffer {
  const key = Buffer.alloc(JOB_KEY_BYTES);
  key.writeUIntBE(Math.min(Math.max(epochMs, 0), 2 ** 48 - 1), 0, TIME_BYTES);
  return key;
}

export const COUNTER_BYTES = 8;

/** Leaf indexes and tree sizes: 8 bytes, big-endian. */
export function counterKey(value: number): Buffer {
  const key = Buffer.alloc(COUNTER_BYTES);
  key.writeBigUInt64BE(BigInt(value));
  return key;
}

/** The number in the counter key that begins at `offset`. A list reads hundreds of them, so this makes no view. */
export function parseCounterKey(key: Uint8Array, offset = 0): number {
  assert(key.length >= offset + COUNTER_BYTES, 'a counter in the store is too short');
  let value = 0;
  for (let at = offset; at < offset + COUNTER_BYTES; at += 1) value = value * 256 + (key[at] ?? 0);
  return value;
}

export function tileKey(level: number, index: number): Buffer {
  return Buffer.concat([Buffer.of(level), counterKey(index)]);
}

/** Undefined for bytes that are not a key of a tile. */
export function parseTileKey(key: Uint8Array): { level: number; index: number } | undefined {
  const [level] = key;
  if (level === undefined || key.length !== 1 + COUNTER_BYTES) return undefined;
  return { level, index: parseCounterKey(key, 1) };
}

/** The name of a posting list: its distinguishing values in JSON, which keeps any string exactly. */
export function termKey(...term: string[]): Uint8Array {
  return sha256(Buffer.from(JSON.stringify(term))).subarray(0, TERM_BYTES);
}

/** The 32 bytes of a key's hash; undefined for text that is not 64 hex characters. */
export function credentialKey(keyHash: string): Buffer | undefined {
  return CREDENTIAL_HASH.test(keyHash) ? Buffer.from(keyHash, 'hex') : undefined;
}

export function idempotencyKey({ clientId, operation, key }: IdempotencyKey): Uint8Array {
  return sha256(Buffer.from(JSON.stringify([clientId, operation, key]))).subarray(0, IDEMPOTENCY_BYTES);
}

export const ENDPOINT_KEY_BYTES = 16;

/** Length of every key that {@link deliveryKey} makes of a whole message. */
export const DELIVERY_KEY_BYTES = ENDPOINT_KEY_BYTES + TIME_BYTES + JOB_KEY_BYTES;

/** Sorts the deliveries of an endpoint by that time. */
export function deliveryKey(endpoint: Uint8Array, epochMs: number, message: Uint8Array): Buffer {
  const key = Buffer.allocUnsafe(ENDPOINT_KEY_BYTES + TIME_BYTES + message.length);
  key.set(endpoint);
  key.writeUIntBE(Math.min(Math.max(Math.trunc(epochMs), 0), 2 ** 48 - 1), ENDPOINT_KEY_BYTES, TIME_BYTES);
  key.set(message, ENDPOINT_KEY_BYTES + TIME_BYTES);
  return key;
}

export function parseDeliveryKey(key: Uint8Array): { endpointId: string; at: number; webhookId: string } {
  const bytes = Buffer.from(key.buffer, key.byteOffset, key.byteLength);
  return {
    endpointId: `we_${bytes.toString('hex', 0, ENDPOINT_KEY_BYTES)}`,
    at: bytes.readUIntBE(ENDPOINT_KEY_BYTES, TIME_BYTES),
    webhookId: `msg_${bytes.toString('hex', ENDPOINT_KEY_BYTES + TIME_BYTES)}`,
  };
}

/** Sorts entries by their expiry. */
export function expiryKey(acceptedAtMs: number, idempotency: Uint8Array): Buffer {
  return Buffer.concat([timeKey(acceptedAtMs), idempotency]);
}

/** Sorts counts by the end of their windows. */
export function quotaKey(clientId: string, { name, startsAt, endsAt }: QuotaWindow): Buffer {
  const count = sha256(Buffer.from(JSON.stringify([clientId, name, startsAt]))).subarray(0, QUOTA_BYTES);
  return Buffer.concat([timeKey(endsAt), count]);
}

/** End of the window whose count has that key. */
export function endOfWindow(key: Uint8Array): number {
  return Buffer.from(key).readUIntBE(0, TIME_BYTES);
}

/** Sorts before every key that begins with this time or a later one. */
export function timeKey(epochMs: number): Buffer {
  const key = Buffer.alloc(TIME_BYTES);
  key.writeUIntBE(epochMs, 0, TIME_BYTES);
  return key;
}

/** Lengths of every key in `expiry` and in `quotas`. */
export const EXPIRY_KEY_BYTES = TIME_BYTES + IDEMPOTENCY_BYTES;
export const QUOTA_KEY_BYTES = TIME_BYTES + QUOTA_BYTES;

export function parseExpiryKey(key: Uint8Array): { acceptedAtMs: number; idempotency: Uint8Array } {
  const bytes = Buffer.from(key.buffer, key.byteOffset, key.byteLength);
  return { acceptedAtMs: bytes.readUIntBE(0, TIME_BYTES), idempotency: bytes.subarray(TIME_BYTES) };
}
