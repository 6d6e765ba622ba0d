import { systemClock, toRfc3339 } from '../../base/clock.ts';
import { OperatorError } from '../../base/errors.ts';
import { actOfProcess } from '../../store/acts.ts';
import type { Credential } from '../../store/credentialStore.ts';
import type { Store } from '../../store/store.ts';
import { withStore } from '../options.ts';
import { note, printJson } from '../terminal.ts';
import { disableUnmanaged } from './unmanagedEndpoints.ts';

interface RevokeOptions {
  config: string;
  json?: true;
  withSuccessors?: true;
}

/** `pdfseal keys revoke` */
export async function revokeKey(
  keyId: string,
  { config, json, withSuccessors }: RevokeOptions,
): Promise<void> {
  await withStore(config, 'write', async (store) => {
    const revoked = await revokeOne(store, keyId);
    const ended: string[] = [];
    let active = await activeSuccessors(store, keyId);
    // A client that rotates meanwhile makes another: a revoked key makes none, so this ends.
    for (; withSuccessors && active.length > 0; active = await activeSuccessors(store, keyId))
      for (const { id } of active) ended.push((await revokeOne(store, id)).id);
    // If we stop here, the same command completes it.
    const endpoints = await disableUnmanaged(store, revoked);
    const successors = active.map(({ id }) => id);
    if (json) {
      const webhook_endpoints = endpoints.map(({ shown }) => shown);
      const others = { revoked_successors: ended, active_successors: successors };
      printJson({ ...presentKey(revoked), ...others, webhook_endpoints });
      return;
    }
    for (const id of [keyId, ...ended]) note(`${id} of client ${revoked.clientId} is revoked`);
    for (const id of successors)
      note(`${id}, which replaced it, stays valid; to end it: pdfseal keys revoke ${id}`);
    if (successors.length > 0)
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

/** Ends the key if it is not revoked yet. Returns it as it is then. */
async function revokeOne({ credentials }: Pick<Store, 'credentials'>, keyId: string): Promise<Credential> {
  const changed = await credentials.change((all) => {
    const { successorSalt, ...one } = findApiKey(all, keyId);
    if (one.revokedAt !== undefined) return undefined;
    const act = actOfProcess('command', 'key.revoke', { key: keyId, client: one.clientId });
    return { credentials: [{ ...one, revokedAt: systemClock() }], act };
  });
  return changed?.credentials[0] ?? findApiKey(await credentials.all(), keyId);
}

/** The keys that rotations put in the place of this one, one after the other, and that are valid still. */
async function activeSuccessors(
  { credentials }: Pick<Store, 'credentials'>,
  keyId: string,
): Promise<Credential[]> {
  const all = new Map((await credentials.all()).map((one) => [one.id, one]));
  const found: Credential[] = [];
  for (let next = all.get(keyId); next !== undefined; ) {
    // Each key is taken once: damage to the store makes no circle.
    all.delete(next.id);
    next = all.get(next.replacedBy ?? '');
    if (next !== undefined && stateOf(next, systemClock()) === 'active') found.push(next);
  }
  return found;
}

/** Throws OperatorError. */
export function findApiKey(all: readonly Credential[], keyId: string): Credential {
  const credential = all.find(({ id }) => id === keyId);
  if (credential !== undefined) return credential;
  throw new OperatorError(`there is no key ${keyId}; see \`pdfseal keys list\``, { code: 'not_found' });
}

export function stateOf({ revokedAt, expiresAt }: Credential, now: number): 'active' | 'revoked' | 'expired' {
  if (revokedAt !== undefined) return 'revoked';
  return expiresAt !== undefined && expiresAt <= now ? 'expired' : 'active';
}

export function presentKey(credential: Credential) {
  return {
    id: credential.id,
    client: credential.clientId,
    organization: credential.organization,
    scopes: credential.scopes,
    ...(credential.certificateName !== undefined && { certificate_name: credential.certificateName }),
    ...(credential.boundTo !== undefined && { bound_certificate_sha256: credential.boundTo }),
    state: stateOf(credential, systemClock()),
    created_at: toRfc3339(credential.createdAt),
    ...(credential.expiresAt !== undefined && { expires_at: toRfc3339(credential.expiresAt) }),
    ...(credential.revokedAt !== undefined && { revoked_at: toRfc3339(credential.revokedAt) }),
    ...(credential.replacedBy !== undefined && { replaced_by: credential.replacedBy }),
  };
}
