/** Webhook endpoints in requests and answers, and the messages to endpoints; members have the spelling of the API. */
import * as z from 'zod';
import { DEATHS, WEBHOOK_EVENTS } from '../store/webhookStore.ts';
import { ENDPOINTS_PER_CLIENT_MAX, OVERLAP_MS_DEFAULT } from '../webhook/endpoints.ts';
import { jobId, SCHEMAS, time } from './schemas.ts';

export const OVERLAP_SECONDS = { min: 0, max: 30 * 86_400, default: OVERLAP_MS_DEFAULT / 1000 };
export const REPLAYED_BY_NAME_MAX = 1000;

const count = z.int().min(0);
export const endpointId = z.string().regex(/^we_[0-9a-f]{32}$/);
const webhookId = z
  .string()
  .regex(/^msg_[0-9a-f]{32}$/)
  .describe('The value of the header `webhook-id`; it is the same for every attempt and every replay.');
const secret = z
  .string()
  .regex(/^whsec_[A-Za-z0-9+/]+=*$/)
  .describe('Base64 of 24 to 64 bytes.');
const events = z.array(z.enum(WEBHOOK_EVENTS)).min(1).meta({ uniqueItems: true, default: WEBHOOK_EVENTS });
const nextCursor = z.string().optional().describe('Send it as `cursor` to get the next page.');

const endpoint = z.object({
  id: endpointId,
  url: z.url(),
  events,
  description: z.string().optional(),
  status: z.enum(['enabled', 'disabled']),
  disabled_at: time.optional(),
  disabled_reason: z
    .enum(['request', 'gone'])
    .optional()
    .describe(
      '`gone`: the endpoint answered 410. No message is sent or queued until the endpoint is enabled.',
    ),
  previous_secret_expires_at: time
    .optional()
    .describe('Until this time, messages are also signed with the secret from before the rotation.'),
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
    'Messages that were dropped because backlog and dead letters were full. `GET /jobs` has the outcome of those jobs.',
  ),
  dropped_from: time.optional(),
  dropped_to: time.optional(),
  last_delivered_at: time.optional(),
  last_failure: lastFailure.optional(),
});
const message = z.object({
  webhook_id: webhookId,
  type: z.enum([...WEBHOOK_EVENTS, 'webhook.test']),
  job_id: jobId.optional(),
  occurred_at: time,
  attempts: count,
  last_failure: lastFailure.optional(),
});

const settings = z.strictObject({
  url: z.string().meta({ format: 'uri', maxLength: 2048 }),
  events: events.optional(),
  description: z.string().meta({ maxLength: 256 }).optional(),
});

/** The key is the name of the schema in `openapi.json`. */
export const WEBHOOK_SCHEMAS = {
  WebhookEndpoint: endpoint,
  WebhookEndpointList: z.object({ webhook_endpoints: z.array(endpoint).max(ENDPOINTS_PER_CLIENT_MAX) }),
  WebhookEndpointWithSecret: endpoint.extend({
    secret: secret.describe('Only this answer shows the secret.'),
  }),
  WebhookEndpointWithDeliveries: endpoint.extend({ deliveries: tally }),
  CreateWebhookEndpoint: settings.extend({ secret: secret.optional() }),
  ChangeWebhookEndpoint: settings.partial(),
  RotateWebhookSecret: z.strictObject({
    overlap_seconds: count
      .max(OVERLAP_SECONDS.max)
      .default(OVERLAP_SECONDS.default)
      .describe('Seconds for which the old secret signs too.'),
    secret: secret.optional().describe('The new secret. If absent, the service generates one.'),
  }),
  ReplayDeadLetters: z.strictObject({
    webhook_ids: z.array(webhookId).min(1).max(REPLAYED_BY_NAME_MAX).optional().describe('Left out: all.'),
  }),
  Replay: z.object({
    replayed: count.describe('Number of messages, lower than requested if the backlog is full.'),
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
export type WebhookBody<Name extends keyof typeof WEBHOOK_SCHEMAS> = z.infer<(typeof WEBHOOK_SCHEMAS)[Name]>;
