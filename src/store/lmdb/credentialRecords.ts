import { assert, DamagedRecord } from '../../base/assert.ts';
import { bytesEqual } from '../../base/bytes.ts';
import type { Credential, CredentialChange, CredentialStore } from '../credentialStore.ts';
import { encodeRecord, parseRecord } from '../records.ts';
import type { Change } from './commits.ts';
import type { Databases } from './databases.ts';
import { credentialKey } from './keyLayout.ts';
import type { TrailRecords } from './trailRecords.ts';

/** Other processes write API keys too: every read takes a new snapshot, so revoking a key acts at once. */
export function credentialRecords(databases: Databases, trail: TrailRecords): CredentialStore {
  /** Records as they were last read, with their bytes: most requests bring a key that was just used. */
  const lastRead = new Map<string, { bytes: Uint8Array; credential: Credential }>();

  function allNow(): Credential[] {
    databases.root.resetReadTxn();
    return Array.from(databases.credentials.getRange({}), ({ key, value }) => {
      const credential = parseRecord<Credential>(value);
      const own = credentialKey(credential.keyHash);
      // Keys have no checksum. Nobody would be let in with this one, and nothing would say why.
      if (own === undefined || !bytesEqual(own, key))
        throw new DamagedRecord(`API key ${credential.id} in the store is damaged: it is not in its place`);
      return credential;
    });
  }

  function changesFor(credentials: Credential[]): Change[] {
    return credentials.map((credential) => {
      const key = credentialKey(credential.keyHash);
      assert(key, 'a credential is stored by the SHA-256 of its key, in lower-case hex');
      return { database: databases.credentials, key, value: encodeRecord(credential) };
    });
  }

  return {
    async get(keyHash) {
      databases.root.resetReadTxn();
      const key = credentialKey(keyHash);
      const bytes = key && databases.credentials.getBinary(key);
      if (!bytes) {
        lastRead.delete(keyHash);
        return undefined;
      }
      const known = lastRead.get(keyHash);
      if (known !== undefined && bytesEqual(known.bytes, bytes)) return known.credential;
      const credential = parseRecord<Credential>(bytes);
      lastRead.set(keyHash, { bytes, credential });
      return credential;
    },

    all: async () => allNow(),

    async put(credentials, act) {
      await trail.write(act, { changes: changesFor(credentials) });
    },

    async change<Decision extends CredentialChange>(
      decide: (all: readonly Credential[]) => Decision | undefined,
    ): Promise<Decision | undefined> {
      let decision: Decision | undefined;
      await trail.decide(() => {
        decision = decide(allNow());
        if (decision === undefined) return undefined;
        const { act, credentials, forgotten = [] } = decision;
        const removals = changesFor(forgotten).map(({ database, key }) => ({ database, key }));
        return { act, write: { changes: [...changesFor(credentials), ...removals] } };
      });
      return decision;
    },
  };
}
