import type { IncomingMessage } from 'node:http';
import { parseDictionary } from 'structured-headers';
import { toHex } from '../base/bytes.ts';

type Headers = IncomingMessage['headersDistinct'];

const SHA256_BYTES = 32;
const BASE64_SHA256 = /^[A-Za-z0-9+/]{43}=$/;

/**
 * The SHA-256 that a server states for the whole document at a URL, lower-case hex: from `Repr-Digest` (RFC 9530, section 3), else from the
 * old `Digest` (RFC 3230), else from the checksum of S3. Undefined if no header has a readable SHA-256. `Content-Digest` is not used: it
 * covers the message, which is empty in the answer to HEAD.
 */
export function representationSha256(headers: Headers): string | undefined {
  return reprDigest(headers) ?? oldDigest(headers) ?? s3Checksum(headers);
}

function reprDigest(headers: Headers): string | undefined {
  try {
    const value = parseDictionary(headers['repr-digest']?.join(', ') ?? '').get('sha-256')?.[0];
    return value instanceof ArrayBuffer && value.byteLength === SHA256_BYTES
      ? toHex(new Uint8Array(value))
      : undefined;
  } catch {
    return undefined;
  }
}

/** Finds `SHA-256=<Base64>` in the list. Names of algorithms are case-insensitive (RFC 3230, section 4.1.1). */
function oldDigest(headers: Headers): string | undefined {
  for (const instance of headers.digest?.join(',').split(',') ?? []) {
    const equals = instance.indexOf('=');
    if (equals === -1 || instance.slice(0, equals).trim().toLowerCase() !== 'sha-256') continue;
    return fromBase64(instance.slice(equals + 1).trim());
  }
  return undefined;
}

/** For an object uploaded in parts, S3 states a checksum of checksums, which is not the document's. It ends in `-<parts>`. */
function s3Checksum(headers: Headers): string | undefined {
  if (headers['x-amz-checksum-type']?.some((type) => type.toUpperCase() !== 'FULL_OBJECT')) return undefined;
  const [checksum, ...others] = headers['x-amz-checksum-sha256'] ?? [];
  return others.length === 0 ? fromBase64(checksum?.trim()) : undefined;
}

function fromBase64(text = ''): string | undefined {
  return BASE64_SHA256.test(text) ? toHex(Buffer.from(text, 'base64')) : undefined;
}
