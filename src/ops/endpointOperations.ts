/** Operations on webhook endpoints: each change is one write of the store, recorded with its actor. */
import * as z from 'zod';
import { type ErrorCode, OperatorError } from '../base/errors.ts';
import type { Config } from '../config/config.ts';
import type { ActName, Actor } from '../manifest/auditRecord.ts';
import { actBy } from '../store/acts.ts';
import type { Store } from '../store/store.ts';
import { WEBHOOK_EVENTS, type WebhookEndpoint } from '../store/webhookStore.ts';
import { TargetPolicy } from '../web/policy.ts';
import {
  auditedEndpoint,
  disabled,
  ENDPOINTS_PER_CLIENT_MAX,
  type EndpointChange,
  type EndpointFields,
  enabled,
  endpointFields,
  newEndpoint,
  readEndpointFields,
  tooManyEndpoints,
  withFields,
  withSecret,
} from '../webhook/endpoints.ts';
import { endpointSchema, presentEndpoint } from '../webhook/presentEndpoint.ts';
import { newSecret } from '../webhook/signature.ts';
import { operation } from './operation.ts';
import { nameText, overlapText } from './operationFields.ts';
import { OF_OWNERS, type StoreParts } from './operationParts.ts';

type Webhooks = Pick<Store, 'webhooks'>;

export const shownEndpoint = endpointSchema.extend({
  client: z.string().describe('The messages are about its jobs.'),
});
export type ShownEndpoint = z.infer<typeof shownEndpoint>;

export const endpointId = { says: 'id of the endpoint (we_…)', schema: z.string(), typed: '<endpoint_id>' };

const fields = {
  url: {
    says: 'URL of the endpoint; webhooks.allow in the config file must allow it',
    schema: endpointFields.url,
    typed: '<url>',
  },
  events: { says: 'types of messages that it receives', schema: endpointFields.events, typed: '<name...>' },
  description: {
    says: 'a note for administrators',
    schema: endpointFields.description.optional(),
    typed: '<text>',
  },
};

/** A page that shows an endpoint sends it, or a program that has read the endpoint. */
const revision = {
  says: 'revision in which the endpoint was read: if it has another one by now, nothing is changed',
  schema: z.int('must be a revision of the endpoint.').optional(),
  typed: '<revision>',
};

type Verb = 'change' | 'rotate' | 'enable' | 'disable' | 'remove' | 'replay';

/** What all changes of one endpoint have in common. */
export function changeOf<Own extends Verb>(verb: Own, failures: readonly ErrorCode[] = []) {
  const path = `/webhooks/{endpoint_id}/${verb}`;
  return {
    name: `webhooks.${verb}`,
    route: { id: `${verb}Webhook`, method: 'post', path, sends: 'json', failures },
    ...OF_OWNERS,
    acts: [`webhook.${verb}`],
  } as const;
}

const WITHOUT_SECRET = { name: 'ShownWebhook', says: 'The endpoint.', schema: shownEndpoint };
const WITH_SECRET = {
  name: 'WebhookWithSecret',
  says: 'The endpoint, with its secret, which is shown only here.',
  schema: shownEndpoint.extend({ secret: z.string() }),
};

export const addWebhook = operation({
  name: 'webhooks.add',
  says: 'Adds a webhook endpoint and shows its secret once.',
  route: {
    id: 'addWebhook',
    method: 'post',
    path: '/webhooks',
    sends: 'json',
    failures: ['webhook_url_not_allowed', 'too_many_webhook_endpoints'],
  },
  ...OF_OWNERS,
  acts: ['webhook.add'],
  fields: {
    client: { says: 'client whose jobs the messages are about', schema: nameText, typed: '<name>' },
    ...fields,
    events: { ...fields.events, schema: endpointFields.events.prefault([...WEBHOOK_EVENTS]) },
  },
  answer: WITH_SECRET,
  async run({ store, config, clock }: StoreParts, { client, ...given }, actor) {
    const allowed = readAllowed(given, config());
    const isKnown = (await store.credentials.all()).some((one) => one.clientId === client);
    if (!isKnown)
      throw new OperatorError(`client ${client} has no API key: issue one first, or check the name`);
    const secret = newSecret();
    const endpoint = newEndpoint(client, { ...allowed, secret }, clock());
    const act = actBy(actor, 'webhook.add', auditedEndpoint(endpoint));
    if (!(await store.webhooks.endpoints.add(endpoint, ENDPOINTS_PER_CLIENT_MAX, act)))
      throw tooManyEndpoints();
    return { secret, ...show(endpoint, clock()) };
  },
});

export const changeWebhook = operation({
  ...changeOf('change', ['webhook_url_not_allowed']),
  says: 'Changes the URL, the events or the description of an endpoint.',
  fields: {
    endpoint_id: endpointId,
    ...{ ...fields, revision },
    url: { ...fields.url, schema: endpointFields.url.optional() },
    events: { ...fields.events, schema: endpointFields.events.optional() },
  },
  answer: WITHOUT_SECRET,
  async run({ store, config, clock }: StoreParts, { endpoint_id: id, revision, ...given }, actor) {
    const change = withFields(readAllowed(given, config()));
    return show(await alter(store, { id, revision }, change, ['webhook.change', actor]), clock());
  },
});

export const rotateWebhook = operation({
  ...changeOf('rotate'),
  says: 'Creates a new secret for an endpoint and shows it once.',
  fields: {
    endpoint_id: endpointId,
    overlap: {
      says: 'how long messages are also signed with the old secret',
      schema: overlapText,
      typed: '<duration>',
    },
  },
  answer: WITH_SECRET,
  async run({ store, clock }: StoreParts, { endpoint_id: id, overlap: overlapMs }, actor) {
    const secret = newSecret();
    const change = withSecret(secret, overlapMs, clock());
    return { secret, ...show(await alter(store, { id }, change, ['webhook.rotate', actor]), clock()) };
  },
});

export const enableWebhook = operation({
  ...changeOf('enable'),
  says: 'Enables an endpoint, also one that was disabled because it answered 410.',
  fields: { endpoint_id: endpointId, revision },
  answer: WITHOUT_SECRET,
  async run({ store, clock }: StoreParts, { endpoint_id: id, revision }, actor) {
    return show(await alter(store, { id, revision }, enabled, ['webhook.enable', actor]), clock());
  },
});

export const disableWebhook = operation({
  ...changeOf('disable'),
  says: 'Disables an endpoint: until you enable it, nothing is sent to it or queued for it.',
  fields: { endpoint_id: endpointId, revision },
  answer: WITHOUT_SECRET,
  async run({ store, clock }: StoreParts, { endpoint_id: id, revision }, actor) {
    const change = disabled(clock());
    return show(await alter(store, { id, revision }, change, ['webhook.disable', actor]), clock());
  },
});

export const removeWebhook = operation({
  ...changeOf('remove'),
  says: 'Removes an endpoint, with all messages that wait for it.',
  fields: { endpoint_id: endpointId },
  answer: {
    name: 'RemovedWebhook',
    says: 'It is removed.',
    schema: z.object({ id: z.string(), client: z.string(), removed: z.literal(true) }),
  },
  async run({ store }: StoreParts, { endpoint_id: id }, actor) {
    const endpoint = await findEndpoint(store, id);
    const act = actBy(actor, 'webhook.remove', auditedEndpoint(endpoint));
    if (!(await store.webhooks.endpoints.remove(id, act))) throw noEndpoint(id);
    return { id, client: endpoint.clientId, removed: true as const };
  },
});

/** Throws ServiceError. */
function readAllowed(given: EndpointFields, { webhooks }: Pick<Config, 'webhooks'>) {
  return readEndpointFields(given, ['url', 'events', 'description'], new TargetPolicy(webhooks.allow));
}

/** Throws OperatorError `not_found`. */
export async function findEndpoint({ webhooks }: Webhooks, id: string): Promise<WebhookEndpoint> {
  const endpoint = await webhooks.endpoints.get(id);
  if (endpoint === undefined) throw noEndpoint(id);
  return endpoint;
}

/** Returns the endpoint after the change. If nothing changes, nothing is recorded. Throws OperatorError. */
async function alter(
  store: Webhooks,
  { id, revision }: { id: string; revision?: number | undefined },
  make: EndpointChange,
  [name, actor]: [ActName, Actor],
): Promise<WebhookEndpoint> {
  const found = await findEndpoint(store, id);
  const act = actBy(actor, name, auditedEndpoint(make(found) ?? found));
  const change: EndpointChange = (current) => {
    const next = make(current);
    if (next !== undefined && revision !== undefined && revision !== current.revision)
      throw new OperatorError(`${id} has changed since it was read`, { code: 'changed_meanwhile' });
    return next;
  };
  const changed = await store.webhooks.endpoints.change(id, change, act);
  if (changed === undefined) throw noEndpoint(id);
  return changed;
}

function noEndpoint(id: string): OperatorError {
  return new OperatorError(`there is no webhook endpoint ${id}; see \`pdfseal webhooks list\``, {
    code: 'not_found',
  });
}

export function show(endpoint: Parameters<typeof presentEndpoint>[0], now: number): ShownEndpoint {
  const { id, ...rest } = presentEndpoint(endpoint, now);
  return { id, client: endpoint.clientId, ...rest };
}
