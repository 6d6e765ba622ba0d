/** What administrators do with webhook endpoints, whichever way they do it: one change of the store each, recorded with whoever acts. */
import { OperatorError } from '../base/errors.ts';
import type { ActName, Actor } from '../manifest/auditRecord.ts';
import { actBy } from '../store/keyActs.ts';
import type { Store } from '../store/store.ts';
import type { WebhookEndpoint } from '../store/webhookStore.ts';
import { auditedEndpoint, type EndpointChange } from './endpoints.ts';

type Webhooks = Pick<Store, 'webhooks'>;

/** Throws OperatorError `not_found`. */
export async function findEndpoint(store: Webhooks, id: string): Promise<WebhookEndpoint> {
  const endpoint = await store.webhooks.endpoints.get(id);
  if (endpoint === undefined) throw noEndpoint(id);
  return endpoint;
}

/** Returns the endpoint as it is then. Where it is so already, nothing is recorded. Throws OperatorError `not_found`. */
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
  /** Fewer than asked for where the backlog is full, and where one that is named is no dead letter. */
  replayed: number;
  /** The endpoint is disabled: they wait until it is enabled. */
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
  const act = actBy(actor, 'webhook.replay', auditedEndpoint(endpoint));
  const replayed = await store.webhooks.outbox.replay(id, webhookIds, act);
  return { replayed, isDisabled: endpoint.disabled !== undefined };
}

function noEndpoint(id: string): OperatorError {
  return new OperatorError(`there is no webhook endpoint ${id}; see \`pdfseal webhooks list\``, {
    code: 'not_found',
  });
}
