/** The operations on webhook endpoints, and the messages that endpoints receive. */
import type { ErrorCode } from '../base/errors.ts';
import { WEBHOOK_EVENTS } from '../store/webhookStore.ts';
import {
  BUSY_FAILURES,
  header,
  JSON_FAILURES,
  json,
  jsonBody,
  type Operation,
  QUERY_FAILURES,
  queryParameters,
} from './openapiParts.ts';
import { LIST_PARAMETERS } from './schemas.ts';

const ALL = '/webhook-endpoints';
const ONE = '/webhook-endpoints/{endpoint_id}';
const access = 'webhooks:manage';
const { limit, cursor } = LIST_PARAMETERS;

/** Changes are limited: by the rate of the client, by how many records wait to be sealed, and by the number of simultaneous changes. */
const CHANGE_FAILURES: ErrorCode[] = [
  'webhook_endpoint_not_found',
  'not_found',
  'rate_limit_exceeded',
  'queue_full',
  'storage_full',
  ...BUSY_FAILURES,
];
const change = { method: 'post', access, isLimited: true, failures: CHANGE_FAILURES } as const;

const page = {
  method: 'get',
  access,
  parameters: queryParameters({ limit, cursor }),
  failures: [
    'webhook_endpoint_not_found',
    'not_found',
    'too_many_requests',
    ...QUERY_FAILURES,
  ] satisfies ErrorCode[],
} as const;

export const WEBHOOK_OPERATIONS = {
  createWebhookEndpoint: {
    ...change,
    path: ALL,
    summary: 'Create an endpoint that receives the end of the jobs of this client',
    requestBody: jsonBody('CreateWebhookEndpoint'),
    answers: {
      201: json('WebhookEndpointWithSecret', 'The endpoint, with its secret.', {
        Location: header('^https?://', 'The endpoint.'),
      }),
    },
    failures: [
      ...CHANGE_FAILURES.filter((code) => code !== 'webhook_endpoint_not_found'),
      ...JSON_FAILURES,
      'missing_parameter',
      'webhook_url_not_allowed',
      'too_many_webhook_endpoints',
    ],
  },
  listWebhookEndpoints: {
    method: 'get',
    path: ALL,
    summary: 'List the endpoints of this client',
    access,
    answers: { 200: json('WebhookEndpointList', 'All endpoints of the client.') },
    failures: ['not_found', 'too_many_requests'],
  },
  getWebhookEndpoint: {
    method: 'get',
    path: ONE,
    summary: 'Fetch an endpoint and the state of its deliveries',
    access,
    answers: { 200: json('WebhookEndpointWithDeliveries', 'The endpoint.') },
    failures: ['webhook_endpoint_not_found', 'not_found', 'too_many_requests'],
  },
  changeWebhookEndpoint: {
    ...change,
    method: 'patch',
    path: ONE,
    summary: 'Change the URL, events or description of an endpoint',
    requestBody: jsonBody('ChangeWebhookEndpoint'),
    answers: { 200: json('WebhookEndpoint', 'The endpoint.') },
    failures: [...CHANGE_FAILURES, ...JSON_FAILURES, 'webhook_url_not_allowed'],
  },
  deleteWebhookEndpoint: {
    ...change,
    method: 'delete',
    path: ONE,
    summary: 'Delete an endpoint and its pending messages',
    answers: { 204: { description: 'The endpoint is deleted.' } },
  },
  rotateWebhookSecret: {
    ...change,
    path: `${ONE}/rotate-secret`,
    summary: 'Sign with a new secret, and for a time with the old secret too',
    requestBody: jsonBody('RotateWebhookSecret', false),
    answers: { 200: json('WebhookEndpointWithSecret', 'The endpoint, with its new secret.') },
    failures: [...CHANGE_FAILURES, ...JSON_FAILURES],
  },
  enableWebhookEndpoint: {
    ...change,
    path: `${ONE}/enable`,
    summary: 'Enable an endpoint: send messages to it again',
    answers: { 200: json('WebhookEndpoint', 'Done.') },
  },
  disableWebhookEndpoint: {
    ...change,
    path: `${ONE}/disable`,
    summary: 'Disable an endpoint: send and queue no messages',
    answers: { 200: json('WebhookEndpoint', 'Done.') },
  },
  testWebhookEndpoint: {
    ...change,
    path: `${ONE}/test`,
    summary: 'Send a message of type `webhook.test`',
    answers: { 202: json('WebhookTest', 'Done.') },
  },
  listWebhookDeliveries: {
    ...page,
    path: `${ONE}/deliveries`,
    summary: 'List pending deliveries, the earliest due first',
    answers: { 200: json('WebhookDeliveryList', 'A page.') },
  },
  listWebhookDeadLetters: {
    ...page,
    path: `${ONE}/dead-letters`,
    summary: 'List dead letters, the oldest first',
    answers: { 200: json('WebhookDeadLetterList', 'A page.') },
  },
  replayWebhookDeadLetters: {
    ...change,
    path: `${ONE}/replay`,
    summary: 'Send dead letters again',
    requestBody: jsonBody('ReplayDeadLetters', false),
    answers: { 202: json('Replay', 'The replayed messages are due now.') },
    failures: [...CHANGE_FAILURES, ...JSON_FAILURES],
  },
} satisfies Record<string, Operation>;
export type WebhookOperationId = keyof typeof WEBHOOK_OPERATIONS;

/** The messages that endpoints receive: `webhooks` of OpenAPI 3.1. A signature authenticates them instead of an API key. */
export function describeWebhooks(tag: string): Record<string, object> {
  const describe = (event: (typeof WEBHOOK_EVENTS)[number]) => ({
    tags: [tag],
    operationId: event === 'job.completed' ? 'onJobCompleted' : 'onJobFailed',
    summary: `A job of the client has ended: ${event}`,
    security: [],
    description:
      'Standard Webhooks 1.0.0. Answer 2xx; 410 disables the endpoint; after any other answer the message is sent again.',
    parameters: ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => ({
      name,
      in: 'header',
      required: true,
      schema: { type: 'string' },
    })),
    requestBody: jsonBody('WebhookEvent'),
    responses: { '2XX': { description: 'Received. The body is not read.' } },
  });
  return Object.fromEntries(WEBHOOK_EVENTS.map((event) => [event, { post: describe(event) }]));
}
