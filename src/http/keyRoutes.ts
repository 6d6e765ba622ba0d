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
import { KEY_OVERLAP_SECONDS, type RotatedKey } from './schemas.ts';

interface KeyRouteOptions {
  store: Pick<Store, 'credentials' | 'serviceTime' | 'identity'>;
  bodyTimeoutMs: number;
  clock: Clock;
}

/** A client that rotates keys faster than they end has a fault. */
const LIVE_KEYS_MAX = 32;
const HOUR_MS = 3_600_000;
/** In service time: how old a key of a rotation is before its own. Each leaves a record on the audit trail, for good. */
const AGE_MS_MIN = HOUR_MS;
/** In service time: how long after its end a replaced key is still listed. */
const LISTED_MS = 7 * 24 * HOUR_MS;

/**
 * `POST /v1/keys/rotate`: a new key in place of the one that the request has. Until the old key ends, a repeat gets the same answer: so
 * no answer can be lost. The new key ends when the old one would have: only an administrator makes access last longer.
 */
export function rotateOwnKey(options: KeyRouteOptions): Middleware {
  const { store } = options;
  return async (ctx) => {
    if (ctx.req.headers.authorization === undefined)
      throw notRotatable('A client certificate has no API key to rotate: renew it at its authority.');
    const apiKey = apiKeyOf(ctx, store.identity.environment);
    const overlapMs = overlapMsIn(await readOptionalJson(ctx, options.bodyTimeoutMs));
    await callerOf(ctx).confirm();
    // A change reads all keys: a repeat, and a rotation that is refused, need only this one.
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
    const { replaced } = made;
    const successor = { ...made.successor, replaces: old.id };
    const validMs = (replaced.expiresAt ?? at.createdAt) - at.createdAt;
    const kept = { keyHash: old.keyHash, salt: salt.toString('base64'), endsAt: at.since + validMs };
    const { forgotten, repointed } = withoutEnded(old.clientId, all, store.serviceTime.now());
    const act: Act = actOfCaller(callerOf(ctx), 'key.rotate', made.object);
    // Written again, the key before this one loses its salt: otherwise its holder could learn this one.
    const former = all.filter(({ replacedBy }) => replacedBy === old.id);
    return { credentials: [...former, successor, replaced, ...repointed], salts: [kept], forgotten, act };
  });
}

/** The same for the first request and its repeats. */
async function answerTo(apiKey: string, { store, clock }: KeyRouteOptions): Promise<RotatedKey> {
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
    ...(boundTo !== undefined && { 'x5t#S256': Buffer.from(boundTo, 'hex').toString('base64url') }),
    ...(expiresAt !== undefined && { expires_at: toRfc3339(expiresAt) }),
    replaces: old.id,
    replaced_expires_at: toRfc3339(old.expiresAt),
  };
}

/**
 * The keys that rotations made and that ended long ago: without this, rotations would fill the store. Keys before them then name the next
 * one that is kept, so that the way from a key to its successors stays whole.
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

function liveKeysOf(client: string, all: readonly Credential[], now: number): number {
  return all.filter((one) => one.clientId === client && isLiveAt(one, now)).length;
}

function overlapMsIn({ overlap_seconds: seconds, ...rest }: Record<string, unknown>): number {
  const [unknown] = Object.keys(rest);
  if (unknown === undefined) return readOverlapMs(seconds, KEY_OVERLAP_SECONDS);
  const message = `${unknown} is not known here. Send overlap_seconds or nothing.`;
  throw new ServiceError('unknown_parameter', message, { parameter: unknown });
}

function notRotatable(message: string): ServiceError {
  return new ServiceError('key_not_rotatable', message);
}
