import type { Clock } from '../base/clock.ts';
import { ServiceError } from '../base/errors.ts';
import { invalidField } from '../job/fieldValues.ts';
import type { Act, ActName } from '../manifest/auditRecord.ts';
import type { Store } from '../store/store.ts';
import type { Delivery, DeliveryPage, NewEndpoint, WebhookEndpoint } from '../store/webhookStore.ts';
import type { TargetPolicy } from '../web/policy.ts';
import {
  auditedEndpoint,
  disabled,
  ENDPOINTS_PER_CLIENT_MAX,
  type EndpointChange,
  enabled,
  newEndpoint,
  readEndpointFields,
  tooManyEndpoints,
  withFields,
  withSecret,
} from '../webhook/endpoints.ts';
import {
  decodePosition,
  encodePosition,
  presentDeadLetter,
  presentDelivery,
  presentEndpoint,
  presentTally,
} from '../webhook/presentEndpoint.ts';
import { newSecret } from '../webhook/signature.ts';
import { readConfirmedJson, readOptionalJson, readOverlapMs } from './json.ts';
import { readPage } from './listQuery.ts';
import { actOfCaller, answerJson, callerOf, type Middleware, type RequestContext } from './requestContext.ts';
import type { WebhookOperationId } from './webhookOperations.ts';
import { OVERLAP_SECONDS, REPLAYED_BY_NAME_MAX, type WebhookBody } from './webhookSchemas.ts';

export interface WebhooksOptions {
  store: Pick<Store, 'webhooks' | 'serviceTime'>;
  /** The rules for the URLs of endpoints. */
  policy: Pick<TargetPolicy, 'guard'>;
  bodyTimeoutMs: number;
  publicUrl: string;
  clock: Clock;
}

/** Handlers of the operations on the webhook endpoints of the caller's client. */
export function webhookHandlers({
  store,
  policy,
  bodyTimeoutMs,
  publicUrl,
  clock,
}: WebhooksOptions): Record<WebhookOperationId, Middleware> {
  const { endpoints, outbox } = store.webhooks;
  const dateOf = (stamp: number) => store.serviceTime.dateOf(stamp);

  /** An unknown endpoint, a malformed id and an endpoint of another client cause the same error. */
  async function ownEndpoint(ctx: RequestContext): Promise<WebhookEndpoint> {
    const endpoint = await endpoints.get(ctx.params.endpoint_id ?? '');
    if (endpoint?.clientId !== callerOf(ctx).viewer.clientId) throw notFound();
    return endpoint;
  }

  async function change(
    ctx: RequestContext,
    make: EndpointChange,
    name: ActName,
  ): Promise<WebhookBody<'WebhookEndpoint'>> {
    const endpoint = await ownEndpoint(ctx);
    const act = actOn(ctx, name, make(endpoint) ?? endpoint);
    const changed = await endpoints.change(endpoint.id, make, act);
    if (changed === undefined) throw notFound();
    return presentEndpoint(changed, clock());
  }

  async function page<T extends Delivery>(
    ctx: RequestContext,
    read: (endpointId: string, page: DeliveryPage) => Promise<T[]>,
  ): Promise<{ found: T[]; next_cursor: string | undefined }> {
    const { id } = await ownEndpoint(ctx);
    const wanted = readPage(ctx.querystring, decodePosition);
    const found = await read(id, wanted);
    const last = found.length < wanted.limit ? undefined : found.at(-1);
    return { found, next_cursor: last && encodePosition(last) };
  }

  return {
    /** Only this answer shows the secret. */
    async createWebhookEndpoint(ctx) {
      const body = await readConfirmedJson(ctx, bodyTimeoutMs);
      const fields = readEndpointFields(body, ['url', 'events', 'description', 'secret'], policy);
      const { secret = newSecret() } = fields;
      const endpoint = newEndpoint(callerOf(ctx).viewer.clientId, { ...fields, secret }, clock());
      const act = actOn(ctx, 'webhook.add', endpoint);
      if (!(await endpoints.add(endpoint, ENDPOINTS_PER_CLIENT_MAX, act))) throw tooManyEndpoints();
      ctx.set('Location', `${publicUrl}/v1/webhook-endpoints/${endpoint.id}`);
      answerJson<WebhookBody<'WebhookEndpointWithSecret'>>(ctx, 201, {
        ...presentEndpoint(endpoint, clock()),
        secret,
      });
    },

    /** The list is short, so it has no pages. */
    async listWebhookEndpoints(ctx) {
      const all = await endpoints.all(callerOf(ctx).viewer.clientId);
      answerJson<WebhookBody<'WebhookEndpointList'>>(ctx, 200, {
        webhook_endpoints: all.map((one) => presentEndpoint(one, clock())),
      });
    },

    async getWebhookEndpoint(ctx) {
      const endpoint = await ownEndpoint(ctx);
      const deliveries = presentTally(await outbox.tally(endpoint.id));
      const shown = { ...presentEndpoint(endpoint, clock()), deliveries };
      answerJson<WebhookBody<'WebhookEndpointWithDeliveries'>>(ctx, 200, shown);
    },

    async changeWebhookEndpoint(ctx) {
      await ownEndpoint(ctx);
      const body = await readConfirmedJson(ctx, bodyTimeoutMs);
      const fields = readEndpointFields(body, ['url', 'events', 'description'], policy);
      answerJson(ctx, 200, await change(ctx, withFields(fields), 'webhook.change'));
    },

    async deleteWebhookEndpoint(ctx) {
      const endpoint = await ownEndpoint(ctx);
      const act = actOn(ctx, 'webhook.remove', endpoint);
      if (!(await endpoints.remove(endpoint.id, act))) throw notFound();
      ctx.status = 204;
    },

    /** Only this answer shows the new secret. */
    async rotateWebhookSecret(ctx) {
      await ownEndpoint(ctx);
      const { overlap_seconds, ...rest } = await readOptionalJson(ctx, bodyTimeoutMs);
      const { secret = newSecret() } = readEndpointFields(rest, ['secret'], policy);
      const overlapMs = readOverlapMs(overlap_seconds, OVERLAP_SECONDS);
      const changed = await change(ctx, withSecret(secret, overlapMs, clock()), 'webhook.rotate');
      answerJson<WebhookBody<'WebhookEndpointWithSecret'>>(ctx, 200, { ...changed, secret });
    },

    async enableWebhookEndpoint(ctx) {
      answerJson(ctx, 200, await change(ctx, enabled, 'webhook.enable'));
    },

    async disableWebhookEndpoint(ctx) {
      answerJson(ctx, 200, await change(ctx, disabled(clock()), 'webhook.disable'));
    },

    async testWebhookEndpoint(ctx) {
      const { id } = await ownEndpoint(ctx);
      const webhookId = await outbox.test(id);
      if (webhookId === undefined) throw notFound();
      answerJson<WebhookBody<'WebhookTest'>>(ctx, 202, { webhook_id: webhookId });
    },

    async listWebhookDeliveries(ctx) {
      const { found, next_cursor } = await page(ctx, outbox.pending);
      const deliveries = found.map((one) => presentDelivery(one, dateOf));
      answerJson<WebhookBody<'WebhookDeliveryList'>>(ctx, 200, { deliveries, next_cursor });
    },

    async listWebhookDeadLetters(ctx) {
      const { found, next_cursor } = await page(ctx, outbox.deadLetters);
      const dead_letters = found.map((one) => presentDeadLetter(one, dateOf));
      answerJson<WebhookBody<'WebhookDeadLetterList'>>(ctx, 200, { dead_letters, next_cursor });
    },

    async replayWebhookDeadLetters(ctx) {
      const endpoint = await ownEndpoint(ctx);
      const { webhook_ids, ...rest } = await readOptionalJson(ctx, bodyTimeoutMs);
      readEndpointFields(rest, [], policy);
      const act = actOn(ctx, 'webhook.replay', endpoint);
      const replayed = await outbox.replay(endpoint.id, readWebhookIds(webhook_ids), act);
      answerJson<WebhookBody<'Replay'>>(ctx, 202, { replayed });
    },
  };
}

function actOn(ctx: RequestContext, act: ActName, endpoint: NewEndpoint): Act {
  return actOfCaller(callerOf(ctx), act, auditedEndpoint(endpoint));
}

function notFound(): ServiceError {
  const message = 'The client of this API key has no webhook endpoint with this id.';
  return new ServiceError('webhook_endpoint_not_found', message);
}

function readWebhookIds(value: unknown): string[] | undefined {
  if (value === undefined) return undefined;
  const isGood = Array.isArray(value) && value.length > 0 && value.length <= REPLAYED_BY_NAME_MAX;
  if (isGood && value.every((id) => typeof id === 'string')) return value;
  const demand = `must be a list of 1 to ${REPLAYED_BY_NAME_MAX} ids, or be absent to replay all.`;
  throw invalidField('webhook_ids', demand);
}
