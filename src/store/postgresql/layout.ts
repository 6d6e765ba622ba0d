import { readFileSync } from 'node:fs';
import type { Client } from 'pg';
import { OperatorError } from '../../base/errors.ts';

/** Each brings the layout of the version before it to its own, which is its place in this list, from 1. */
const MIGRATIONS = ['001.sql'];

/** The layout that this program writes. */
export const LAYOUT = MIGRATIONS.length;

const VERSION = `SELECT obj_description(oid, 'pg_namespace') AS version FROM pg_namespace WHERE nspname = 'pdfseal'`;

/** The version of the layout; undefined where the database has no schema `pdfseal`. */
export async function layoutOf(client: Client): Promise<number | undefined> {
  const { rows } = await client.query<{ version: string | null }>(VERSION);
  const [row] = rows;
  if (row === undefined) return undefined;
  const [, version] = /^pdfseal layout (\d{1,6})$/.exec(row.version ?? '') ?? [];
  if (version === undefined)
    throw new OperatorError(
      'the database has a schema "pdfseal" that is not of pdfseald: name another database',
    );
  return Number(version);
}

/** Throws OperatorError when the role may not make a store in the database. */
export async function assertMayCreate(client: Client): Promise<void> {
  const { rows } = await client.query<{ role: string; name: string; may: boolean }>(
    `SELECT current_user AS role, current_database() AS name, has_database_privilege(current_database(), 'CREATE') AS may`,
  );
  const [{ role = '', name = '', may = false } = {}] = rows;
  if (!may)
    throw new OperatorError(`the role "${role}" may not make a store in the database "${name}"`, {
      remedy: `make it the owner of the database, as a superuser: ALTER DATABASE "${name}" OWNER TO "${role}"`,
    });
}

/** Makes the tables, or brings them to the layout of this program. Within a transaction of the caller's. */
export async function migrate(client: Client, from: number): Promise<void> {
  if (from === 0) await client.query('CREATE SCHEMA pdfseal');
  for (const file of MIGRATIONS.slice(from)) {
    await client.query(readFileSync(new URL(file, import.meta.url), 'utf8'));
  }
  await client.query(`COMMENT ON SCHEMA pdfseal IS 'pdfseal layout ${LAYOUT}'`);
}
