import type { OneRecord } from '../records.ts';
import type { Database, Queries, Query } from './database.ts';
import type { Writes } from './writes.ts';

/** What there is once in a store, each a record under its name. */
export type NoteName =
  | 'identity'
  | 'announced'
  | 'service_time'
  | 'witnessing'
  | 'renewal_draft'
  | 'renewal_survey';

const READ: Query = { name: 'note', text: 'SELECT record FROM notes WHERE name = $1' };
const PUT: Query = {
  name: 'put_note',
  text: 'INSERT INTO notes VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET record = excluded.record',
};
const REMOVE: Query = { name: 'remove_notes', text: 'DELETE FROM notes WHERE name = ANY ($1)' };

/** The bytes of a note; undefined where there is none. */
export async function readNote(queries: Queries, name: NoteName): Promise<Buffer | undefined> {
  const [row] = await queries.rows<{ record: Buffer }>(READ, [name]);
  return row?.record;
}

export async function putNote(queries: Queries, name: NoteName, record: Buffer): Promise<void> {
  await queries.rows(PUT, [name, record]);
}

export async function removeNotes(queries: Queries, names: readonly NoteName[]): Promise<void> {
  await queries.rows(REMOVE, [names]);
}

export function noteIn(database: Database, writes: Writes, name: NoteName): OneRecord {
  return {
    read: () => readNote(database, name),
    write: (record) => writes.run((queries) => putNote(queries, name, record)),
  };
}
