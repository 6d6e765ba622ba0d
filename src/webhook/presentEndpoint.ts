/** Webhook endpoints and their deliveries, as API, administration and command line show them. */
import * as z from 'zod';
import { toRfc3339 } from '../base/clock.ts';
import { jobId, time } from '../job/fieldValues.ts';
import {
  DEATHS,
  type DeadLetter,
  type Delivery,
  type DeliveryFailure,
  type DeliveryPage,
  type EndpointTally,
  type NewEndpoint,
  WEBHOOK_EVENTS,
} from '../store/webhookStore.ts';
import { endpointFields } from './endpoints.ts';

const count = z.int().min(0);
export const webhookIdText = z
  .string()
  .regex(/^msg_[0-9a-f]{32}$/)
  .describe('The value of the header `webhook-id`; it is the same for every attempt and every replay.');

export const endpointSchema = z.object({
  id: z.string().regex(/^we_[0-9a-f]{32}$/),
  url: z.url(),
  events: endpointFields.events,
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
export const tallySchema = z.object({
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
  webhook_id: webhookIdText,
  type: z.enum([...WEBHOOK_EVENTS, 'webhook.test']),
  job_id: jobId.optional(),
  occurred_at: time,
  attempts: count,
  last_failure: lastFailure.optional(),
});

export const deliverySchema = message.extend({ due_at: time });
export const deadLetterSchema = message.extend({ given_up_at: time, cause: z.enum(DEATHS) });

/** An endpoint as shown by API and command line, without its secrets. */
export function presentEndpoint(endpoint: NewEndpoint, now: number) {
  const { id, url, events, description, secrets, createdAt, disabled } = endpoint;
  const previous = secrets.find(({ expiresAt }) => expiresAt !== undefined && now < expiresAt);
  return {
    id,
    url,
    events,
    description,
    status: disabled === undefined ? ('enabled' as const) : ('disabled' as const),
    ...(disabled && { disabled_at: toRfc3339(disabled.at), disabled_reason: disabled.reason }),
    ...(previous?.expiresAt && { previous_secret_expires_at: toRfc3339(previous.expiresAt) }),
    created_at: toRfc3339(createdAt),
  };
}

/** The counts of an endpoint's deliveries. */
export function presentTally(tally: EndpointTally) {
  const { pending, deadLetters, delivered, failures, dropped, droppedFrom, droppedTo, deliveredAt } = tally;
  return {
    pending,
    dead_letters: deadLetters,
    delivered,
    failed_attempts: failures,
    dropped,
    ...(droppedFrom !== undefined && { dropped_from: toRfc3339(droppedFrom) }),
    ...(droppedTo !== undefined && { dropped_to: toRfc3339(droppedTo) }),
    ...(deliveredAt !== undefined && { last_delivered_at: toRfc3339(deliveredAt) }),
    ...presentFailure(tally.failure),
  };
}

/** `dateOf`: see `ServiceTime`. */
export function presentDelivery(delivery: Delivery, dateOf: (stamp: number) => number) {
  return { ...presentMessage(delivery), due_at: toRfc3339(dateOf(delivery.at)) };
}

export function presentDeadLetter(letter: DeadLetter, dateOf: (stamp: number) => number) {
  return { ...presentMessage(letter), given_up_at: toRfc3339(dateOf(letter.at)), cause: letter.death };
}

function presentMessage({ webhookId, type, occurredAt, attempts, failure }: Delivery) {
  return {
    webhook_id: webhookId,
    type,
    ...(type !== 'webhook.test' && { job_id: webhookId.replace(/^msg_/, 'job_') }),
    occurred_at: toRfc3339(occurredAt),
    attempts,
    ...presentFailure(failure),
  };
}

function presentFailure(failure: DeliveryFailure | undefined) {
  return failure && { last_failure: { at: toRfc3339(failure.at), reason: failure.reason } };
}

type Position = NonNullable<DeliveryPage['after']>;

/** The position of a message in a list, as it is sent to continue the list there. */
export function encodePosition({ at, webhookId }: Position): string {
  return Buffer.from(`${at} ${webhookId}`).toString('base64url');
}

export function decodePosition(text: string): Position | undefined {
  const [, at, webhookId] =
    /^(\d{1,15}) (msg_[0-9a-f]{32})$/.exec(Buffer.from(text, 'base64url').toString()) ?? [];
  const position = at !== undefined && webhookId !== undefined ? { at: Number(at), webhookId } : undefined;
  return position && encodePosition(position) === text ? position : undefined;
}
