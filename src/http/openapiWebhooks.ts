import type { ErrorCode } from '../base/errors.ts';
import { DEATHS, WEBHOOK_EVENTS } from '../store/webhookStore.ts';
import { ENDPOINTS_PER_CLIENT_MAX, OVERLAP_MS_DEFAULT } from '../webhook/endpoints.ts';
import {
  EVERY_ANSWER,
  failures,
  header,
  json,
  rateLimitHeaders,
  ref,
  SCOPED,
  secured,
} from './openapiParts.ts';
import { jobId, object, type Schema, time } from './openapiSchemas.ts';

const FOUND: ErrorCode[] = [...SCOPED, 'webhook_endpoint_not_found'];
const WITH_BODY: ErrorCode[] = [
  'body_timeout',
  'malformed_json',
  'body_too_large',
  'unsupported_media_type',
  'unknown_parameter',
  'duplicate_parameter',
  'invalid_parameter',
];

const endpointId = {
  name: 'endpoint_id',
  in: 'path',
  required: true,
  schema: { type: 'string', pattern: '^we_[0-9a-f]{32}$' },
};

const page = [
  { name: 'limit', in: 'query', schema: { type: 'integer', minimum: 1, maximum: 100, default: 50 } },
  {
    name: 'cursor',
    in: 'query',
    schema: { type: 'string', description: '`next_cursor` of the page before.' },
  },
];

const webhookId: Schema = {
  type: 'string',
  pattern: '^msg_[0-9a-f]{32}$',
  description: 'As in the header `webhook-id`: the same for every attempt and every replay.',
};
const nextCursor: Schema = { type: 'string', description: 'Give it as `cursor` to go on.' };
const count: Schema = { type: 'integer', minimum: 0 };
const lastFailure = object(['at', 'reason'], {
  at: time,
  reason: {
    type: 'string',
    description: '`http_<status>`, `timeout`, `connection_refused`, `tls_failed`, …',
  },
});
const messageType: Schema = { type: 'string', enum: [...WEBHOOK_EVENTS, 'webhook.test'] };
const message: Record<string, Schema> = {
  webhook_id: webhookId,
  type: messageType,
  job_id: jobId,
  occurred_at: time,
  attempts: count,
  last_failure: lastFailure,
};

const events: Schema = {
  type: 'array',
  items: { type: 'string', enum: WEBHOOK_EVENTS },
  minItems: 1,
  uniqueItems: true,
  default: WEBHOOK_EVENTS,
};
const secret: Schema = {
  type: 'string',
  pattern: '^whsec_[A-Za-z0-9+/]+=*$',
  description: 'Base64 of 24 to 64 bytes.',
};
const fields: Record<string, Schema> = {
  url: { type: 'string', format: 'uri', maxLength: 2048 },
  events,
  description: { type: 'string', maxLength: 256 },
};

const endpoint: Record<string, Schema> = {
  id: { type: 'string', pattern: '^we_[0-9a-f]{32}$' },
  url: { type: 'string', format: 'uri' },
  events,
  description: { type: 'string' },
  status: { type: 'string', enum: ['enabled', 'disabled'] },
  disabled_at: time,
  disabled_reason: {
    type: 'string',
    enum: ['request', 'gone'],
    description: '`gone`: it answered 410. Nothing is sent or queued until it is enabled.',
  },
  previous_secret_expires_at: {
    ...time,
    description: 'Until then the secret before the rotation signs too.',
  },
  created_at: time,
};
const ENDPOINT_REQUIRED = ['id', 'url', 'events', 'status', 'created_at'];

export const WEBHOOK_SCHEMAS: Record<string, Schema> = {
  WebhookEndpoint: object(ENDPOINT_REQUIRED, endpoint),
  WebhookEndpointList: object(['webhook_endpoints'], {
    webhook_endpoints: { type: 'array', items: ref('WebhookEndpoint'), maxItems: ENDPOINTS_PER_CLIENT_MAX },
  }),
  WebhookEndpointWithSecret: object([...ENDPOINT_REQUIRED, 'secret'], {
    ...endpoint,
    secret: { ...secret, description: 'Shown in this answer only.' },
  }),
  WebhookEndpointWithDeliveries: object([...ENDPOINT_REQUIRED, 'deliveries'], {
    ...endpoint,
    deliveries: object(['pending', 'dead_letters', 'delivered', 'failed_attempts', 'dropped'], {
      pending: count,
      dead_letters: count,
      delivered: count,
      failed_attempts: count,
      dropped: {
        ...count,
        description: 'Found backlog and dead letters full: see `GET /jobs` for what became of those jobs.',
      },
      dropped_from: time,
      dropped_to: time,
      last_delivered_at: time,
      last_failure: lastFailure,
    }),
  }),
  CreateWebhookEndpoint: object(['url'], { ...fields, secret }, { additionalProperties: false }),
  ChangeWebhookEndpoint: object([], fields, { additionalProperties: false }),
  RotateWebhookSecret: object(
    [],
    {
      overlap_seconds: {
        ...count,
        maximum: 30 * 86_400,
        default: OVERLAP_MS_DEFAULT / 1000,
        description: 'How long the secret before signs too.',
      },
      secret: { ...secret, description: 'Left out, one is made.' },
    },
    { additionalProperties: false },
  ),
  ReplayDeadLetters: object(
    [],
    {
      webhook_ids: {
        type: 'array',
        items: webhookId,
        minItems: 1,
        maxItems: 1000,
        description: 'Left out: all.',
      },
    },
    { additionalProperties: false },
  ),
  Replay: object(['replayed'], {
    replayed: { ...count, description: 'Fewer than asked for when the backlog has no more room.' },
  }),
  WebhookTest: object(['webhook_id'], { webhook_id: webhookId }),
  WebhookDeliveryList: object(['deliveries'], {
    deliveries: {
      type: 'array',
      items: object(['webhook_id', 'type', 'occurred_at', 'attempts', 'due_at'], {
        ...message,
        due_at: time,
      }),
    },
    next_cursor: nextCursor,
  }),
  WebhookDeadLetterList: object(['dead_letters'], {
    dead_letters: {
      type: 'array',
      items: object(['webhook_id', 'type', 'occurred_at', 'attempts', 'given_up_at', 'cause'], {
        ...message,
        given_up_at: time,
        cause: { type: 'string', enum: DEATHS },
      }),
    },
    next_cursor: nextCursor,
  }),
  WebhookEvent: object(['type', 'timestamp', 'data'], {
    type: { type: 'string', enum: WEBHOOK_EVENTS },
    timestamp: { ...time, description: 'When the job ended.' },
    data: ref('SealJob'),
  }),
};

const created = { Location: header('^https?://', 'The endpoint.') };

export const WEBHOOK_PATHS: Record<string, object> = {
  '/webhook-endpoints': {
    post: {
      ...operation('createWebhookEndpoint', 'Have this client told what becomes of its jobs'),
      requestBody: body('CreateWebhookEndpoint', true),
      responses: {
        201: {
          ...json('WebhookEndpointWithSecret', 'The endpoint, with its secret.'),
          headers: { ...EVERY_ANSWER, ...rateLimitHeaders, ...created },
        },
        ...limitedFailures([
          ...SCOPED,
          ...WITH_BODY,
          'missing_parameter',
          'webhook_url_not_allowed',
          'too_many_webhook_endpoints',
        ]),
      },
    },
    get: {
      ...operation('listWebhookEndpoints', 'List the endpoints of this client'),
      responses: { 200: json('WebhookEndpointList', 'All of them.'), ...failures(SCOPED) },
    },
  },
  '/webhook-endpoints/{endpoint_id}': {
    parameters: [endpointId],
    get: {
      ...operation('getWebhookEndpoint', 'An endpoint, and how its deliveries go'),
      responses: { 200: json('WebhookEndpointWithDeliveries', 'The endpoint.'), ...failures(FOUND) },
    },
    patch: {
      ...operation('changeWebhookEndpoint', 'Change URL, events or description'),
      requestBody: body('ChangeWebhookEndpoint', true),
      responses: {
        200: limitedJson('WebhookEndpoint', 'The endpoint.'),
        ...limitedFailures([...FOUND, ...WITH_BODY, 'webhook_url_not_allowed']),
      },
    },
    delete: {
      ...operation('deleteWebhookEndpoint', 'Delete an endpoint and what was still to be sent to it'),
      responses: {
        204: { description: 'It is gone.', headers: { ...EVERY_ANSWER, ...rateLimitHeaders } },
        ...limitedFailures(FOUND),
      },
    },
  },
  '/webhook-endpoints/{endpoint_id}/rotate-secret': {
    parameters: [endpointId],
    post: {
      ...operation('rotateWebhookSecret', 'Sign with a new secret, and for a while with the old one too'),
      requestBody: body('RotateWebhookSecret', false),
      responses: {
        200: limitedJson('WebhookEndpointWithSecret', 'The endpoint, with its new secret.'),
        ...limitedFailures([...FOUND, ...WITH_BODY]),
      },
    },
  },
  ...simple('enable', 'enableWebhookEndpoint', 'Send to it again', 200, 'WebhookEndpoint'),
  ...simple('disable', 'disableWebhookEndpoint', 'Send and queue nothing', 200, 'WebhookEndpoint'),
  ...simple('test', 'testWebhookEndpoint', 'Send a message of type `webhook.test`', 202, 'WebhookTest'),
  ...list(
    'deliveries',
    'listWebhookDeliveries',
    'What is to be sent, by the time it is due',
    'WebhookDeliveryList',
  ),
  ...list(
    'dead-letters',
    'listWebhookDeadLetters',
    'What was given up, the longest ago first',
    'WebhookDeadLetterList',
  ),
  '/webhook-endpoints/{endpoint_id}/replay': {
    parameters: [endpointId],
    post: {
      ...operation('replayWebhookDeadLetters', 'Send dead letters again'),
      requestBody: body('ReplayDeadLetters', false),
      responses: {
        202: limitedJson('Replay', 'They are due now.'),
        ...limitedFailures([...FOUND, ...WITH_BODY]),
      },
    },
  },
};

export const WEBHOOKS_TAG = { name: 'Webhooks', description: 'Where to tell that jobs have ended.' };

/** What endpoints receive: OpenAPI 3.1 `webhooks`. */
export const WEBHOOKS: Record<string, object> = Object.fromEntries(
  WEBHOOK_EVENTS.map((event) => [
    event,
    {
      post: {
        tags: [WEBHOOKS_TAG.name],
        operationId: event === 'job.completed' ? 'onJobCompleted' : 'onJobFailed',
        summary: `A job of the client has ended: ${event}`,
        // It has no API key, but a signature: see webhook-signature.
        security: [],
        description:
          'Standard Webhooks 1.0.0. Answer 2xx; 410 disables the endpoint; anything else is repeated.',
        parameters: ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => ({
          name,
          in: 'header',
          required: true,
          schema: { type: 'string' },
        })),
        requestBody: body('WebhookEvent', true),
        responses: { '2XX': { description: 'Received. The body is not read.' } },
      },
    },
  ]),
);

function operation(operationId: string, summary: string): object {
  return { operationId, summary, ...secured('webhooks:manage') };
}

function body(schema: string, required: boolean): object {
  return { required, content: { 'application/json': { schema: ref(schema) } } };
}

/** The answers of whatever changes something: see `rate-limit.ts`. */
function limitedJson(schema: string, description: string): object {
  return { ...json(schema, description), headers: { ...EVERY_ANSWER, ...rateLimitHeaders } };
}

function limitedFailures(codes: ErrorCode[]): object {
  return failures([...codes, 'rate_limit_exceeded', 'too_many_requests', 'queue_full'], rateLimitHeaders);
}

function simple(
  name: string,
  operationId: string,
  summary: string,
  status: number,
  schema: string,
  codes: ErrorCode[] = FOUND,
) {
  const responses = { [status]: limitedJson(schema, 'Done.'), ...limitedFailures(codes) };
  return {
    [`/webhook-endpoints/{endpoint_id}/${name}`]: {
      parameters: [endpointId],
      post: { ...operation(operationId, summary), responses },
    },
  };
}

function list(name: string, operationId: string, summary: string, schema: string) {
  const failing = failures([...FOUND, 'invalid_parameter', 'unknown_parameter', 'duplicate_parameter']);
  const responses = { 200: json(schema, 'A page.'), ...failing };
  return {
    [`/webhook-endpoints/{endpoint_id}/${name}`]: {
      parameters: [endpointId],
      get: { ...operation(operationId, summary), parameters: page, responses },
    },
  };
}
