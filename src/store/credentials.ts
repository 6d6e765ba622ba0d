import { assert } from '../base/assert.ts';
import type { Commits } from './commits.ts';
import type { Databases } from './databases.ts';
import { credentialKey } from './keys.ts';
import { encodeRecord, parseRecord } from './records.ts';
import type { Credential } from './store.ts';

/** API keys by their hash. Other processes write here too: every read takes a new snapshot, so revoking acts at once. */
export class Credentials {
  readonly #databases: Databases;
  readonly #commits: Commits;

  constructor(databases: Databases, commits: Commits) {
    this.#databases = databases;
    this.#commits = commits;
  }

  get(keyHash: string): Credential | undefined {
    this.#databases.root.resetReadTxn();
    const key = credentialKey(keyHash);
    const bytes = key && this.#databases.credentials.getBinary(key);
    return bytes && parseRecord<Credential>(bytes);
  }

  all(): Credential[] {
    this.#databases.root.resetReadTxn();
    return Array.from(this.#databases.credentials.getRange({}), ({ value }) =>
      parseRecord<Credential>(value),
    );
  }

  async put(credentials: Credential[]): Promise<void> {
    const changes = credentials.map((credential) => {
      const key = credentialKey(credential.keyHash);
      assert(key, 'a credential is stored by the SHA-256 of its key, in lower-case hex');
      return { database: this.#databases.credentials, key, value: encodeRecord(credential) };
    });
    await this.#commits.write({ changes });
  }
}
