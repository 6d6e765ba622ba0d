import { toTimestamp } from '../base/clock.ts';
import type { DeadLetter, Delivery, DeliveryFailure, NewEndpoint, Tally } from '../store/webhookStore.ts';

/** An endpoint as API and command line show it: never its secrets. */
export function presentEndpoint(endpoint: NewEndpoint, now: number) {
  const { id, url, events, description, secrets, createdAt, disabled } = endpoint;
  const previous = secrets.find(({ expiresAt }) => expiresAt !== undefined && now < expiresAt);
  return {
    id,
    url,
    events,
    ...(description !== undefined && { description }),
    status: disabled === undefined ? 'enabled' : 'disabled',
    ...(disabled && { disabled_at: toTimestamp(disabled.at), disabled_reason: disabled.reason }),
    ...(previous?.expiresAt && { previous_secret_expires_at: toTimestamp(previous.expiresAt) }),
    created_at: toTimestamp(createdAt),
  };
}

/** How its deliveries go. */
export function presentTally(tally: Tally) {
  const { pending, deadLetters, delivered, failures, dropped, droppedFrom, droppedTo, deliveredAt } = tally;
  return {
    pending,
    dead_letters: deadLetters,
    delivered,
    failed_attempts: failures,
    dropped,
    ...(droppedFrom !== undefined && { dropped_from: toTimestamp(droppedFrom) }),
    ...(droppedTo !== undefined && { dropped_to: toTimestamp(droppedTo) }),
    ...(deliveredAt !== undefined && { last_delivered_at: toTimestamp(deliveredAt) }),
    ...presentFailure(tally.failure),
  };
}

/** `dateOf`: see `ServiceTime`. */
export function presentDelivery(delivery: Delivery, dateOf: (stamp: number) => number) {
  return { ...presentMessage(delivery), due_at: toTimestamp(dateOf(delivery.at)) };
}

export function presentDeadLetter(letter: DeadLetter, dateOf: (stamp: number) => number) {
  return { ...presentMessage(letter), given_up_at: toTimestamp(dateOf(letter.at)), cause: letter.death };
}

function presentMessage({ webhookId, type, occurredAt, attempts, failure }: Delivery) {
  return {
    webhook_id: webhookId,
    type,
    ...(type !== 'webhook.test' && { job_id: webhookId.replace(/^msg_/, 'job_') }),
    occurred_at: toTimestamp(occurredAt),
    attempts,
    ...presentFailure(failure),
  };
}

function presentFailure(failure: DeliveryFailure | undefined) {
  return failure && { last_failure: { at: toTimestamp(failure.at), reason: failure.reason } };
}
