import * as z from 'zod';
import type { WebhookStatus } from '../../webhook/deliver.ts';
import { ageSeconds, by, plain, showAs, WIRE } from './section.ts';

const { count, seconds } = WIRE;

export const webhooksSchema = z.object({
  endpoints: count,
  disabled: count,
  failing: count.describe('Those that keep failing, and are tried by one delivery at a time.'),
  in_flight: count,
  pending: count,
  oldest_due_age_seconds: seconds.describe('Of the delivery that is due the longest; 0 when none is.'),
  dead_letters: count,
  delivered: count,
  failed_attempts: count,
  dropped: count,
});
type WebhooksSection = z.infer<typeof webhooksSchema>;

export function presentWebhooks(status: WebhookStatus, now: number): WebhooksSection {
  const { endpoints, disabled, failing, pending, delivered, dropped } = status;
  return {
    endpoints,
    disabled,
    failing,
    in_flight: status.inFlight,
    pending,
    oldest_due_age_seconds: ageSeconds(status.oldestDueAt ?? now, now),
    dead_letters: status.deadLetters,
    delivered,
    failed_attempts: status.failures,
    dropped,
  };
}

showAs(webhooksSchema, [
  by(
    'state',
    'pdfseal_webhook_endpoints',
    'Webhook endpoints by state; failing ones are enabled',
    ({ endpoints, disabled, failing }) =>
      Object.entries({ enabled: endpoints - disabled, disabled, failing }),
  ),
  plain('pdfseal_webhooks_pending', 'Webhooks still to be sent', 'pending'),
  plain(
    'pdfseal_webhooks_oldest_due_age_seconds',
    'Since when the webhook that is due the longest is due; 0 when none is',
    'oldest_due_age_seconds',
  ),
  plain(
    'pdfseal_webhooks_dead_letters',
    'Dead letters: webhooks whose last attempt failed, and which can be resent',
    'dead_letters',
  ),
  plain('pdfseal_webhooks_delivered_total', 'Webhooks delivered to the endpoints there are', 'delivered'),
  plain(
    'pdfseal_webhooks_failed_attempts_total',
    'Attempts to deliver a webhook that failed',
    'failed_attempts',
  ),
  plain(
    'pdfseal_webhooks_dropped_total',
    'Webhooks that found backlog and dead letters of their endpoint full',
    'dropped',
  ),
]);
