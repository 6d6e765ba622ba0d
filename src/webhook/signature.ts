import { createHmac, randomBytes } from 'node:crypto';
import { fromBase64, toBase64 } from '../base/bytes.ts';

const SECRET_PREFIX = 'whsec_';
const SECRET_BYTES = 32;
/** Limits for a secret that the caller chooses (Standard Webhooks 1.0.0, "Signature scheme"). */
const SECRET_BYTES_MIN = 24;
const SECRET_BYTES_MAX = 64;

/** A new secret: `whsec_` and the Base64 of 32 random bytes. */
export function newSecret(): string {
  return SECRET_PREFIX + toBase64(randomBytes(SECRET_BYTES));
}

/** The key in a secret of that form, of 24 to 64 bytes; undefined for anything else. */
export function parseSecret(text: string): Uint8Array | undefined {
  if (!text.startsWith(SECRET_PREFIX)) return undefined;
  const key = fromBase64(text.slice(SECRET_PREFIX.length));
  return key && key.length >= SECRET_BYTES_MIN && key.length <= SECRET_BYTES_MAX ? key : undefined;
}

export interface SignedMessage {
  webhookId: string;
  /** The time of this attempt, milliseconds since the Unix epoch. */
  sentAt: number;
  body: Uint8Array;
  /** Each secret produces a signature; a receiver needs one that it can verify. */
  secrets: readonly string[];
}

/** The headers of Standard Webhooks 1.0.0: HMAC-SHA256 over `id.timestamp.body`, under each secret. */
export function signatureHeaders({
  webhookId,
  sentAt,
  body,
  secrets,
}: SignedMessage): Record<string, string> {
  const timestamp = String(Math.floor(sentAt / 1000));
  const signatures = secrets.map((secret) => {
    const hmac = createHmac('sha256', parseSecret(secret) ?? '');
    return `v1,${hmac.update(`${webhookId}.${timestamp}.`).update(body).digest('base64')}`;
  });
  return {
    'webhook-id': webhookId,
    'webhook-timestamp': timestamp,
    'webhook-signature': signatures.join(' '),
  };
}
