import type { Act } from '../manifest/auditRecord.ts';

/** API keys, by the hash of the key, and client certificates, by the hash of a name. */
export interface CredentialStore {
  get(keyHash: string): Promise<Credential | undefined>;
  all(): Promise<Credential[]>;

  /**
   * Writes the result of `decide` on all credentials, without any act of another process in between. `decide` can be called several times;
   * if it returns undefined, nothing is written. Resolves with its last decision.
   */
  change<Decision extends CredentialChange>(
    decide: (all: readonly Credential[]) => Decision | undefined,
  ): Promise<Decision | undefined>;

  /** The salt of a rotated key; undefined once it was erased. Fronts cannot read it. */
  saltOf(keyHash: string): Promise<string | undefined>;

  /** Erases the salts of keys that have ended by that service time, at most `limit`. Resolves with their number. */
  sweepSalts(now: number, limit: number): Promise<number>;
}

/** The salt from which the next key is derived from one that is still valid, so that a repeated request for it gets the same answer. */
export interface SuccessorSalt {
  /** The rotated key. */
  keyHash: string;
  /** Base64. */
  salt: string;
  /** End of that key, in service time. */
  endsAt: number;
}

export interface CredentialChange {
  /** Added, or in the place of those with the same `keyHash`. */
  credentials: Credential[];
  /** Credentials that the same change removes. */
  forgotten?: Credential[];
  /** Salts of credentials that this change writes. The salts of all others that it writes or removes are erased. */
  salts?: SuccessorSalt[];
  act: Act;
}

export const SCOPES = ['jobs:create', 'jobs:read', 'webhooks:manage', 'admin:read', 'admin'] as const;
export type Scope = (typeof SCOPES)[number];

/** An API key as the store knows it: never the key itself. */
export interface Credential {
  /** Lower-case hex SHA-256 of the whole key; for a certificate's name, see `hashCertificateName`. */
  keyHash: string;
  /** Public name of the key, `key_…`. */
  id: string;
  /** Present instead of a key: a client certificate with this name stands for the client. */
  certificateName?: string;
  /** SHA-256 of a client certificate, lower-case hex: the key is refused on a connection without it. */
  boundTo?: string;
  clientId: string;
  organization: string;
  scopes: Scope[];
  createdAt: number;
  /** Service time of its issue. */
  since: number;
  expiresAt?: number;
  revokedAt?: number;
  /** The successor of this key after a rotation. */
  replacedBy?: string;
  /** The key that its own client rotated to this one: the API made it. */
  replaces?: string;
  /** Service time at which the rotation ends this key, whatever the date is. */
  serviceEnd?: number;
}
