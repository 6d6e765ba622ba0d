import { systemClock } from '../base/clock.ts';
import type { Actor } from '../manifest/auditRecord.ts';
import { isLiveAt } from '../store/apiKeys.ts';
import type { Credential } from '../store/credentialStore.ts';
import { actBy, activeSuccessors, revokeOne } from '../store/keyActs.ts';
import type { Store } from '../store/store.ts';
import type { WebhookEndpoint } from '../store/webhookStore.ts';
import { auditedEndpoint, disabled } from './endpoints.ts';
import { presentEndpoint } from './presentEndpoint.ts';

export interface Ended {
  revoked: Credential;
  /** The keys that rotations had put in its place, and that were revoked with it. */
  ended: string[];
  /** Those that stay valid. */
  active: string[];
  /** All endpoints of the client. */
  endpoints: LeftEndpoint[];
}

export interface LeftEndpoint {
  shown: ReturnType<typeof presentEndpoint>;
  /** By this revocation. */
  wasDisabled: boolean;
}

/** Revokes a key, and disables the webhook endpoints that no valid key can manage any more. Throws OperatorError if there is no such key. */
export async function endKey(
  store: Store,
  keyId: string,
  { withSuccessors, actor }: { withSuccessors: boolean; actor: Actor },
): Promise<Ended> {
  const revoked = await revokeOne(store, keyId, actor);
  const ended: string[] = [];
  let active = await activeSuccessors(store, keyId);
  // A client that rotates at the same time creates another; a revoked key cannot be rotated, so the loop ends.
  for (; withSuccessors && active.length > 0; active = await activeSuccessors(store, keyId))
    for (const { id } of active) ended.push((await revokeOne(store, id, actor)).id);
  // If we stop here, repeating the act completes it.
  const endpoints = await disableUnmanaged(store, revoked, actor);
  return { revoked, ended, active: active.map(({ id }) => id), endpoints };
}

/** Enabled endpoints without a valid key that can manage them, after the end of this key. */
export async function unmanagedEndpoints(
  store: Store,
  { clientId, scopes }: Credential,
): Promise<WebhookEndpoint[]> {
  const now = systemClock();
  const live = (await store.credentials.all()).filter(
    (one) => one.clientId === clientId && isLiveAt(one, now),
  );
  const isManaged = live.some((one) => one.scopes.includes('webhooks:manage'));
  const isUnmanaged = live.length === 0 || (scopes.includes('webhooks:manage') && !isManaged);
  if (!isUnmanaged) return [];
  return (await store.webhooks.endpoints.all(clientId)).filter(({ disabled }) => disabled === undefined);
}

async function disableUnmanaged(store: Store, revoked: Credential, actor: Actor): Promise<LeftEndpoint[]> {
  const now = systemClock();
  const unmanaged = new Set((await unmanagedEndpoints(store, revoked)).map(({ id }) => id));
  const left: LeftEndpoint[] = [];
  for (const endpoint of await store.webhooks.endpoints.all(revoked.clientId)) {
    const wasDisabled = unmanaged.has(endpoint.id);
    const act = actBy(actor, 'webhook.disable', auditedEndpoint(endpoint));
    const changed = wasDisabled
      ? await store.webhooks.endpoints.change(endpoint.id, disabled(now), act)
      : endpoint;
    if (changed !== undefined) left.push({ shown: presentEndpoint(changed, now), wasDisabled });
  }
  return left;
}
