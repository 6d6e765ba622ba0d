import { systemClock } from '../../base/clock.ts';
import { actOfProcess } from '../../store/acts.ts';
import { isLiveAt } from '../../store/apiKeys.ts';
import type { Credential } from '../../store/credentialStore.ts';
import type { Store } from '../../store/store.ts';
import { auditedEndpoint, disabled } from '../../webhook/endpoints.ts';
import { presentEndpoint } from '../../webhook/presentEndpoint.ts';

interface Left {
  shown: ReturnType<typeof presentEndpoint>;
  /** By this revocation. */
  wasDisabled: boolean;
}

/** Disables the webhook endpoints that no valid key can manage any more. Returns all endpoints of the client. */
export async function disableUnmanaged(store: Store, { clientId, scopes }: Credential): Promise<Left[]> {
  const now = systemClock();
  const live = (await store.credentials.all()).filter(
    (one) => one.clientId === clientId && isLiveAt(one, now),
  );
  const isManaged = live.some((one) => one.scopes.includes('webhooks:manage'));
  const isUnmanaged = live.length === 0 || (scopes.includes('webhooks:manage') && !isManaged);
  const left: Left[] = [];
  for (const endpoint of await store.webhooks.endpoints.all(clientId)) {
    const wasDisabled = isUnmanaged && endpoint.disabled === undefined;
    const act = actOfProcess('command', 'webhook.disable', auditedEndpoint(endpoint));
    const changed = wasDisabled
      ? await store.webhooks.endpoints.change(endpoint.id, disabled(now), act)
      : endpoint;
    if (changed !== undefined) left.push({ shown: presentEndpoint(changed, now), wasDisabled });
  }
  return left;
}
