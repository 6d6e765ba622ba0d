import { isDeepStrictEqual } from 'node:util';
import * as z from 'zod';
import { ServiceError } from '../base/errors.ts';
import { newUuid } from '../base/uuid.ts';
import { duplicateField, missingField, readValue, unknownField } from '../job/fieldValues.ts';
import { type NewEndpoint, WEBHOOK_EVENTS, type WebhookEndpoint } from '../store/webhookStore.ts';
import { type TargetPolicy, TargetRefused } from '../web/policy.ts';
import { newSecret, parseSecret } from './signature.ts';

/** Enough for every interested system; each job costs one delivery to each. */
export const ENDPOINTS_PER_CLIENT_MAX = 16;
/** How long the previous secret also signs after a rotation. */
export const OVERLAP_MS_DEFAULT = 86_400_000;

const URL_CHARACTERS_MAX = 2048;
const DESCRIPTION_CHARACTERS_MAX = 256;
const DEMANDS = {
  url: `must be an absolute http or https URL of at most ${URL_CHARACTERS_MAX} characters, without a fragment.`,
  events: `must be a list of one or more of: ${WEBHOOK_EVENTS.join(', ')}.`,
  description: `must be a text of at most ${DESCRIPTION_CHARACTERS_MAX} characters.`,
  secret: 'must be whsec_ and the Base64 of 24 to 64 bytes. Leave it out to have one made.',
};

/** The fields of an endpoint that API and administration accept, as they are sent. */
export const endpointFields = {
  url: z
    .string(DEMANDS.url)
    .max(URL_CHARACTERS_MAX, DEMANDS.url)
    .refine((text) => URL.parse(text)?.hash === '', DEMANDS.url)
    .meta({ format: 'uri' }),
  events: z
    .array(z.enum(WEBHOOK_EVENTS, DEMANDS.events), DEMANDS.events)
    .min(1, DEMANDS.events)
    .meta({ uniqueItems: true, default: WEBHOOK_EVENTS }),
  /** Empty to remove it. */
  description: z
    .string(DEMANDS.description)
    .refine(
      (text) => text.isWellFormed() && [...text].length <= DESCRIPTION_CHARACTERS_MAX,
      DEMANDS.description,
    )
    .meta({ maxLength: DESCRIPTION_CHARACTERS_MAX }),
  secret: z
    .string(DEMANDS.secret)
    .regex(/^whsec_[A-Za-z0-9+/]+=*$/, DEMANDS.secret)
    .refine((text) => parseSecret(text) !== undefined, DEMANDS.secret)
    .describe('Base64 of 24 to 64 bytes.'),
};

type FieldName = keyof typeof endpointFields;
export type EndpointFields = { [Name in FieldName]?: z.infer<(typeof endpointFields)[Name]> };
type Policy = Pick<TargetPolicy, 'guard'>;

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
  const read: EndpointFields = Object.fromEntries(
    given.map(([name, value]) => {
      const known = names.find((one) => one === name);
      if (known === undefined) throw unknownField(name, names);
      return [known, readValue(known, endpointFields[known], value)];
    }),
  );
  const { url, events = [] } = read;
  if (new Set(events).size < events.length) throw duplicateField('events');
  return url === undefined ? read : { ...read, url: allowedUrl(url, policy) };
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
export function auditedEndpoint({ id, clientId, url }: NewEndpoint) {
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

function allowedUrl(text: string, policy: Policy): string {
  const url = new URL(text);
  try {
    policy.guard(url);
  } catch (error) {
    if (!(error instanceof TargetRefused)) throw error;
    const message = `url: ${error.message}. Ask the administrator to add it to webhooks.allow and to IPAddressAllow= of pdfseal-egress@.`;
    throw new ServiceError('webhook_url_not_allowed', message, { parameter: 'url' });
  }
  return url.href;
}
