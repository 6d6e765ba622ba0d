import { encodeRecord, parseRecord } from '../records.ts';
import type { WitnessState, WitnessStore } from '../witnessStore.ts';
import type { Commits } from './commits.ts';
import type { Databases } from './databases.ts';

const WITNESSING_KEY = Buffer.from('witnessing');

/** What witnesses have said, in one record beside the identity: a store of an earlier version simply has none. */
export class LmdbWitnessing implements WitnessStore {
  readonly #databases: Databases;
  readonly #commits: Commits;

  constructor(databases: Databases, commits: Commits) {
    this.#databases = databases;
    this.#commits = commits;
  }

  async get(): Promise<WitnessState> {
    const bytes = this.#databases.identity.getBinary(WITNESSING_KEY);
    return bytes ? parseRecord<WitnessState>(bytes, 'the record of witnesses') : { witnesses: {} };
  }

  async put(state: WitnessState): Promise<void> {
    const { identity: database } = this.#databases;
    const change = { database, key: WITNESSING_KEY, value: encodeRecord(state) };
    await this.#commits.write({ changes: [change] });
  }
}
