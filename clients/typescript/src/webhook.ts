import { createHmac, timingSafeEqual } from 'node:crypto';

/** What a webhook tells. `data` is a job, except for `webhook.test`. */
export interface WebhookEvent {
  type: string;
  /** RFC 3339. */
  timestamp: string;
  data: Record<string, unknown>;
}

/** The webhook is forged, altered or too old: answer 401, and do nothing. */
export class WebhookRefused extends Error {
  override readonly name = 'WebhookRefused';
}

const AGE_SECONDS_MAX = 300;
const SECRET = /^whsec_[A-Za-z0-9+/]+={0,2}$/;

/**
 * The event of a webhook (Standard Webhooks 1.0.0). `body` has the bytes as they arrived, `secrets` those of the endpoint: two while one is
 * replaced. Throws WebhookRefused. The same event can arrive twice: ignore a `webhook-id` that was handled before.
 */
export function verifyWebhook(
  body: Uint8Array | string,
  headers: Readonly<Record<string, string | string[] | undefined>>,
  secrets: string | readonly string[],
  now: Date = new Date(),
): WebhookEvent {
  const given = new Map(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
  const header = (name: string): string => {
    const value = given.get(name);
    if (typeof value !== 'string')
      throw new WebhookRefused(`the header ${name} is missing, or there are several`);
    return value;
  };
  const [id, timestamp, signatures] = [
    header('webhook-id'),
    header('webhook-timestamp'),
    header('webhook-signature'),
  ];
  if (!/^\d{1,12}$/.test(timestamp) || Math.abs(now.getTime() / 1000 - Number(timestamp)) > AGE_SECONDS_MAX)
    throw new WebhookRefused('the webhook was not sent within the last five minutes');
  const bytes = typeof body === 'string' ? Buffer.from(body) : body;
  const expected = [secrets].flat().map((secret) => {
    if (!SECRET.test(secret)) throw new TypeError('a webhook secret is whsec_ and Base64');
    const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
    return createHmac('sha256', key).update(`${id}.${timestamp}.`).update(bytes).digest();
  });
  const isGenuine = signatures.split(' ').some((signature) => {
    const [version, text = ''] = signature.split(',');
    const mac = Buffer.from(text, 'base64');
    return version === 'v1' && expected.some((one) => one.length === mac.length && timingSafeEqual(one, mac));
  });
  if (!isGenuine) throw new WebhookRefused('no signature is of the secret of this endpoint');
  return JSON.parse(Buffer.from(bytes).toString()) as WebhookEvent;
}
