import { assert } from '../../base/assert.ts';
import type { Credential, CredentialChange, CredentialStore, SuccessorSalt } from '../credentialStore.ts';
import { encodeRecord, parseRecord } from '../records.ts';
import { type Database, type Queries, statements } from './database.ts';
import { lockRevision } from './revisions.ts';
import { SharedReads } from './sharedReads.ts';
import type { TrailTable } from './trailTable.ts';
import type { Writes } from './writes.ts';

const HASH = /^[0-9a-f]{64}$/;

const INTERNAL = statements(
  {
    credential: 'SELECT key_hash, record FROM credentials WHERE key_hash = ANY ($1::bytea[])',
  },
  { isInternal: true },
);
const SQL = statements({
  credentials: 'SELECT record FROM credentials ORDER BY key_hash',
  put_credentials: `INSERT INTO credentials SELECT * FROM unnest($1::bytea[], $2::bytea[])
    ON CONFLICT (key_hash) DO UPDATE SET record = excluded.record`,
  forget_credentials: 'DELETE FROM credentials WHERE key_hash = ANY ($1)',
  salt: 'SELECT record FROM salts WHERE key_hash = $1',
  add_salts: 'INSERT INTO salts SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bytea[])',
  erase_salts: 'DELETE FROM salts WHERE key_hash = ANY ($1)',
  sweep_salts: `DELETE FROM salts WHERE key_hash IN (
      SELECT key_hash FROM salts WHERE ends_at <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED)
    RETURNING key_hash`,
});

/** API keys and client certificates in PostgreSQL. Every read queries the database: so revoking a key acts at once, on every node. */
export function credentialTable(database: Database, writes: Writes, trail: TrailTable): CredentialStore {
  const records = new SharedReads(async (keyHashes) => {
    const keys = keyHashes.map((keyHash) => Buffer.from(keyHash, 'hex'));
    const rows = await database.rows<{ key_hash: Buffer; record: Buffer }>(INTERNAL.credential, [keys]);
    return new Map(rows.map(({ key_hash, record }) => [key_hash.toString('hex'), record]));
  });

  return {
    async get(keyHash) {
      if (!HASH.test(keyHash)) return undefined;
      const record = await records.get(keyHash);
      return record && parseRecord<Credential>(record);
    },

    all: async () => allCredentials(database),

    async change<Decision extends CredentialChange>(
      decide: (all: readonly Credential[]) => Decision | undefined,
    ): Promise<Decision | undefined> {
      const work = async (queries: Queries) => {
        await lockRevision(queries, 'trail'); // no act of any process comes between
        const decision = decide(await allCredentials(queries));
        if (decision === undefined) return undefined;
        const { credentials, forgotten = [], salts = [], act } = decision;
        await queries.rows(SQL.put_credentials, [credentials.map(keyOf), credentials.map(encodeRecord)]);
        await queries.rows(SQL.forget_credentials, [forgotten.map(keyOf)]);
        await queries.rows(SQL.erase_salts, [[...credentials, ...forgotten].map(keyOf)]);
        const kept = salts.map(({ salt, endsAt }) => encodeRecord({ salt, endsAt }));
        await queries.rows(SQL.add_salts, [salts.map(keyOf), salts.map(({ endsAt }) => endsAt), kept]);
        await trail.record(queries, act);
        return decision;
      };
      return writes.run(work, { isAlone: true, isRefusable: true });
    },

    async saltOf(keyHash) {
      if (!HASH.test(keyHash)) return undefined;
      const [row] = await database.rows<{ record: Buffer }>(SQL.salt, [Buffer.from(keyHash, 'hex')]);
      return row && parseRecord<SuccessorSalt>(row.record).salt;
    },

    async sweepSalts(now, limit) {
      return writes.run(async (queries) => (await queries.rows(SQL.sweep_salts, [now, limit])).length);
    },
  };
}

async function allCredentials(queries: Queries): Promise<Credential[]> {
  const rows = await queries.rows<{ record: Buffer }>(SQL.credentials);
  return rows.map(({ record }) => parseRecord<Credential>(record));
}

function keyOf({ keyHash }: Pick<Credential, 'keyHash'>): Buffer {
  assert(HASH.test(keyHash), 'a credential is stored by the SHA-256 of its key, in lower-case hex');
  return Buffer.from(keyHash, 'hex');
}
