/** Acts of administrators on API keys, by command or console: one change of the store each, recorded with its actor. */
import { assert } from '../base/assert.ts';
import { systemClock } from '../base/clock.ts';
import { OperatorError } from '../base/errors.ts';
import { hashApiKey, hashCertificateName, newApiKey } from '../job/apikey.ts';
import type { Act, ActName, ActObject, Actor } from '../manifest/auditRecord.ts';
import { auditedKey, type Holder, isLiveAt, issueTo, type Rotation, rotateKey } from './apiKeys.ts';
import type { Credential } from './credentialStore.ts';
import type { Store } from './store.ts';

type KeyStore = Pick<Store, 'identity' | 'credentials' | 'serviceTime'>;

export function actBy(actor: Actor, act: ActName, object: ActObject): Act {
  return { act, actor, object, outcome: 'done' };
}

export interface NewKey {
  holder: Holder;
  /** Used instead of a key: a client certificate with this name stands for the client. */
  certificateName?: string | undefined;
  /** Milliseconds; undefined: valid until it is revoked. */
  lifetimeMs?: number | undefined;
}

/** Returns the key, which is stored nowhere, and its credential. Throws OperatorError for a client of another organization. */
export async function issueKey(
  store: KeyStore,
  { holder, certificateName, lifetimeMs }: NewKey,
  actor: Actor,
): Promise<{ apiKey: string; credential: Credential }> {
  const apiKey = newApiKey(store.identity.environment);
  const at = { createdAt: systemClock(), since: store.serviceTime.now() };
  const issued = issueTo(holder, at, lifetimeMs === undefined ? undefined : at.createdAt + lifetimeMs);
  const credential: Credential =
    certificateName === undefined
      ? { keyHash: hashApiKey(apiKey), ...issued }
      : { keyHash: hashCertificateName(certificateName), ...issued, certificateName };
  await store.credentials.change((all) => {
    requireUnclaimed(credential, all);
    return { credentials: [credential], act: actBy(actor, 'key.issue', auditedKey(credential)) };
  });
  return { apiKey, credential };
}

/** Throws OperatorError if the client is of another organization, or the name of the certificate stood for another client. */
function requireUnclaimed({ clientId, organization, keyHash }: Credential, all: readonly Credential[]): void {
  const known = all.find((one) => one.clientId === clientId);
  if (known !== undefined && known.organization !== organization) {
    throw new OperatorError(
      `client ${clientId} belongs to organization ${known.organization}; a client cannot belong to two organizations`,
    );
  }
  const former = all.find((one) => one.keyHash === keyHash);
  if (former === undefined) return;
  if (former.clientId !== clientId)
    throw new OperatorError(
      `a certificate with this name stood for client ${former.clientId} (${former.id}); use a name that never stood for another client`,
    );
  if (isLiveAt(former, systemClock()))
    throw new OperatorError(
      `a certificate with this name stands for the client already (${former.id}); to change that, revoke it first`,
    );
}

export interface Replacement {
  /** Remaining lifetime of the old key, milliseconds. */
  overlapMs: number;
  /** Default: the lifetime of the old key when it was issued. */
  lifetimeMs?: number | undefined;
  /** Default: the certificate of the old key, if it is bound. */
  boundTo?: string | undefined;
}

/** Rotates a key. Throws OperatorError if it does not exist, or cannot be rotated. */
export async function replaceKey(
  store: KeyStore,
  keyId: string,
  { overlapMs, boundTo, ...options }: Replacement,
  actor: Actor,
): Promise<Rotation & { apiKey: string }> {
  const apiKey = newApiKey(store.identity.environment);
  const rotation = await store.credentials.change((all) => {
    const old = findApiKey(all, keyId);
    const at = { createdAt: systemClock(), since: store.serviceTime.now() };
    requireRotatable(old, at.createdAt);
    const lifetimeMs =
      options.lifetimeMs ?? (old.expiresAt === undefined ? undefined : old.expiresAt - old.createdAt);
    const expiresAt = lifetimeMs === undefined ? undefined : at.createdAt + lifetimeMs;
    const holder = boundTo === undefined ? old : { ...old, boundTo };
    const made = rotateKey(old, apiKey, { holder, at, expiresAt, overlapMs });
    const act = actBy(actor, 'key.rotate', made.object);
    return { ...made, credentials: [made.successor, made.replaced], act };
  });
  assert(rotation, 'the decision always writes');
  return { ...rotation, apiKey };
}

function requireRotatable(old: Credential, now: number): void {
  if (old.certificateName !== undefined)
    throw new OperatorError(
      `${old.id} is a client certificate, which has no key: renew the certificate at its authority`,
    );
  if (keyState(old, now) !== 'active')
    throw new OperatorError(`${old.id} is ${keyState(old, now)}: issue a new key`);
  if (old.replacedBy !== undefined)
    throw new OperatorError(`${old.id} was already replaced by ${old.replacedBy}; to end it now, revoke it`);
}

/** Revokes the key if it is not revoked yet. Returns its credential afterwards. Throws OperatorError if it does not exist. */
export async function revokeOne(
  { credentials }: Pick<Store, 'credentials'>,
  keyId: string,
  actor: Actor,
): Promise<Credential> {
  const changed = await credentials.change((all) => {
    const one = findApiKey(all, keyId);
    if (one.revokedAt !== undefined) return undefined;
    const act = actBy(actor, 'key.revoke', { key: keyId, client: one.clientId });
    return { credentials: [{ ...one, revokedAt: systemClock() }], act };
  });
  return changed?.credentials[0] ?? findApiKey(await credentials.all(), keyId);
}

/** The successors of this key through rotations, one after the other, that are still valid. */
export async function activeSuccessors(
  { credentials }: Pick<Store, 'credentials'>,
  keyId: string,
): Promise<Credential[]> {
  const all = new Map((await credentials.all()).map((one) => [one.id, one]));
  const found: Credential[] = [];
  for (let next = all.get(keyId); next !== undefined; ) {
    // Each key is taken once, so that damage to the store cannot cause an endless loop.
    all.delete(next.id);
    next = all.get(next.replacedBy ?? '');
    if (next !== undefined && keyState(next, systemClock()) === 'active') found.push(next);
  }
  return found;
}

/** Throws OperatorError. */
export function findApiKey(all: readonly Credential[], keyId: string): Credential {
  const credential = all.find(({ id }) => id === keyId);
  if (credential !== undefined) return credential;
  throw new OperatorError(`there is no key ${keyId}; see \`pdfseal keys list\``, { code: 'not_found' });
}

export function keyState(
  { revokedAt, expiresAt }: Credential,
  now: number,
): 'active' | 'revoked' | 'expired' {
  if (revokedAt !== undefined) return 'revoked';
  return expiresAt !== undefined && expiresAt <= now ? 'expired' : 'active';
}
