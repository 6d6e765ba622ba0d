import { encodeRecord, parseRecord } from '../records.ts';
import type { CopyStore, JobCopy, StoredCopy } from '../store.ts';
import type { Change, Commits } from './commits.ts';
import { type Databases, scanKeys } from './databases.ts';
import { idKey, ownIdKey, parseJobKey } from './keyLayout.ts';

/** Where the copies of documents are, by job: so they are in the order in which their jobs were accepted. */
export class CopyRecords implements CopyStore {
  readonly #databases: Databases;
  readonly #commits: Commits;

  constructor(databases: Databases, commits: Commits) {
    this.#databases = databases;
    this.#commits = commits;
  }

  async get(jobId: string): Promise<StoredCopy | undefined> {
    const key = idKey('job', jobId);
    return key && this.#stored(key);
  }

  async *all(): AsyncIterable<JobCopy> {
    for await (const key of scanKeys(this.#databases, 'copies')) {
      const copy = this.#stored(key);
      if (copy !== undefined) yield { jobId: parseJobKey(key), copy };
    }
  }

  async forget(jobIds: readonly string[]): Promise<void> {
    const changes = jobIds.map((jobId) => ({
      database: this.#databases.copies,
      key: ownIdKey('job', jobId),
    }));
    await this.#commits.write({ changes });
  }

  /** The change that records the copy of a job. */
  change(jobId: string, copy: StoredCopy): Change {
    return { database: this.#databases.copies, key: ownIdKey('job', jobId), value: encodeRecord(copy) };
  }

  #stored(key: Uint8Array): StoredCopy | undefined {
    const bytes = this.#databases.copies.getBinary(key);
    return bytes && parseRecord<StoredCopy>(bytes, `the copy of ${parseJobKey(key)}`);
  }
}
