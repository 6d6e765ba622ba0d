/** What the operations on API keys ask of the credentials in the store, and how one of them is revoked. */
import type { Clock } from '../base/clock.ts';
import { OperatorError } from '../base/errors.ts';
import type { Actor } from '../manifest/auditRecord.ts';
import { actBy } from '../store/acts.ts';
import { isLiveAt, keyState } from '../store/apiKeys.ts';
import type { Credential } from '../store/credentialStore.ts';
import type { Store } from '../store/store.ts';
import type { WebhookEndpoint } from '../store/webhookStore.ts';

/** Throws OperatorError if the client is of another organization, or the name of the certificate stood for another client. */
export function requireUnclaimed(
  { clientId, organization, keyHash }: Credential,
  all: readonly Credential[],
  now: number,
): void {
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
  if (isLiveAt(former, now))
    throw new OperatorError(
      `a certificate with this name stands for the client already (${former.id}); to change that, revoke it first`,
    );
}

/** Throws OperatorError. */
export function requireRotatable(old: Credential, now: number): void {
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
  id: string,
  actor: Actor,
  clock: Clock,
): Promise<Credential> {
  const changed = await credentials.change((all) => {
    const one = findApiKey(all, id);
    if (one.revokedAt !== undefined) return undefined;
    const act = actBy(actor, 'key.revoke', { key: id, client: one.clientId });
    return { credentials: [{ ...one, revokedAt: clock() }], act };
  });
  return changed?.credentials[0] ?? findApiKey(await credentials.all(), id);
}

/** The successors of this key through rotations, one after the other, that are still valid. */
export async function activeSuccessors(
  { credentials }: Pick<Store, 'credentials'>,
  id: string,
  now: number,
): Promise<Credential[]> {
  const all = new Map((await credentials.all()).map((one) => [one.id, one]));
  const found: Credential[] = [];
  for (let next = all.get(id); next !== undefined; ) {
    // Each key is taken once, so that damage to the store cannot cause an endless loop.
    all.delete(next.id);
    next = all.get(next.replacedBy ?? '');
    if (next !== undefined && keyState(next, now) === 'active') found.push(next);
  }
  return found;
}

/** Enabled endpoints without a valid key that can manage them, after the end of this key. */
export async function unmanagedEndpoints(
  store: Pick<Store, 'credentials' | 'webhooks'>,
  { clientId, scopes }: Credential,
  now: number,
): Promise<WebhookEndpoint[]> {
  const live = (await store.credentials.all()).filter(
    (one) => one.clientId === clientId && isLiveAt(one, now),
  );
  const isManaged = live.some((one) => one.scopes.includes('webhooks:manage'));
  const isUnmanaged = live.length === 0 || (scopes.includes('webhooks:manage') && !isManaged);
  if (!isUnmanaged) return [];
  return (await store.webhooks.endpoints.all(clientId)).filter(({ disabled }) => disabled === undefined);
}

/** Throws OperatorError. */
export function findApiKey(all: readonly Credential[], id: string): Credential {
  const credential = all.find((one) => one.id === id);
  if (credential !== undefined) return credential;
  throw new OperatorError(`there is no key ${id}; see \`pdfseal keys list\``, { code: 'not_found' });
}
