import { toRfc3339 } from '../base/clock.ts';
import type {
  DeadLetter,
  Delivery,
  DeliveryFailure,
  EndpointTally,
  NewEndpoint,
} from '../store/webhookStore.ts';

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
