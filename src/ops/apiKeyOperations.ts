/** Operations on API keys: each is one change of the store, recorded with its actor. */
import * as z from 'zod';
import { assert } from '../base/assert.ts';
import { toRfc3339 } from '../base/clock.ts';
import { OperatorError } from '../base/errors.ts';
import type { Config } from '../config/config.ts';
import { WIRE } from '../health/sections/section.ts';
import { hashApiKey, hashCertificateName, newApiKey } from '../job/apikey.ts';
import { invalidField } from '../job/fieldValues.ts';
import { actBy } from '../store/acts.ts';
import { auditedKey, issueTo, keyState, rotateKey } from '../store/apiKeys.ts';
import { type Credential, SCOPES } from '../store/credentialStore.ts';
import { auditedEndpoint, disabled } from '../webhook/endpoints.ts';
import { endpointSchema, presentEndpoint } from '../webhook/presentEndpoint.ts';
import {
  activeSuccessors,
  findApiKey,
  requireRotatable,
  requireUnclaimed,
  revokeOne,
  unmanagedEndpoints,
} from './credentials.ts';
import { operation } from './operation.ts';
import { durationText, matching, nameText, overlapText, readBy, trueOrFalseText } from './operationFields.ts';
import { OF_OWNERS, type StoreParts } from './operationParts.ts';

const { time } = WIRE;

const keySchema = z.object({
  id: z.string().regex(/^key_[0-9a-f]{16}$/),
  client: z.string(),
  organization: z.string(),
  scopes: z.array(z.enum(SCOPES)),
  certificate_name: z
    .string()
    .optional()
    .describe('There is no key: client certificates with this name stand for the client.'),
  bound_certificate_sha256: z
    .string()
    .optional()
    .describe('The key is refused on a connection without this client certificate.'),
  state: z.enum(['active', 'revoked', 'expired']),
  created_at: time,
  expires_at: time.optional(),
  revoked_at: time.optional(),
  replaced_by: z.string().optional().describe('The key to which this one was rotated.'),
});
export type PresentedKey = z.infer<typeof keySchema>;

function presentKey(credential: Credential, now: number): PresentedKey {
  const { id, clientId, organization, scopes, certificateName, boundTo, replacedBy } = credential;
  const at = (moment: number | undefined) => (moment === undefined ? undefined : toRfc3339(moment));
  return {
    id,
    client: clientId,
    organization,
    scopes,
    certificate_name: certificateName,
    bound_certificate_sha256: boundTo,
    state: keyState(credential, now),
    created_at: toRfc3339(credential.createdAt),
    expires_at: at(credential.expiresAt),
    revoked_at: at(credential.revokedAt),
    replaced_by: replacedBy,
  };
}

const SCOPES_REFUSAL = `must be scopes from ${SCOPES.join(', ')}.`;
/** A name as the daemon reads it from a certificate. It must be written exactly so: patterns and other spellings are not accepted. */
const certificateName = readBy((text) => {
  const name = /^(?:DNS|URI):/.test(text) ? text : decodeUtf8Escapes(text);
  // RFC 4514 escapes a space at the start or the end of a value, and allows none next to separators.
  const isLoose = /(?:^|[^\\])[,+=] |[^\\] (?:[,+=]|$)/.test(name.replace(/\\ /g, '\\20'));
  const isSubject = /^[A-Za-z0-9.]+=/.test(name) && !isLoose && !/\p{Cc}/u.test(name);
  const isOther = /^(?:DNS:[A-Za-z0-9*._-]+|URI:[A-Za-z][!#-&(-+\--[\]-~]+)$/.test(name);
  return isSubject || isOther ? name : undefined;
}, 'a subject as `openssl x509 -noout -subject -nameopt RFC2253` prints it (CN=invoices,O=Example), DNS:<name> or URI:<uri>, ' +
  'without spaces at commas and equals signs');

/** OpenSSL prints characters beyond ASCII as `\C3\A4`; the daemon reads the characters. Control characters stay escaped. */
function decodeUtf8Escapes(text: string): string {
  return text.replace(/(?:\\[89A-Fa-f][0-9A-Fa-f])+/g, (escapes) =>
    Buffer.from(escapes.replaceAll('\\', ''), 'hex').toString('utf8'),
  );
}

const keyId = { says: 'id of the key (key_…)', schema: z.string(), typed: '<key_id>' };
const lifetime = durationText({ min: 1, what: 'a duration above 0, such as 1h or 90d' }).optional();
const boundCertificate = {
  says: 'SHA-256 of the client certificate of the client, in hexadecimal: the key is refused on a connection without it',
  schema: matching(/^[0-9a-f]{64}$/, '64 hexadecimal characters').optional(),
  typed: '<sha256>',
};

/** Throws OperatorError if clients cannot present a certificate. */
function requireClientCa({ file, http }: Pick<Config, 'file' | 'http'>): void {
  if (http.tls?.clientCaFile !== undefined) return;
  throw new OperatorError(
    `${file} has no http.tls.client_ca_file, so no client can present a certificate; set that key and restart pdfseald first`,
  );
}

export const issueApiKey = operation({
  name: 'keys.issue',
  says: 'Creates an API key and shows it once.',
  explains: 'The store keeps only the SHA-256 of the key.',
  route: { id: 'issueKey', method: 'post', path: '/keys', sends: 'json' },
  ...OF_OWNERS,
  acts: ['key.issue'],
  fields: {
    client: { says: 'client that uses the key', schema: nameText, typed: '<name>' },
    organization: { says: 'organization of the client', schema: nameText, typed: '<name>' },
    scopes: {
      says: `scopes with commas between them: ${SCOPES.join(', ')}`,
      schema: z
        .array(z.enum(SCOPES, SCOPES_REFUSAL), SCOPES_REFUSAL)
        .min(1, SCOPES_REFUSAL)
        .prefault(['jobs:create', 'jobs:read']),
      typed: '<list>',
    },
    for: {
      says: 'how long the key is valid, such as 1h or 90d (default: until it is revoked)',
      schema: lifetime,
      typed: '<duration>',
    },
    bound_certificate_sha256: boundCertificate,
    certificate_name: {
      says: 'creates no key: client certificates with this name stand for the client. A subject (CN=invoices,O=Example), DNS:<name> or URI:<uri>',
      schema: certificateName.optional(),
      typed: '<name>',
    },
  },
  answer: {
    name: 'IssuedKey',
    says: 'The key, which is shown only here.',
    schema: keySchema.extend({
      api_key: z.string().optional().describe('Absent if a client certificate stands for the client.'),
    }),
  },
  async run({ store, config, clock }: StoreParts, { client, organization, scopes, ...given }, actor) {
    const { for: lifetimeMs, bound_certificate_sha256: boundTo, certificate_name: name } = given;
    if (name !== undefined && boundTo !== undefined)
      throw invalidField('certificate_name', 'cannot be sent with bound_certificate_sha256.');
    if (name !== undefined || boundTo !== undefined) requireClientCa(config());
    const apiKey = newApiKey(store.identity.environment);
    const at = { createdAt: clock(), since: store.serviceTime.now() };
    const holder = { clientId: client, organization, scopes: [...new Set(scopes)], boundTo };
    const issued = issueTo(holder, at, lifetimeMs === undefined ? undefined : at.createdAt + lifetimeMs);
    const credential: Credential =
      name === undefined
        ? { keyHash: hashApiKey(apiKey), ...issued }
        : { keyHash: hashCertificateName(name), ...issued, certificateName: name };
    await store.credentials.change((all) => {
      requireUnclaimed(credential, all, at.createdAt);
      const act = actBy(actor, 'key.issue', auditedKey(credential));
      return { credentials: [credential], act };
    });
    return { api_key: name === undefined ? apiKey : undefined, ...presentKey(credential, clock()) };
  },
});

export const listApiKeys = operation({
  name: 'keys.list',
  says: 'Lists the keys by their ids.',
  explains: 'The store does not contain the keys themselves.',
  route: { id: 'listKeys', method: 'get', path: '/keys' },
  ...OF_OWNERS,
  acts: [],
  fields: {
    client: { says: 'only keys of this client', schema: nameText.optional(), typed: '<name>' },
  },
  answer: {
    name: 'KeyList',
    says: 'The keys, the oldest first.',
    schema: z.object({ keys: z.array(keySchema) }),
  },
  async run({ store, clock }: StoreParts, { client }) {
    const wanted = (await store.credentials.all())
      .filter(({ clientId }) => client === undefined || clientId === client)
      .sort((a, b) => a.createdAt - b.createdAt);
    return { keys: wanted.map((one) => presentKey(one, clock())) };
  },
});

export const rotateApiKey = operation({
  name: 'keys.rotate',
  says: 'Creates a key that replaces another one.',
  explains: 'The old key stays valid for the overlap.',
  route: {
    id: 'rotateKey',
    method: 'post',
    path: '/keys/{key_id}/rotate',
    sends: 'json',
  },
  ...OF_OWNERS,
  acts: ['key.rotate'],
  fields: {
    key_id: { ...keyId, says: 'id of the key to replace (key_…)' },
    overlap: { says: 'how long the old key stays valid', schema: overlapText, typed: '<duration>' },
    for: {
      says: 'how long the new key is valid (default: as long as the old key was when it was issued)',
      schema: lifetime,
      typed: '<duration>',
    },
    bound_certificate_sha256: {
      ...boundCertificate,
      says: 'SHA-256 of the client certificate to bind the new key to (default: that of the old key, if it is bound)',
    },
  },
  answer: {
    name: 'ReplacingKey',
    says: 'The new key, which is shown only here.',
    schema: keySchema.extend({
      api_key: z.string(),
      replaces: z.string().describe('The id of the old key.'),
      replaced_expires_at: time.describe('Until then, the old key is valid as well.'),
    }),
  },
  async run({ store, config, clock }: StoreParts, { key_id: id, overlap: overlapMs, ...given }, actor) {
    const { bound_certificate_sha256: boundTo } = given;
    if (boundTo !== undefined) requireClientCa(config());
    const apiKey = newApiKey(store.identity.environment);
    const rotation = await store.credentials.change((all) => {
      const old = findApiKey(all, id);
      const at = { createdAt: clock(), since: store.serviceTime.now() };
      requireRotatable(old, at.createdAt);
      const lifetimeMs =
        given.for ?? (old.expiresAt === undefined ? undefined : old.expiresAt - old.createdAt);
      const expiresAt = lifetimeMs === undefined ? undefined : at.createdAt + lifetimeMs;
      const holder = boundTo === undefined ? old : { ...old, boundTo };
      const made = rotateKey(old, apiKey, { holder, at, expiresAt, overlapMs });
      const act = actBy(actor, 'key.rotate', made.object);
      return { ...made, credentials: [made.successor, made.replaced], act };
    });
    assert(rotation, 'the decision always writes');
    const { successor, replaced } = rotation;
    return {
      api_key: apiKey,
      ...presentKey(successor, clock()),
      replaces: id,
      replaced_expires_at: toRfc3339(replaced.expiresAt ?? 0),
    };
  },
});

export const revokeApiKey = operation({
  name: 'keys.revoke',
  says: 'Revokes a key immediately and permanently, and lists the webhook endpoints of its client.',
  explains:
    'An endpoint that no other valid key of the client can manage is disabled; if the client has no valid key left, all of its endpoints are.',
  route: { id: 'revokeKey', method: 'post', path: '/keys/{key_id}/revoke', sends: 'json' },
  ...OF_OWNERS,
  acts: ['key.revoke', 'webhook.disable'],
  fields: {
    key_id: keyId,
    with_successors: {
      says: 'ends also every key that rotations put in its place',
      schema: trueOrFalseText.prefault(false),
    },
  },
  answer: {
    name: 'RevokedKey',
    says: 'The key, and what is left of its client.',
    schema: keySchema.extend({
      revoked_successors: z
        .array(z.string())
        .describe('Keys that rotations had put in its place, and that were revoked with it.'),
      active_successors: z.array(z.string()).describe('Those that stay valid.'),
      webhook_endpoints: z
        .array(endpointSchema.extend({ disabled_now: z.boolean().describe('By this revocation.') }))
        .describe('All endpoints of the client.'),
    }),
  },
  async run({ store, clock }: StoreParts, { key_id: id, with_successors: withSuccessors }, actor) {
    const revoked = await revokeOne(store, id, actor, clock);
    const ended: string[] = [];
    let active = await activeSuccessors(store, id, clock());
    // A client that rotates at the same time creates another; a revoked key cannot be rotated, so the loop ends.
    for (; withSuccessors && active.length > 0; active = await activeSuccessors(store, id, clock()))
      for (const next of active) ended.push((await revokeOne(store, next.id, actor, clock)).id);
    // If we stop here, repeating the act completes it.
    const now = clock();
    const unmanaged = new Set((await unmanagedEndpoints(store, revoked, now)).map((one) => one.id));
    const endpoints = [];
    for (const endpoint of await store.webhooks.endpoints.all(revoked.clientId)) {
      const isUnmanaged = unmanaged.has(endpoint.id);
      const act = actBy(actor, 'webhook.disable', auditedEndpoint(endpoint));
      const left = isUnmanaged
        ? await store.webhooks.endpoints.change(endpoint.id, disabled(now), act)
        : endpoint;
      if (left !== undefined) endpoints.push({ ...presentEndpoint(left, now), disabled_now: isUnmanaged });
    }
    return {
      ...presentKey(revoked, now),
      revoked_successors: ended,
      active_successors: active.map((one) => one.id),
      webhook_endpoints: endpoints,
    };
  },
});
