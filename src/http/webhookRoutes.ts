import type { Clock } from '../base/clock.ts';
import { ServiceError } from '../base/errors.ts';
import { invalidField } from '../job/fieldValues.ts';
import type { Act, ActName } from '../manifest/auditRecord.ts';
import type { TargetPolicy } from '../net/policy.ts';
import type { Store } from '../store/store.ts';
import type { Delivery, NewEndpoint, WebhookEndpoint } from '../store/webhookStore.ts';
import {
  auditedEndpoint,
  disabled,
  ENDPOINTS_PER_CLIENT_MAX,
  type EndpointChange,
  type EndpointFields,
  enabled,
  newEndpoint,
  readEndpointFields,
  tooManyEndpoints,
  withFields,
  withSecret,
} from '../webhook/endpoints.ts';
import {
  presentDeadLetter,
  presentDelivery,
  presentEndpoint,
  presentTally,
} from '../webhook/presentEndpoint.ts';
import { newSecret } from '../webhook/signature.ts';
import { readJson, readOptionalJson, readOverlapMs } from './json.ts';
import { readPage } from './listQuery.ts';
import { requireMediaType } from './requestBody.ts';
import { actOfCaller, answerJson, callerOf, type Middleware, type RequestContext } from './requestContext.ts';
import { OVERLAP_SECONDS, REPLAYED_BY_NAME_MAX, type WebhookAnswers } from './webhookSchemas.ts';

export interface WebhooksOptions {
  store: Pick<Store, 'webhooks' | 'serviceTime'>;
  /** The URLs that endpoints can have. */
  policy: Pick<TargetPolicy, 'guard'>;
  bodyTimeoutMs: number;
  publicUrl: string;
  clock: Clock;
}

const HOW_TO_SEND = 'Content-Type must be application/json.';

/** `POST /v1/webhook-endpoints`. Only this answer shows the secret. */
export function createEndpoint(options: WebhooksOptions): Middleware {
  return async (ctx) => {
    const { store, policy, clock, publicUrl } = options;
    const body = await readBody(ctx, options);
    const fields = readEndpointFields(body, ['url', 'events', 'description', 'secret'], policy);
    const { secret = newSecret() } = fields;
    const endpoint = newEndpoint(callerOf(ctx).viewer.clientId, { ...fields, secret }, clock());
    const act = actOn(ctx, 'webhook.add', endpoint);
    if (!(await store.webhooks.endpoints.add(endpoint, ENDPOINTS_PER_CLIENT_MAX, act)))
      throw tooManyEndpoints();
    ctx.set('Location', `${publicUrl}/v1/webhook-endpoints/${endpoint.id}`);
    answer<'WebhookEndpointWithSecret'>(ctx, 201, { ...presentEndpoint(endpoint, clock()), secret });
  };
}

/** `GET /v1/webhook-endpoints`: all endpoints of the caller's client; there are only a few. */
export function listEndpoints({ store, clock }: WebhooksOptions): Middleware {
  return async (ctx) => {
    const endpoints = await store.webhooks.endpoints.all(callerOf(ctx).viewer.clientId);
    answer<'WebhookEndpointList'>(ctx, 200, {
      webhook_endpoints: endpoints.map((one) => presentEndpoint(one, clock())),
    });
  };
}

/** `GET /v1/webhook-endpoints/:endpoint_id`, with the state of its deliveries. */
export function getEndpoint({ store, clock }: WebhooksOptions): Middleware {
  return async (ctx) => {
    const endpoint = await ownEndpoint(ctx, store);
    const deliveries = presentTally(await store.webhooks.outbox.tally(endpoint.id));
    answer<'WebhookEndpointWithDeliveries'>(ctx, 200, { ...presentEndpoint(endpoint, clock()), deliveries });
  };
}

/** `PATCH /v1/webhook-endpoints/:endpoint_id`. */
export function changeEndpoint(options: WebhooksOptions): Middleware {
  return async (ctx) => {
    await ownEndpoint(ctx, options.store);
    const body = await readBody(ctx, options);
    const fields: EndpointFields = readEndpointFields(body, ['url', 'events', 'description'], options.policy);
    const changed = await change(ctx, withFields(fields), 'webhook.change', options);
    answer<'WebhookEndpoint'>(ctx, 200, changed);
  };
}

/** `DELETE /v1/webhook-endpoints/:endpoint_id`: also deletes its pending messages. */
export function deleteEndpoint({ store }: WebhooksOptions): Middleware {
  return async (ctx) => {
    const endpoint = await ownEndpoint(ctx, store);
    const act = actOn(ctx, 'webhook.remove', endpoint);
    if (!(await store.webhooks.endpoints.remove(endpoint.id, act))) throw notFound();
    ctx.status = 204;
  };
}

/** `POST /v1/webhook-endpoints/:endpoint_id/rotate-secret`. Only this answer shows the new secret. */
export function rotateSecret(options: WebhooksOptions): Middleware {
  return async (ctx) => {
    await ownEndpoint(ctx, options.store);
    const { overlap_seconds, ...rest } = await readOptionalBody(ctx, options);
    const { secret = newSecret() } = readEndpointFields(rest, ['secret'], options.policy);
    const overlapMs = readOverlapMs(overlap_seconds, OVERLAP_SECONDS);
    const make = withSecret(secret, overlapMs, options.clock());
    const changed = await change(ctx, make, 'webhook.rotate', options);
    answer<'WebhookEndpointWithSecret'>(ctx, 200, { ...changed, secret });
  };
}

export function enableEndpoint(options: WebhooksOptions): Middleware {
  return async (ctx) =>
    answer<'WebhookEndpoint'>(ctx, 200, await change(ctx, enabled, 'webhook.enable', options));
}

export function disableEndpoint(options: WebhooksOptions): Middleware {
  return async (ctx) =>
    answer<'WebhookEndpoint'>(
      ctx,
      200,
      await change(ctx, disabled(options.clock()), 'webhook.disable', options),
    );
}

/** `POST /v1/webhook-endpoints/:endpoint_id/test`: sends a message of type `webhook.test`. */
export function sendTestMessage({ store }: WebhooksOptions): Middleware {
  return async (ctx) => {
    const { id } = await ownEndpoint(ctx, store);
    const webhookId = await store.webhooks.outbox.test(id);
    if (webhookId === undefined) throw notFound();
    answer<'WebhookTest'>(ctx, 202, { webhook_id: webhookId });
  };
}

/** `GET /v1/webhook-endpoints/:endpoint_id/deliveries`: pending deliveries, the earliest due first. */
export function listDeliveries({ store }: WebhooksOptions): Middleware {
  return async (ctx) => {
    const { id } = await ownEndpoint(ctx, store);
    const page = readPage(ctx.querystring, decodeCursor);
    const deliveries = await store.webhooks.outbox.pending(id, page);
    const shown = deliveries.map((one) => presentDelivery(one, (stamp) => store.serviceTime.dateOf(stamp)));
    answer<'WebhookDeliveryList'>(ctx, 200, { deliveries: shown, ...nextOf(deliveries, page) });
  };
}

/** `GET /v1/webhook-endpoints/:endpoint_id/dead-letters`: dead letters, the oldest first. */
export function listDeadLetters({ store }: WebhooksOptions): Middleware {
  return async (ctx) => {
    const { id } = await ownEndpoint(ctx, store);
    const page = readPage(ctx.querystring, decodeCursor);
    const letters = await store.webhooks.outbox.deadLetters(id, page);
    const shown = letters.map((one) => presentDeadLetter(one, (stamp) => store.serviceTime.dateOf(stamp)));
    answer<'WebhookDeadLetterList'>(ctx, 200, { dead_letters: shown, ...nextOf(letters, page) });
  };
}

/** `POST /v1/webhook-endpoints/:endpoint_id/replay`: sends dead letters again, either all of them or the named ones. */
export function replayDeadLetters(options: WebhooksOptions): Middleware {
  return async (ctx) => {
    const endpoint = await ownEndpoint(ctx, options.store);
    const { webhook_ids, ...rest } = await readOptionalBody(ctx, options);
    readEndpointFields(rest, [], options.policy);
    const act = actOn(ctx, 'webhook.replay', endpoint);
    const replayed = await options.store.webhooks.outbox.replay(
      endpoint.id,
      readWebhookIds(webhook_ids),
      act,
    );
    answer<'Replay'>(ctx, 202, { replayed });
  };
}

async function change(
  ctx: RequestContext,
  make: EndpointChange,
  name: ActName,
  { store, clock }: WebhooksOptions,
): Promise<WebhookAnswers['WebhookEndpoint']> {
  const endpoint = await ownEndpoint(ctx, store);
  const act = actOn(ctx, name, make(endpoint) ?? endpoint);
  const changed = await store.webhooks.endpoints.change(endpoint.id, make, act);
  if (changed === undefined) throw notFound();
  return presentEndpoint(changed, clock());
}

function actOn(ctx: RequestContext, act: ActName, endpoint: NewEndpoint): Act {
  return actOfCaller(callerOf(ctx), act, auditedEndpoint(endpoint));
}

/** The caller gets the same error for an unknown endpoint, a malformed id and an endpoint of another client. */
async function ownEndpoint(ctx: RequestContext, store: Pick<Store, 'webhooks'>): Promise<WebhookEndpoint> {
  const endpoint = await store.webhooks.endpoints.get(ctx.params.endpoint_id ?? '');
  if (endpoint?.clientId !== callerOf(ctx).viewer.clientId) throw notFound();
  return endpoint;
}

function notFound(): ServiceError {
  const message = 'The client of this API key has no webhook endpoint with this id.';
  return new ServiceError('webhook_endpoint_not_found', message);
}

async function readBody(ctx: RequestContext, { bodyTimeoutMs }: WebhooksOptions): Promise<unknown> {
  requireMediaType(ctx, ['application/json'], HOW_TO_SEND);
  const body = await readJson(ctx, bodyTimeoutMs);
  // A key that was revoked or has expired meanwhile must change nothing.
  await callerOf(ctx).confirm();
  return body;
}

async function readOptionalBody(
  ctx: RequestContext,
  { bodyTimeoutMs }: WebhooksOptions,
): Promise<Record<string, unknown>> {
  const body = await readOptionalJson(ctx, bodyTimeoutMs);
  await callerOf(ctx).confirm();
  return body;
}

function readWebhookIds(value: unknown): string[] | undefined {
  if (value === undefined) return undefined;
  const isGood = Array.isArray(value) && value.length > 0 && value.length <= REPLAYED_BY_NAME_MAX;
  if (isGood && value.every((id) => typeof id === 'string')) return value;
  const demand = `must be a list of 1 to ${REPLAYED_BY_NAME_MAX} ids, or be absent to replay all.`;
  throw invalidField('webhook_ids', demand);
}

type Position = Pick<Delivery, 'at' | 'webhookId'>;

function nextOf(found: Delivery[], { limit }: { limit: number }): { next_cursor?: string } {
  const last = found.length < limit ? undefined : found.at(-1);
  return last === undefined ? {} : { next_cursor: encodeCursor(last) };
}

function encodeCursor({ at, webhookId }: Position): string {
  return Buffer.from(`${at} ${webhookId}`).toString('base64url');
}

function decodeCursor(text: string): Position | undefined {
  const [, at, webhookId] =
    /^(\d{1,15}) (msg_[0-9a-f]{32})$/.exec(Buffer.from(text, 'base64url').toString()) ?? [];
  const position = at !== undefined && webhookId !== undefined ? { at: Number(at), webhookId } : undefined;
  return position && encodeCursor(position) === text ? position : undefined;
}

/** Answers with a body of this schema. */
function answer<Name extends keyof WebhookAnswers>(
  ctx: RequestContext,
  status: number,
  body: WebhookAnswers[Name],
): void {
  answerJson(ctx, status, body);
}
