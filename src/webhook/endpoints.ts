import { isDeepStrictEqual } from 'node:util';
import { ServiceError } from '../base/errors.ts';
import { newUuid } from '../base/uuid.ts';
import { duplicateField, invalidField, missingField, unknownField } from '../job/fieldValues.ts';
import type { ActObject } from '../manifest/auditRecord.ts';
import {
  type NewEndpoint,
  WEBHOOK_EVENTS,
  type WebhookEndpoint,
  type WebhookEvent,
} from '../store/webhookStore.ts';
import { type TargetPolicy, TargetRefused } from '../web/policy.ts';
import { newSecret, parseSecret } from './signature.ts';

/** Enough for every interested system; each job costs one delivery to each. */
export const ENDPOINTS_PER_CLIENT_MAX = 16;
/** How long the previous secret also signs after a rotation. */
export const OVERLAP_MS_DEFAULT = 86_400_000;

const URL_CHARACTERS_MAX = 2048;
const DESCRIPTION_CHARACTERS_MAX = 256;

/** The fields of an endpoint that API and command line accept. */
export interface EndpointFields {
  url?: string;
  events?: WebhookEvent[];
  /** Empty to remove it. */
  description?: string;
  secret?: string;
}

type FieldName = keyof EndpointFields;
type Policy = Pick<TargetPolicy, 'guard'>;

const READERS = {
  url: readUrl,
  events: readEvents,
  description: readDescription,
  secret: readSecret,
} satisfies Record<FieldName, (value: unknown, policy: Policy) => unknown>;

/** Reads a JSON object with some of these fields. Throws ServiceError that names the field at fault. */
export function readEndpointFields(
  body: unknown,
  names: readonly FieldName[],
  policy: Policy,
): EndpointFields {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new ServiceError('malformed_json', 'The body must be one JSON object in UTF-8.');
  }
  const given = Object.entries(body).filter(([, value]) => value !== undefined);
  const read = given.map(([name, value]) => {
    const known = names.find((one) => one === name);
    if (known === undefined) throw unknownField(name, names);
    return [known, READERS[known](value, policy)];
  });
  return Object.fromEntries(read);
}

/** A new endpoint of that client; throws ServiceError `missing_parameter` without a URL. */
export function newEndpoint(clientId: string, { url, ...fields }: EndpointFields, now: number): NewEndpoint {
  if (url === undefined) throw missingField('url');
  const { events = [...WEBHOOK_EVENTS], description, secret = newSecret() } = fields;
  return {
    id: `we_${newUuid()}`,
    clientId,
    url,
    events,
    ...(description && { description }),
    secrets: [{ secret }],
    createdAt: now,
  };
}

export function tooManyEndpoints(): ServiceError {
  const message = `The client has ${ENDPOINTS_PER_CLIENT_MAX} webhook endpoints, the most allowed. Delete one, or change one.`;
  return new ServiceError('too_many_webhook_endpoints', message);
}

/** The audit trail's record of an endpoint: only the origin of its URL, because the rest can contain secrets. */
export function auditedEndpoint({ id, clientId, url }: NewEndpoint): ActObject {
  return { endpoint: id, client: clientId, origin: new URL(url).origin };
}

/** A change to the current endpoint; undefined if it already has the result. */
export type EndpointChange = (current: WebhookEndpoint) => NewEndpoint | undefined;

export function withFields({ url, events, description }: EndpointFields): EndpointChange {
  return (current) => {
    const { description: old, ...rest } = current;
    const next = description ?? old;
    const changed = {
      ...rest,
      ...(url && { url }),
      ...(events && { events }),
      ...(next && { description: next }),
    };
    return isDeepStrictEqual(changed, current) ? undefined : changed;
  };
}

/** The new secret signs from now on, and during the overlap the previous one too. Older secrets end at once. */
export function withSecret(secret: string, overlapMs: number, now: number): EndpointChange {
  return (current) => ({
    ...current,
    secrets: [
      { secret },
      ...current.secrets
        .slice(0, overlapMs > 0 ? 1 : 0)
        .map((old) => ({ ...old, expiresAt: now + overlapMs })),
    ],
  });
}

export const enabled: EndpointChange = ({ disabled, ...current }) => disabled && current;

export function disabled(now: number): EndpointChange {
  return (current) =>
    current.disabled === undefined ? { ...current, disabled: { at: now, reason: 'request' } } : undefined;
}

function readUrl(value: unknown, policy: Policy): string {
  const url = typeof value === 'string' && value.length <= URL_CHARACTERS_MAX ? URL.parse(value) : null;
  if (url === null || url.hash !== '') {
    const demand = `must be an absolute http or https URL of at most ${URL_CHARACTERS_MAX} characters, without a fragment.`;
    throw invalidField('url', demand);
  }
  try {
    policy.guard(url);
  } catch (error) {
    if (!(error instanceof TargetRefused)) throw error;
    const message = `url: ${error.message}. Ask the administrator to add it to webhooks.allow and to IPAddressAllow= of pdfseal-egress@.`;
    throw new ServiceError('webhook_url_not_allowed', message, { parameter: 'url' });
  }
  return url.href;
}

function readEvents(value: unknown): WebhookEvent[] {
  const events = Array.isArray(value)
    ? value.map((name) => WEBHOOK_EVENTS.find((event) => event === name))
    : [];
  const known = events.filter((event) => event !== undefined);
  if (known.length === 0 || known.length < events.length) {
    throw invalidField('events', `must be a list of one or more of: ${WEBHOOK_EVENTS.join(', ')}.`);
  }
  if (new Set(known).size < known.length) throw duplicateField('events');
  return known;
}

function readDescription(value: unknown): string {
  if (typeof value === 'string' && value.isWellFormed() && [...value].length <= DESCRIPTION_CHARACTERS_MAX) {
    return value;
  }
  throw invalidField('description', `must be a text of at most ${DESCRIPTION_CHARACTERS_MAX} characters.`);
}

function readSecret(value: unknown): string {
  if (typeof value === 'string' && parseSecret(value)) return value;
  throw invalidField(
    'secret',
    'must be whsec_ and the Base64 of 24 to 64 bytes. Leave it out to have one made.',
  );
}
