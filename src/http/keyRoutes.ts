import { randomBytes } from 'node:crypto';
import { type Clock, toRfc3339 } from '../base/clock.ts';
import { ServiceError } from '../base/errors.ts';
import { hashApiKey, successorApiKey } from '../job/apikey.ts';
import type { Act } from '../manifest/auditRecord.ts';
import { isLiveAt, rotateKey } from '../store/apiKeys.ts';
import type { Credential } from '../store/credentialStore.ts';
import type { Store } from '../store/store.ts';
import { apiKeyOf } from './authentication.ts';
import { readOptionalJson } from './json.ts';
import { actOfCaller, callerOf, JSON_TYPE, type Middleware } from './requestContext.ts';
import { KEY_OVERLAP_SECONDS, type RotatedKey } from './schemas.ts';

export interface KeyRouteOptions {
  store: Pick<Store, 'credentials' | 'serviceTime' | 'identity'>;
  bodyTimeoutMs: number;
  clock: Clock;
}

/** A client that rotates keys faster than they end has a fault. */
const LIVE_KEYS_MAX = 32;

/**
 * `POST /v1/keys/rotate`: a new key in place of the one that the request has. Until the old key ends, a repeat gets the same answer: so
 * no answer can be lost. The new key ends when the old one would have: only an administrator makes access last longer.
 */
export function rotateOwnKey(options: KeyRouteOptions): Middleware {
  const { store, clock } = options;
  const { environment } = store.identity;
  return async (ctx) => {
    if (ctx.req.headers.authorization === undefined)
      throw notRotatable('A client certificate has no API key to rotate: renew it at its authority.');
    const apiKey = apiKeyOf(ctx, environment);
    const overlapMs = readOverlapMs(await readOptionalJson(ctx, options.bodyTimeoutMs));
    await callerOf(ctx).confirm();
    await store.credentials.change((all) => {
      const old = all.find(({ keyHash }) => keyHash === hashApiKey(apiKey));
      if (old === undefined || !isLiveAt(old, clock()) || old.replacedBy !== undefined) return undefined;
      if (liveKeysOf(old.clientId, all, clock()) >= LIVE_KEYS_MAX)
        throw notRotatable(
          `The client has ${LIVE_KEYS_MAX} valid API keys. Rotate again when one of them has ended.`,
        );
      const salt = randomBytes(32);
      const at = { createdAt: clock(), since: store.serviceTime.now() };
      const made = rotateKey(old, successorApiKey(apiKey, salt, environment), {
        at,
        expiresAt: old.expiresAt,
        overlapMs,
      });
      const replaced = { ...made.replaced, successorSalt: salt.toString('base64') };
      const act: Act = actOfCaller(callerOf(ctx), 'key.rotate', made.object);
      return { credentials: [made.successor, replaced, ...withoutSalts(old, all)], act };
    });
    ctx.status = 200;
    ctx.type = JSON_TYPE;
    ctx.set('Cache-Control', 'no-store');
    ctx.body = JSON.stringify(await answerTo(apiKey, options));
  };
}

/** The same for the first request and its repeats. */
async function answerTo(apiKey: string, { store, clock }: KeyRouteOptions): Promise<RotatedKey> {
  const old = await store.credentials.get(hashApiKey(apiKey));
  if (old?.successorSalt === undefined || old.expiresAt === undefined)
    throw notRotatable(
      `This API key was already replaced by ${old?.replacedBy ?? 'another'}. Use that key; if you do not have it, ask the administrator.`,
    );
  const salt = Buffer.from(old.successorSalt, 'base64');
  const next = successorApiKey(apiKey, salt, store.identity.environment);
  const successor = await store.credentials.get(hashApiKey(next));
  if (successor === undefined || !isLiveAt(successor, clock()))
    throw notRotatable(`This API key was replaced by ${old.replacedBy ?? 'another'}, which has ended.`);
  const { id, clientId, organization, scopes, boundTo, expiresAt } = successor;
  return {
    api_key: next,
    id,
    client: clientId,
    organization,
    scopes,
    ...(boundTo !== undefined && { 'x5t#S256': Buffer.from(boundTo, 'hex').toString('base64url') }),
    ...(expiresAt !== undefined && { expires_at: toRfc3339(expiresAt) }),
    replaces: old.id,
    replaced_expires_at: toRfc3339(old.expiresAt),
  };
}

/** The key before this one: who still had it could otherwise learn this one until the end of time. */
function withoutSalts({ id }: Credential, all: readonly Credential[]): Credential[] {
  return all
    .filter(({ replacedBy, successorSalt }) => replacedBy === id && successorSalt !== undefined)
    .map(({ successorSalt, ...rest }) => rest);
}

function liveKeysOf(client: string, all: readonly Credential[], now: number): number {
  return all.filter((one) => one.clientId === client && isLiveAt(one, now)).length;
}

function readOverlapMs({
  overlap_seconds: seconds = KEY_OVERLAP_SECONDS.default,
  ...rest
}: Record<string, unknown>): number {
  const [unknown] = Object.keys(rest);
  if (unknown !== undefined)
    throw new ServiceError(
      'unknown_parameter',
      `${unknown} is not known here. Send overlap_seconds or nothing.`,
      {
        parameter: unknown,
      },
    );
  const { min, max } = KEY_OVERLAP_SECONDS;
  if (typeof seconds === 'number' && Number.isInteger(seconds) && seconds >= min && seconds <= max)
    return seconds * 1000;
  const message = `overlap_seconds must be an integer from ${min} to ${max}.`;
  throw new ServiceError('invalid_parameter', message, { parameter: 'overlap_seconds' });
}

function notRotatable(message: string): ServiceError {
  return new ServiceError('key_not_rotatable', message);
}
