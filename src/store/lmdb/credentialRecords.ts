import { assert, DamagedRecord } from '../../base/assert.ts';
import { bytesEqual } from '../../base/bytes.ts';
import { remember } from '../../base/remember.ts';
import type { Credential, CredentialChange, CredentialStore, SuccessorSalt } from '../credentialStore.ts';
import { encodeRecord, parseRecord, readable } from '../records.ts';
import type { Change, Commits } from './commits.ts';
import type { Databases } from './databases.ts';
import { credentialKey } from './keyLayout.ts';
import type { TrailRecords } from './trailRecords.ts';

/** Number of records to remember; at most twice as many are held. */
const READ_MAX = 500;

/** Every read takes a new snapshot, so revoking a key acts at once. */
export function credentialRecords(
  databases: Databases,
  commits: Commits,
  trail: TrailRecords,
): CredentialStore {
  /** Parses a record from its bytes as characters. Most requests present a recently used key. */
  const read = remember(READ_MAX, (bytes) => parseRecord<Credential>(Buffer.from(bytes, 'latin1')));

  function allNow(): Credential[] {
    databases.root.resetReadTxn();
    return Array.from(databases.credentials.getRange({}), ({ key, value }) => {
      const credential = parseRecord<Credential>(value);
      const own = credentialKey(credential.keyHash);
      // Keys have no checksum. This one would be refused to every client, without any reason.
      if (own === undefined || !bytesEqual(own, key))
        throw new DamagedRecord(`API key ${credential.id} in the store is damaged: it is not in its place`);
      return credential;
    });
  }

  return {
    async get(keyHash) {
      databases.root.resetReadTxn();
      const key = credentialKey(keyHash);
      const bytes = key && databases.credentials.getBinary(key);
      return bytes && read(bytes.toString('latin1'));
    },

    all: async () => allNow(),

    async change<Decision extends CredentialChange>(
      decide: (all: readonly Credential[]) => Decision | undefined,
    ): Promise<Decision | undefined> {
      let decision: Decision | undefined;
      await trail.decide(() => {
        decision = decide(allNow());
        if (decision === undefined) return undefined;
        const { act, credentials, forgotten = [], salts = [] } = decision;
        const records = { database: databases.credentials };
        const changes: Change[] = [
          ...credentials.map((one) => ({ ...records, key: keyOf(one), value: encodeRecord(one) })),
          ...forgotten.map((one) => ({ ...records, key: keyOf(one) })),
          ...[...credentials, ...forgotten].map((one) => ({ database: databases.salts, key: keyOf(one) })),
          ...salts.map((salt) => saltChange(databases, keyOf(salt), salt)),
        ];
        return { act, write: { changes } };
      });
      return decision;
    },

    async saltOf(keyHash) {
      databases.root.resetReadTxn();
      const key = credentialKey(keyHash);
      const bytes = key && databases.salts.getBinary(key);
      return bytes && parseRecord<KeptSalt>(bytes).salt;
    },

    async sweepSalts(now, limit) {
      return commits.serially(async () => {
        databases.root.resetReadTxn();
        const ended = Array.from(databases.salts.getRange({}))
          .filter(({ value }) => (readable<KeptSalt>(value)?.endsAt ?? 0) <= now)
          .slice(0, limit);
        const changes = ended.map(({ key }) => ({ database: databases.salts, key: Buffer.from(key) }));
        if (changes.length > 0) await commits.write({ changes });
        return changes.length;
      });
    },
  };
}

type KeptSalt = Omit<SuccessorSalt, 'keyHash'>;

function saltChange(databases: Databases, key: Uint8Array, { salt, endsAt }: KeptSalt): Change {
  return { database: databases.salts, key, value: encodeRecord({ salt, endsAt }) };
}

function keyOf({ keyHash }: Pick<Credential, 'keyHash'>): Buffer {
  const key = credentialKey(keyHash);
  assert(key, 'a credential is stored by the SHA-256 of its key, in lower-case hex');
  return key;
}

/** Earlier versions kept the salt of a key in the record of the key. A damaged record stays as it is. */
export async function moveSalts(databases: Databases, commits: Commits): Promise<void> {
  const changes = Array.from(databases.credentials.getRange({})).flatMap(({ key, value }): Change[] => {
    const found = readable<Credential & { successorSalt?: string }>(value);
    if (found?.successorSalt === undefined) return [];
    const { successorSalt: salt, ...rest } = found;
    const place = Buffer.from(key);
    return [
      { database: databases.credentials, key: place, value: encodeRecord(rest) },
      saltChange(databases, place, { salt, endsAt: rest.serviceEnd ?? 0 }),
    ];
  });
  if (changes.length > 0) await commits.write({ changes });
}
