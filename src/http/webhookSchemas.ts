/** Webhook endpoints as callers send and see them, and what is sent to endpoints; on the wire. */
import { z } from 'zod';
import { DEATHS, WEBHOOK_EVENTS } from '../store/webhookStore.ts';
import { ENDPOINTS_PER_CLIENT_MAX, OVERLAP_MS_DEFAULT } from '../webhook/endpoints.ts';
import { jobId, SCHEMAS, time } from './schemas.ts';

export const OVERLAP_SECONDS_MAX = 30 * 86_400;
export const REPLAYED_BY_NAME_MAX = 1000;

const count = z.int().min(0);
export const endpointId = z.string().regex(/^we_[0-9a-f]{32}$/);
const webhookId = z
  .string()
  .regex(/^msg_[0-9a-f]{32}$/)
  .describe('As in the header `webhook-id`: the same for every attempt and every replay.');
const secret = z
  .string()
  .regex(/^whsec_[A-Za-z0-9+/]+=*$/)
  .describe('Base64 of 24 to 64 bytes.');
const events = z.array(z.enum(WEBHOOK_EVENTS)).min(1).meta({ uniqueItems: true, default: WEBHOOK_EVENTS });
const nextCursor = z.string().exactOptional().describe('Give it as `cursor` to go on.');

const endpoint = z.object({
  id: endpointId,
  url: z.url(),
  events,
  description: z.string().exactOptional(),
  status: z.enum(['enabled', 'disabled']),
  disabled_at: time.exactOptional(),
  disabled_reason: z
    .enum(['request', 'gone'])
    .exactOptional()
    .describe('`gone`: it answered 410. Nothing is sent or queued until it is enabled.'),
  previous_secret_expires_at: time
    .exactOptional()
    .describe('Until then the secret before the rotation signs too.'),
  created_at: time,
});

const lastFailure = z.object({
  at: time,
  reason: z.string().describe('`http_<status>`, `timeout`, `connection_refused`, `tls_failed`, …'),
});
const tally = z.object({
  pending: count,
  dead_letters: count,
  delivered: count,
  failed_attempts: count,
  dropped: count.describe(
    'Found backlog and dead letters full: see `GET /jobs` for what became of those jobs.',
  ),
  dropped_from: time.exactOptional(),
  dropped_to: time.exactOptional(),
  last_delivered_at: time.exactOptional(),
  last_failure: lastFailure.exactOptional(),
});
const message = z.object({
  webhook_id: webhookId,
  type: z.enum([...WEBHOOK_EVENTS, 'webhook.test']),
  job_id: jobId.exactOptional(),
  occurred_at: time,
  attempts: count,
  last_failure: lastFailure.exactOptional(),
});

const settings = z.strictObject({
  url: z.string().meta({ format: 'uri', maxLength: 2048 }),
  events: events.exactOptional(),
  description: z.string().meta({ maxLength: 256 }).exactOptional(),
});

/** By their names in `openapi.json`. */
export const WEBHOOK_SCHEMAS = {
  WebhookEndpoint: endpoint,
  WebhookEndpointList: z.object({ webhook_endpoints: z.array(endpoint).max(ENDPOINTS_PER_CLIENT_MAX) }),
  WebhookEndpointWithSecret: endpoint.extend({ secret: secret.describe('Shown in this answer only.') }),
  WebhookEndpointWithDeliveries: endpoint.extend({ deliveries: tally }),
  CreateWebhookEndpoint: settings.extend({ secret: secret.exactOptional() }),
  ChangeWebhookEndpoint: settings.partial(),
  RotateWebhookSecret: z.strictObject({
    overlap_seconds: count
      .max(OVERLAP_SECONDS_MAX)
      .default(OVERLAP_MS_DEFAULT / 1000)
      .describe('How long the secret before signs too.'),
    secret: secret.exactOptional().describe('Left out, one is made.'),
  }),
  ReplayDeadLetters: z.strictObject({
    webhook_ids: z
      .array(webhookId)
      .min(1)
      .max(REPLAYED_BY_NAME_MAX)
      .exactOptional()
      .describe('Left out: all.'),
  }),
  Replay: z.object({
    replayed: count.describe('Fewer than asked for when the backlog has no more room.'),
  }),
  WebhookTest: z.object({ webhook_id: webhookId }),
  WebhookDeliveryList: z.object({
    deliveries: z.array(message.extend({ due_at: time })),
    next_cursor: nextCursor,
  }),
  WebhookDeadLetterList: z.object({
    dead_letters: z.array(message.extend({ given_up_at: time, cause: z.enum(DEATHS) })),
    next_cursor: nextCursor,
  }),
  WebhookEvent: z.object({
    type: z.enum(WEBHOOK_EVENTS),
    timestamp: time.describe('When the job ended.'),
    data: SCHEMAS.SealJob,
  }),
};
export type WebhookAnswers = {
  [Name in keyof typeof WEBHOOK_SCHEMAS]: z.infer<(typeof WEBHOOK_SCHEMAS)[Name]>;
};
