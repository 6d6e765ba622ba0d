import { systemClock, toRfc3339 } from '../../base/clock.ts';
import { actorOfProcess } from '../../store/acts.ts';
import type { Credential } from '../../store/credentialStore.ts';
import { keyState } from '../../store/keyActs.ts';
import { endKey } from '../../webhook/endKey.ts';
import { isJson, note, printJson } from '../terminal.ts';
import { withStore } from '../withStore.ts';

/** Implements `pdfseal keys revoke`. */
export async function revokeKey(config: string, keyId: string, withSuccessors: boolean): Promise<void> {
  await withStore(config, 'write', async (store) => {
    const wanted = { withSuccessors, actor: actorOfProcess('command') };
    const { revoked, ended, active, endpoints } = await endKey(store, keyId, wanted);
    if (isJson()) {
      const webhook_endpoints = endpoints.map(({ shown }) => shown);
      const others = { revoked_successors: ended, active_successors: active };
      printJson({ ...presentKey(revoked), ...others, webhook_endpoints });
      return;
    }
    for (const id of [keyId, ...ended]) note(`${id} of client ${revoked.clientId} is revoked`);
    for (const id of active)
      note(`${id}, which replaced it, stays valid; to end it: pdfseal keys revoke ${id}`);
    if (active.length > 0)
      note(
        `If ${keyId} was stolen, end all keys that replaced it: pdfseal keys revoke ${keyId} --with-successors`,
      );
    for (const { shown, wasDisabled } of endpoints) {
      const what = wasDisabled
        ? `is now disabled: no valid key of the client can manage it; to enable it: pdfseal webhooks enable ${shown.id}`
        : shown.status === 'enabled'
          ? `still receives messages; to stop them: pdfseal webhooks disable ${shown.id}`
          : 'was already disabled';
      note(`webhook endpoint ${shown.id} (${shown.url}) ${what}`);
    }
  });
}

export function presentKey(credential: Credential) {
  return {
    id: credential.id,
    client: credential.clientId,
    organization: credential.organization,
    scopes: credential.scopes,
    certificate_name: credential.certificateName,
    bound_certificate_sha256: credential.boundTo,
    state: keyState(credential, systemClock()),
    created_at: toRfc3339(credential.createdAt),
    ...(credential.expiresAt !== undefined && { expires_at: toRfc3339(credential.expiresAt) }),
    ...(credential.revokedAt !== undefined && { revoked_at: toRfc3339(credential.revokedAt) }),
    replaced_by: credential.replacedBy,
  };
}
