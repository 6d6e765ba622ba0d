/** Operations on the messages of webhook endpoints. */
import * as z from 'zod';
import { toRfc3339 } from '../base/clock.ts';
import { OperatorError } from '../base/errors.ts';
import { actBy } from '../store/acts.ts';
import type { Delivery, WebhookEndpoint, WebhookStore } from '../store/webhookStore.ts';
import { auditedEndpoint } from '../webhook/endpoints.ts';
import {
  deadLetterSchema,
  decodePosition,
  deliverySchema,
  encodePosition,
  endpointSchema,
  presentDeadLetter,
  presentDelivery,
  presentTally,
  tallySchema,
  webhookIdText,
} from '../webhook/presentEndpoint.ts';
import { changeOf, endpointId, findEndpoint, show, shownEndpoint } from './endpointOperations.ts';
import { operation } from './operation.ts';
import { countText, nameText, readBy, trueOrFalseText } from './operationFields.ts';
import { existing, OF_OWNERS, type StoreParts } from './operationParts.ts';

const listedEndpoint = shownEndpoint.extend({ deliveries: tallySchema });
export type ListedEndpoint = z.infer<typeof listedEndpoint>;

export const listWebhooks = operation({
  name: 'webhooks.list',
  says: 'Lists the endpoints.',
  route: { id: 'listWebhooks', method: 'get', path: '/webhooks' },
  ...OF_OWNERS,
  acts: [],
  fields: { client: { says: 'only endpoints of this client', schema: nameText.optional(), typed: '<name>' } },
  answer: {
    name: 'WebhookList',
    says: 'The endpoints, the oldest first, with the counts of their deliveries.',
    schema: z.object({ webhook_endpoints: z.array(listedEndpoint) }),
  },
  async run({ store: { webhooks }, clock }: StoreParts, { client }) {
    return {
      webhook_endpoints: await withDeliveries(webhooks, await webhooks.endpoints.all(client), clock()),
    };
  },
});

/** The endpoints as they are shown, with the counts of their deliveries. */
export async function withDeliveries(
  { outbox }: Pick<WebhookStore, 'outbox'>,
  endpoints: readonly WebhookEndpoint[],
  now: number,
): Promise<ListedEndpoint[]> {
  const tallies = await outbox.tallies(endpoints.map(({ id }) => id));
  return tallies.flatMap((tally, n) =>
    endpoints[n] ? [{ ...show(endpoints[n], now), deliveries: presentTally(tally) }] : [],
  );
}

export const showWebhook = operation({
  name: 'webhooks.show',
  says: 'Shows an endpoint and its deliveries.',
  route: { id: 'showWebhook', method: 'get', path: '/webhooks/{endpoint_id}' },
  ...OF_OWNERS,
  acts: [],
  fields: { endpoint_id: endpointId },
  answer: {
    name: 'Webhook',
    says: 'The endpoint.',
    schema: listedEndpoint.extend({ revision: z.int().describe('It rises with every change.') }),
  },
  async run({ store, clock }: StoreParts, { endpoint_id: id }) {
    const endpoint = await findEndpoint(store, id);
    const deliveries = presentTally(await store.webhooks.outbox.tally(id));
    return { ...show(endpoint, clock()), revision: endpoint.revision, deliveries };
  },
});

export const testWebhook = operation({
  name: 'webhooks.test',
  says: 'Sends a test message to an endpoint.',
  explains: 'Its type is webhook.test.',
  route: {
    id: 'testWebhook',
    method: 'post',
    path: '/webhooks/{endpoint_id}/test',
    sends: 'json',
    failures: ['queue_full', 'storage_full'],
  },
  role: 'owner',
  // Without a daemon, the message would never be sent.
  needs: 'daemon',
  acts: [],
  fields: { endpoint_id: endpointId },
  answer: {
    name: 'QueuedTest',
    says: 'The message is queued. It is delivered once it neither waits nor is a dead letter.',
    schema: z.object({ id: z.string(), webhook_id: webhookIdText }),
  },
  async run({ store }: StoreParts, { endpoint_id: id }) {
    const { disabled } = await findEndpoint(store, id);
    if (disabled !== undefined) {
      const why = disabled.reason === 'gone' ? 'it answered 410' : 'on request';
      throw new OperatorError(
        `${id} is disabled since ${toRfc3339(disabled.at)} (${why}), so no message is sent to it; to enable it: pdfseal webhooks enable ${id}`,
      );
    }
    return {
      id,
      webhook_id: existing(await store.webhooks.outbox.test(id), 'The endpoint was just removed.'),
    };
  },
});

export const listDeliveries = operation({
  name: 'webhooks.deliveries',
  says: 'Lists the messages that wait, the next one first.',
  route: { id: 'listDeliveries', method: 'get', path: '/webhooks/{endpoint_id}/deliveries' },
  ...OF_OWNERS,
  acts: [],
  fields: {
    endpoint_id: endpointId,
    dead: {
      says: 'list the dead letters instead: messages that are no longer retried',
      schema: trueOrFalseText.prefault(false),
    },
    limit: {
      says: 'how many messages the list has at most',
      schema: countText.prefault(50),
      typed: '<count>',
    },
    cursor: {
      says: 'continue after the last message of the previous list',
      schema: readBy(decodePosition, 'the cursor that the previous list ended with').optional(),
      typed: '<cursor>',
    },
  },
  answer: {
    name: 'DeliveryList',
    says: 'Messages that wait, or dead letters.',
    schema: z.object({
      deliveries: z.array(deliverySchema).optional(),
      dead_letters: z.array(deadLetterSchema).optional(),
      next_cursor: z.string().optional().describe('Absent if the list ends here.'),
    }),
  },
  async run({ store }: StoreParts, { endpoint_id: id, dead, limit, cursor: after }) {
    await findEndpoint(store, id);
    const { outbox } = store.webhooks;
    const dateOf = (stamp: number) => store.serviceTime.dateOf(stamp);
    // One more than shown reveals whether there are more.
    const page = { limit: limit + 1, after };
    const nextOf = (found: readonly Delivery[]) => {
      const last = found.length > limit ? found[limit - 1] : undefined;
      return last && encodePosition(last);
    };
    if (dead) {
      const found = await outbox.deadLetters(id, page);
      const shown = found.slice(0, limit).map((one) => presentDeadLetter(one, dateOf));
      return { dead_letters: shown, next_cursor: nextOf(found) };
    }
    const found = await outbox.pending(id, page);
    const shown = found.slice(0, limit).map((one) => presentDelivery(one, dateOf));
    return { deliveries: shown, next_cursor: nextOf(found) };
  },
});

const BY_NAME_MAX = 1000;
const IDS = `must be a list of 1 to ${BY_NAME_MAX} ids of messages.`;

export const replayWebhook = operation({
  ...changeOf('replay'),
  says: 'Sends dead letters again with their old webhook-id: those that you name, or all of them.',
  fields: {
    endpoint_id: endpointId,
    webhook_ids: {
      says: 'ids of the messages (msg_…)',
      schema: z.array(webhookIdText, IDS).min(1, IDS).max(BY_NAME_MAX, IDS).optional(),
      typed: '[webhook_id...]',
    },
  },
  answer: {
    name: 'ReplayedWebhook',
    says: 'The messages are due now, or as soon as the endpoint is enabled.',
    schema: z.object({
      id: z.string(),
      replayed: z
        .int()
        .describe('Fewer than requested if the backlog is full, or if a named one is not a dead letter.'),
      status: endpointSchema.shape.status,
    }),
  },
  async run({ store, clock }: StoreParts, { endpoint_id: id, webhook_ids: chosen }, actor) {
    const endpoint = await findEndpoint(store, id);
    const object = { ...auditedEndpoint(endpoint), chosen: chosen?.length ?? 'all' };
    const replayed = await store.webhooks.outbox.replay(id, chosen, actBy(actor, 'webhook.replay', object));
    return { id, replayed, status: show(endpoint, clock()).status };
  },
});
