import type { OneRecord } from '../records.ts';
import { type Database, type Queries, statements } from './database.ts';
import type { Writes } from './writes.ts';

/** Single records of a store, each under its name. */
export type NoteName =
  | 'identity'
  | 'announced'
  | 'service_time'
  | 'witnessing'
  | 'renewal_draft'
  | 'renewal_survey';

const SQL = statements({
  note: 'SELECT record FROM notes WHERE name = $1',
  put_note: 'INSERT INTO notes VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET record = excluded.record',
  remove_notes: 'DELETE FROM notes WHERE name = ANY ($1)',
});

/** The bytes of a note; undefined if there is none. */
export async function readNote(queries: Queries, name: NoteName): Promise<Buffer | undefined> {
  const [row] = await queries.rows<{ record: Buffer }>(SQL.note, [name]);
  return row?.record;
}

export async function putNote(queries: Queries, name: NoteName, record: Buffer): Promise<void> {
  await queries.rows(SQL.put_note, [name, record]);
}

export async function removeNotes(queries: Queries, names: readonly NoteName[]): Promise<void> {
  await queries.rows(SQL.remove_notes, [names]);
}

export function noteIn(database: Database, writes: Writes, name: NoteName): OneRecord {
  return {
    read: () => readNote(database, name),
    write: (record) => writes.run((queries) => putNote(queries, name, record)),
  };
}
