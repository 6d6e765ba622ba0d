import { encodeRecord, parseRecord } from '../records.ts';
import type { WitnessState, WitnessStore } from '../witnessStore.ts';
import type { Database } from './database.ts';
import { putNote, readNote } from './notes.ts';
import type { Writes } from './writes.ts';

/** What witnesses have said, in PostgreSQL. */
export class WitnessNote implements WitnessStore {
  readonly #database: Database;
  readonly #writes: Writes;

  constructor(database: Database, writes: Writes) {
    this.#database = database;
    this.#writes = writes;
  }

  async get(): Promise<WitnessState> {
    const bytes = await readNote(this.#database, 'witnessing');
    return bytes ? parseRecord<WitnessState>(bytes, 'the record of witnesses') : { witnesses: {} };
  }

  async put(state: WitnessState): Promise<void> {
    await this.#writes.run((queries) => putNote(queries, 'witnessing', encodeRecord(state)));
  }
}
