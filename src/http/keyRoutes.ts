import { randomBytes } from 'node:crypto';
import { type Clock, toRfc3339 } from '../base/clock.ts';
import { ServiceError } from '../base/errors.ts';
import { hashApiKey, successorApiKey } from '../job/apikey.ts';
import type { Act } from '../manifest/auditRecord.ts';
import { isLiveAt, rotateKey } from '../store/apiKeys.ts';
import type { Credential } from '../store/credentialStore.ts';
import type { Store } from '../store/store.ts';
import { apiKeyOf } from './authentication.ts';
import { readOptionalJson, readOverlapMs } from './json.ts';
import { actOfCaller, answerJson, callerOf, type Middleware, type RequestContext } from './requestContext.ts';
import { type ApiBody, KEY_OVERLAP_SECONDS } from './schemas.ts';

interface KeyRouteOptions {
  store: Pick<Store, 'credentials' | 'serviceTime' | 'identity'>;
  bodyTimeoutMs: number;
  clock: Clock;
}

/** A client that rotates keys faster than they expire is faulty. */
const LIVE_KEYS_MAX = 32;
const HOUR_MS = 3_600_000;
/** In service time: the minimum age of a key before it can be rotated. Each rotation leaves a permanent record on the audit trail. */
const AGE_MS_MIN = HOUR_MS;
/** In service time: how long a rotated key is still listed after its end. */
const LISTED_MS = 7 * 24 * HOUR_MS;

/**
 * `POST /v1/keys/rotate`: a new key that replaces the key of the request. Until the old key ends, a repeat gets the same answer, so the
 * loss of an answer does no harm. The new key ends when the old one would have: only an administrator can extend access.
 */
export function rotateOwnKey(options: KeyRouteOptions): Middleware {
  const { store } = options;
  return async (ctx) => {
    if (ctx.req.headers.authorization === undefined)
      throw notRotatable('A client certificate has no API key to rotate: renew it at its authority.');
    const apiKey = apiKeyOf(ctx, store.identity.environment);
    const { overlap_seconds, ...rest } = await readOptionalJson(ctx, options.bodyTimeoutMs);
    const [parameter] = Object.keys(rest);
    if (parameter !== undefined) {
      const message = `${parameter} is not known here. Send overlap_seconds or nothing.`;
      throw new ServiceError('unknown_parameter', message, { parameter });
    }
    const overlapMs = readOverlapMs(overlap_seconds, KEY_OVERLAP_SECONDS);
    // A change reads all keys; a repeat, or a refused rotation, needs only this one.
    const known = await store.credentials.get(hashApiKey(apiKey));
    if (known?.replacedBy === undefined) await replace(ctx, apiKey, known, overlapMs, options);
    ctx.set('Cache-Control', 'no-store');
    answerJson(ctx, 200, await answerTo(apiKey, options));
  };
}

async function replace(
  ctx: RequestContext,
  apiKey: string,
  known: Credential | undefined,
  overlapMs: number,
  { store, clock }: KeyRouteOptions,
): Promise<void> {
  const { environment } = store.identity;
  if (known?.replaces !== undefined && store.serviceTime.since(known.since) < AGE_MS_MIN)
    throw notRotatable('This API key came from a rotation less than an hour ago. Rotate it later.');
  await store.credentials.change((all) => {
    const old = all.find(({ keyHash }) => keyHash === hashApiKey(apiKey));
    if (old === undefined || !isLiveAt(old, clock()) || old.replacedBy !== undefined) return undefined;
    const live = all.filter((one) => one.clientId === old.clientId && isLiveAt(one, clock()));
    if (live.length >= LIVE_KEYS_MAX)
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
    const { replaced } = made;
    const successor = { ...made.successor, replaces: old.id };
    const validMs = (replaced.expiresAt ?? at.createdAt) - at.createdAt;
    const kept = { keyHash: old.keyHash, salt: salt.toString('base64'), endsAt: at.since + validMs };
    const { forgotten, repointed } = withoutEnded(old.clientId, all, store.serviceTime.now());
    const act: Act = actOfCaller(callerOf(ctx), 'key.rotate', made.object);
    // The key before this one is rewritten without its salt: otherwise its holder could derive this one.
    const former = all.filter(({ replacedBy }) => replacedBy === old.id);
    return { credentials: [...former, successor, replaced, ...repointed], salts: [kept], forgotten, act };
  });
}

/** The same for the first request and its repeats. */
async function answerTo(apiKey: string, { store, clock }: KeyRouteOptions): Promise<ApiBody<'RotatedKey'>> {
  const keyHash = hashApiKey(apiKey);
  const [old, salt] = [await store.credentials.get(keyHash), await store.credentials.saltOf(keyHash)];
  if (salt === undefined || old?.expiresAt === undefined)
    throw notRotatable(
      `This API key was already replaced by ${old?.replacedBy ?? 'another'}. Use the key that replaced it last; if you do not have it, ask the administrator.`,
    );
  const next = successorApiKey(apiKey, Buffer.from(salt, 'base64'), store.identity.environment);
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
    'x5t#S256': boundTo === undefined ? undefined : Buffer.from(boundTo, 'hex').toString('base64url'),
    expires_at: expiresAt === undefined ? undefined : toRfc3339(expiresAt),
    replaces: old.id,
    replaced_expires_at: toRfc3339(old.expiresAt),
  };
}

/**
 * Removes keys that rotations created and that ended long ago, because otherwise rotations would fill the store. Keys before them are
 * changed to name the next remaining key, so that the chain from a key to its successors stays complete.
 */
function withoutEnded(
  client: string,
  all: readonly Credential[],
  now: number,
): { forgotten: Credential[]; repointed: Credential[] } {
  const forgotten = all.filter(
    ({ clientId, replaces, replacedBy, serviceEnd, revokedAt }) =>
      clientId === client &&
      replaces !== undefined &&
      replacedBy !== undefined &&
      revokedAt === undefined &&
      serviceEnd !== undefined &&
      now > serviceEnd + LISTED_MS,
  );
  const nextOf = new Map(forgotten.map(({ id, replacedBy }) => [id, replacedBy]));
  const repointed = all.flatMap((one) => {
    let { replacedBy } = one;
    if (nextOf.has(one.id) || replacedBy === undefined || !nextOf.has(replacedBy)) return [];
    for (; replacedBy !== undefined && nextOf.has(replacedBy); ) replacedBy = nextOf.get(replacedBy);
    return replacedBy === undefined ? [] : [{ ...one, replacedBy }];
  });
  return { forgotten, repointed };
}

function notRotatable(message: string): ServiceError {
  return new ServiceError('key_not_rotatable', message);
}
