import { randomBytes } from 'node:crypto';
import { toRfc3339 } from '../base/clock.ts';
import { hashApiKey } from '../job/apikey.ts';
import type { ActObject } from '../manifest/auditRecord.ts';
import type { Credential } from './credentialStore.ts';

/** The owner of a key, and its rights. */
export type Holder = Pick<Credential, 'clientId' | 'organization' | 'scopes' | 'boundTo'>;

/** Time of issue: the date, and the same moment in service time. */
export interface IssuedAt {
  createdAt: number;
  since: number;
}

export type IssuedName = Omit<Credential, 'keyHash'>;

/** A credential without its hash, which is that of a key or of a certificate's name. */
export function issueTo(
  { clientId, organization, scopes, boundTo }: Holder,
  at: IssuedAt,
  expiresAt: number | undefined,
): IssuedName {
  return {
    id: `key_${randomBytes(8).toString('hex')}`,
    clientId,
    organization,
    scopes,
    boundTo,
    ...at,
    expiresAt,
  };
}

/** A rotation of a key to its successor. */
export interface Rotation {
  successor: Credential;
  /** The old key, which ends after the overlap. */
  replaced: Credential;
  object: ActObject;
}

/**
 * Rotates a key; `apiKey` is the new one. The successor has the holder's rights; the old key ends `overlapMs` after this moment, or as it
 * would have. Dates alone do not end it: the process that checks the key can have a date that is behind that of the rotation.
 */
export function rotateKey(
  old: Credential,
  apiKey: string,
  options: { holder?: Holder; at: IssuedAt; expiresAt: number | undefined; overlapMs: number },
): Rotation {
  const { holder = old, at, overlapMs } = options;
  const successor = { keyHash: hashApiKey(apiKey), ...issueTo(holder, at, options.expiresAt) };
  const expiresAt = Math.min(old.expiresAt ?? Number.POSITIVE_INFINITY, at.createdAt + overlapMs);
  const object = {
    ...auditedKey(successor),
    replaces: old.id,
    replaced_expires_at: toRfc3339(expiresAt),
  };
  const replaced = {
    ...old,
    expiresAt,
    replacedBy: successor.id,
    serviceEnd: at.since + overlapMs,
    ...(overlapMs === 0 && { revokedAt: at.createdAt }),
  };
  return { successor, replaced, object };
}

/** The description of an API key on the audit trail. */
export function auditedKey(credential: Credential): ActObject {
  const { id, keyHash, clientId, organization, scopes, certificateName, boundTo, expiresAt } = credential;
  return {
    key: id,
    key_sha256: keyHash,
    client: clientId,
    organization,
    scopes,
    certificate_name: certificateName,
    bound_certificate_sha256: boundTo,
    ...(expiresAt !== undefined && { expires_at: toRfc3339(expiresAt) }),
  };
}

/** Whether the credential is neither revoked nor expired at that date. A revocation counts at any date: clocks differ. */
export function isLiveAt({ expiresAt, revokedAt }: Credential, now: number): boolean {
  return revokedAt === undefined && (expiresAt === undefined || now < expiresAt);
}

export function keyState(
  { revokedAt, expiresAt }: Credential,
  now: number,
): 'active' | 'revoked' | 'expired' {
  if (revokedAt !== undefined) return 'revoked';
  return expiresAt !== undefined && expiresAt <= now ? 'expired' : 'active';
}
