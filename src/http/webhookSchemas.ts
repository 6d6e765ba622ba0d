/** Webhook endpoints in requests and answers, and the messages to endpoints; members have the spelling of the API. */
import * as z from 'zod';
import { time } from '../job/fieldValues.ts';
import { WEBHOOK_EVENTS } from '../store/webhookStore.ts';
import { ENDPOINTS_PER_CLIENT_MAX, endpointFields, OVERLAP_MS_DEFAULT } from '../webhook/endpoints.ts';
import {
  deadLetterSchema,
  deliverySchema,
  endpointSchema,
  tallySchema,
  webhookIdText,
} from '../webhook/presentEndpoint.ts';
import { SCHEMAS } from './schemas.ts';

export const OVERLAP_SECONDS = { min: 0, max: 30 * 86_400, default: OVERLAP_MS_DEFAULT / 1000 };
export const REPLAYED_BY_NAME_MAX = 1000;

const count = z.int().min(0);
const nextCursor = z.string().optional().describe('Send it as `cursor` to get the next page.');

const { secret, ...fields } = endpointFields;
const settings = z.strictObject({
  url: fields.url,
  events: fields.events.optional(),
  description: fields.description.optional(),
});

/** The key is the name of the schema in `openapi.json`. */
export const WEBHOOK_SCHEMAS = {
  WebhookEndpoint: endpointSchema,
  WebhookEndpointList: z.object({ webhook_endpoints: z.array(endpointSchema).max(ENDPOINTS_PER_CLIENT_MAX) }),
  WebhookEndpointWithSecret: endpointSchema.extend({
    secret: secret.describe('Only this answer shows the secret.'),
  }),
  WebhookEndpointWithDeliveries: endpointSchema.extend({ deliveries: tallySchema }),
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
    webhook_ids: z
      .array(webhookIdText)
      .min(1)
      .max(REPLAYED_BY_NAME_MAX)
      .optional()
      .describe('Left out: all.'),
  }),
  Replay: z.object({
    replayed: count.describe('Number of messages, lower than requested if the backlog is full.'),
  }),
  WebhookTest: z.object({ webhook_id: webhookIdText }),
  WebhookDeliveryList: z.object({
    deliveries: z.array(deliverySchema),
    next_cursor: nextCursor,
  }),
  WebhookDeadLetterList: z.object({
    dead_letters: z.array(deadLetterSchema),
    next_cursor: nextCursor,
  }),
  WebhookEvent: z.object({
    type: z.enum(WEBHOOK_EVENTS),
    timestamp: time.describe('When the job ended.'),
    data: SCHEMAS.SealJob,
  }),
};
export type WebhookBody<Name extends keyof typeof WEBHOOK_SCHEMAS> = z.infer<(typeof WEBHOOK_SCHEMAS)[Name]>;
