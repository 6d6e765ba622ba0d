/** Acts of administrators on webhook endpoints, from any interface: each is one change of the store, recorded with its actor. */
import { systemClock } from '../base/clock.ts';
import { OperatorError } from '../base/errors.ts';
import type { ActName, Actor } from '../manifest/auditRecord.ts';
import { actBy } from '../store/acts.ts';
import type { Store } from '../store/store.ts';
import type { NewEndpoint, WebhookEndpoint } from '../store/webhookStore.ts';
import {
  auditedEndpoint,
  ENDPOINTS_PER_CLIENT_MAX,
  type EndpointChange,
  type EndpointFields,
  newEndpoint,
  tooManyEndpoints,
  withSecret,
} from './endpoints.ts';
import { newSecret } from './signature.ts';

type Webhooks = Pick<Store, 'webhooks'>;

/** Throws OperatorError `not_found`. */
export async function findEndpoint(store: Webhooks, id: string): Promise<WebhookEndpoint> {
  const endpoint = await store.webhooks.endpoints.get(id);
  if (endpoint === undefined) throw noEndpoint(id);
  return endpoint;
}

/** Returns the endpoint, with its secret. Throws OperatorError for a client without API keys, and ServiceError for one with too many endpoints. */
export async function addEndpoint(
  store: Webhooks & Pick<Store, 'credentials'>,
  clientId: string,
  fields: EndpointFields,
  actor: Actor,
): Promise<NewEndpoint> {
  const isKnown = (await store.credentials.all()).some((one) => one.clientId === clientId);
  if (!isKnown)
    throw new OperatorError(`client ${clientId} has no API key: issue one first, or check the name`);
  const endpoint = newEndpoint(clientId, fields, systemClock());
  const act = actBy(actor, 'webhook.add', auditedEndpoint(endpoint));
  if (await store.webhooks.endpoints.add(endpoint, ENDPOINTS_PER_CLIENT_MAX, act)) return endpoint;
  throw tooManyEndpoints();
}

/** Returns the endpoint as it was; its messages are removed with it. Throws OperatorError `not_found`. */
export async function removeEndpoint(store: Webhooks, id: string, actor: Actor): Promise<WebhookEndpoint> {
  const endpoint = await findEndpoint(store, id);
  const act = actBy(actor, 'webhook.remove', auditedEndpoint(endpoint));
  if (await store.webhooks.endpoints.remove(id, act)) return endpoint;
  throw noEndpoint(id);
}

/** Rotates the secret; the old one signs too for `overlapMs`. Throws OperatorError `not_found`. */
export async function replaceSecret(
  store: Webhooks,
  id: string,
  overlapMs: number,
  actor: Actor,
): Promise<{ secret: string; endpoint: WebhookEndpoint }> {
  const secret = newSecret();
  const make = withSecret(secret, overlapMs, systemClock());
  return { secret, endpoint: await alterEndpoint(store, id, make, { name: 'webhook.rotate', actor }) };
}

/** Returns the endpoint after the change. If nothing changes, nothing is recorded. Throws OperatorError `not_found`. */
export async function alterEndpoint(
  store: Webhooks,
  id: string,
  make: EndpointChange,
  { name, actor }: { name: ActName; actor: Actor },
): Promise<WebhookEndpoint> {
  const found = await findEndpoint(store, id);
  const act = actBy(actor, name, auditedEndpoint(make(found) ?? found));
  const changed = await store.webhooks.endpoints.change(id, make, act);
  if (changed === undefined) throw noEndpoint(id);
  return changed;
}

export interface Replayed {
  /** Fewer than requested if the backlog is full, or if a named one is not a dead letter. */
  replayed: number;
  /** Set if the endpoint is disabled: the messages wait until it is enabled. */
  isDisabled: boolean;
}

/** Queues dead letters again, those named or all. Throws OperatorError `not_found`. */
export async function replayLetters(
  store: Webhooks,
  id: string,
  webhookIds: readonly string[] | undefined,
  actor: Actor,
): Promise<Replayed> {
  const endpoint = await findEndpoint(store, id);
  const object = { ...auditedEndpoint(endpoint), chosen: webhookIds?.length ?? 'all' };
  const act = actBy(actor, 'webhook.replay', object);
  const replayed = await store.webhooks.outbox.replay(id, webhookIds, act);
  return { replayed, isDisabled: endpoint.disabled !== undefined };
}

function noEndpoint(id: string): OperatorError {
  return new OperatorError(`there is no webhook endpoint ${id}; see \`pdfseal webhooks list\``, {
    code: 'not_found',
  });
}
