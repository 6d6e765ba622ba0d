import { encodeRecord, parseRecord } from '../records.ts';
import type { CopyStore, StoredCopy } from '../store.ts';
import type { Change, Commits } from './commits.ts';
import { type Databases, scanKeys } from './databases.ts';
import { idKey, ownIdKey, parseJobKey } from './keyLayout.ts';

export type CopyRecords = ReturnType<typeof copyRecords>;

/** Locations of the copies of documents, by job: so they are in the order in which their jobs were accepted. */
export function copyRecords(databases: Databases, commits: Commits) {
  function change(jobId: string, copy: StoredCopy): Change {
    return { database: databases.copies, key: ownIdKey('job', jobId), value: encodeRecord(copy) };
  }

  function stored(key: Uint8Array): StoredCopy | undefined {
    const bytes = databases.copies.getBinary(key);
    return bytes && parseRecord<StoredCopy>(bytes, `the copy of ${parseJobKey(key)}`);
  }

  const store: CopyStore = {
    async get(jobId) {
      const key = idKey('job', jobId);
      return key && stored(key);
    },

    async *all() {
      for await (const key of scanKeys(databases, 'copies')) {
        const copy = stored(key);
        if (copy !== undefined) yield { jobId: parseJobKey(key), copy };
      }
    },

    async forget(jobIds) {
      const changes = jobIds.map((jobId) => ({
        database: databases.copies,
        key: ownIdKey('job', jobId),
      }));
      await commits.write({ changes });
    },
  };
  return { ...store, change };
}
