import { type Queries, statements } from './database.ts';

/**
 * Kinds of data whose changes are decided on the newest state, by any process, one after the other. A process that takes several of these
 * locks takes them in this order, in a transaction of its own (see {@link WriteOptions.isAlone}), so that no two wait for each other.
 */
export type Revised = 'endpoints' | 'renewals' | 'trail';

const SQL = statements({
  lock_revision: 'SELECT revision FROM revisions WHERE name = $1 FOR UPDATE',
  raise_revision: 'UPDATE revisions SET revision = $2 WHERE name = $1',
  revision: 'SELECT revision FROM revisions WHERE name = $1',
});

/** Holds off changes by others until the transaction ends. Its next statement sees all earlier ones. Returns the revision. */
export async function lockRevision(queries: Queries, name: Revised): Promise<number> {
  return only(await queries.rows(SQL.lock_revision, [name]));
}

export async function raiseRevision(queries: Queries, name: Revised, revision: number): Promise<void> {
  await queries.rows(SQL.raise_revision, [name, revision]);
}

export async function readRevision(queries: Queries, name: Revised): Promise<number> {
  return only(await queries.rows(SQL.revision, [name]));
}

function only(rows: { revision: number }[]): number {
  return rows[0]?.revision ?? 0;
}
