import { assert, DamagedRecord } from '../../base/assert.ts';
import { bytesEqual } from '../../base/bytes.ts';
import type { Act } from '../../manifest/auditRecord.ts';
import type { Credential, CredentialChange, CredentialStore } from '../credentialStore.ts';
import { encodeRecord, parseRecord } from '../records.ts';
import type { Change } from './commits.ts';
import type { Databases } from './databases.ts';
import { credentialKey } from './keyLayout.ts';
import type { TrailRecords } from './trailRecords.ts';

/** Other processes write API keys too: every read takes a new snapshot, so revoking a key acts at once. */
export class CredentialRecords implements CredentialStore {
  readonly #databases: Databases;
  readonly #trail: TrailRecords;
  /** Records as they were last read, with their bytes: most requests bring a key that was just used. */
  readonly #read = new Map<string, { bytes: Uint8Array; credential: Credential }>();

  constructor(databases: Databases, trail: TrailRecords) {
    this.#databases = databases;
    this.#trail = trail;
  }

  async get(keyHash: string): Promise<Credential | undefined> {
    this.#databases.root.resetReadTxn();
    const key = credentialKey(keyHash);
    const bytes = key && this.#databases.credentials.getBinary(key);
    if (!bytes) {
      this.#read.delete(keyHash);
      return undefined;
    }
    const known = this.#read.get(keyHash);
    if (known !== undefined && bytesEqual(known.bytes, bytes)) return known.credential;
    const credential = parseRecord<Credential>(bytes);
    this.#read.set(keyHash, { bytes, credential });
    return credential;
  }

  async all(): Promise<Credential[]> {
    return this.#all();
  }

  async put(credentials: Credential[], act: Act | null): Promise<void> {
    await this.#trail.write(act, { changes: this.#changes(credentials) });
  }

  async change<Decision extends CredentialChange>(
    decide: (all: readonly Credential[]) => Decision | undefined,
  ): Promise<Decision | undefined> {
    let decision: Decision | undefined;
    await this.#trail.decide(() => {
      decision = decide(this.#all());
      if (decision === undefined) return undefined;
      const { act, credentials, forgotten = [] } = decision;
      const removals = this.#changes(forgotten).map(({ database, key }) => ({ database, key }));
      return { act, write: { changes: [...this.#changes(credentials), ...removals] } };
    });
    return decision;
  }

  #all(): Credential[] {
    this.#databases.root.resetReadTxn();
    return Array.from(this.#databases.credentials.getRange({}), ({ key, value }) => {
      const credential = parseRecord<Credential>(value);
      const own = credentialKey(credential.keyHash);
      // Keys have no checksum. Nobody would be let in with this one, and nothing would say why.
      if (own === undefined || !bytesEqual(own, key))
        throw new DamagedRecord(`API key ${credential.id} in the store is damaged: it is not in its place`);
      return credential;
    });
  }

  #changes(credentials: Credential[]): Change[] {
    return credentials.map((credential) => {
      const key = credentialKey(credential.keyHash);
      assert(key, 'a credential is stored by the SHA-256 of its key, in lower-case hex');
      return { database: this.#databases.credentials, key, value: encodeRecord(credential) };
    });
  }
}
