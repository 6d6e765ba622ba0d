import { randomBytes } from 'node:crypto';
import { toRfc3339 } from '../base/clock.ts';
import { hashApiKey } from '../job/apikey.ts';
import type { ActObject } from '../manifest/auditRecord.ts';
import type { Credential } from './credentialStore.ts';

/** For whom a key is, and what it can do. */
export type Holder = Pick<Credential, 'clientId' | 'organization' | 'scopes' | 'boundTo'>;

/** When something is issued: the date, and the same moment in service time. */
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
    ...(boundTo !== undefined && { boundTo }),
    ...at,
    ...(expiresAt !== undefined && { expiresAt }),
  };
}

/** A key that takes the place of another. */
export interface Rotation {
  successor: Credential;
  /** The old key, which ends after the overlap. */
  replaced: Credential;
  object: ActObject;
}

/**
 * `apiKey` is the new key. The successor has the holder's rights; the old key ends `overlapMs` after this moment, or as it would have.
 * Dates alone do not end it: whoever checks the key can have a date that is behind the one that made the rotation.
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

/** What the audit trail says of an API key. */
export function auditedKey(credential: Credential): ActObject {
  const { id, keyHash, clientId, organization, scopes, certificateName, boundTo, expiresAt } = credential;
  return {
    key: id,
    key_sha256: keyHash,
    client: clientId,
    organization,
    scopes,
    ...(certificateName !== undefined && { certificate_name: certificateName }),
    ...(boundTo !== undefined && { bound_certificate_sha256: boundTo }),
    ...(expiresAt !== undefined && { expires_at: toRfc3339(expiresAt) }),
  };
}

/** Whether the credential is neither revoked nor expired at that date. A revocation counts at any date: clocks differ. */
export function isLiveAt({ expiresAt, revokedAt }: Credential, now: number): boolean {
  return revokedAt === undefined && (expiresAt === undefined || now < expiresAt);
}
