import { readFileSync } from 'node:fs';
import type { Client } from 'pg';
import { OperatorError } from '../../base/errors.ts';
import { OWNER_REMEDY } from './pgSession.ts';
import { grantRoles } from './roles.ts';

/** Each file migrates the previous layout to its own; the first makes the tables. */
const MIGRATIONS = [
  { layout: 3, file: '003.sql' },
  { layout: 4, file: '004.sql' },
  { layout: 5, file: '005.sql' },
  { layout: 6, file: '006.sql' },
] as const;

/** The layout that this program writes. */
export const LAYOUT = Math.max(...MIGRATIONS.map(({ layout }) => layout));

/** A large table may get another index. */
const MIGRATION_MS_MAX = 3_600_000;

const VERSION = `SELECT obj_description(oid, 'pg_namespace') AS version FROM pg_namespace WHERE nspname = 'pdfseal'`;

/** The version of the layout; undefined if the database has no schema `pdfseal`. */
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

/** Throws OperatorError if the role may not make a store in the database. */
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

/** The use of a store by a process: sealing, a command, or a front. */
export type Use = 'sealing' | 'command' | 'front';

/** Without each of these privileges on each of these tables, a process would fail only when it needs them. */
const NEEDED: Record<Use, { privileges: string[]; tables: string }> = {
  sealing: { privileges: ['SELECT', 'INSERT', 'UPDATE', 'DELETE'], tables: '' },
  command: { privileges: ['SELECT', 'INSERT'], tables: '^(jobs|waiting|trail)$' },
  front: { privileges: ['SELECT', 'INSERT'], tables: '^(jobs|idempotency|quotas)$' },
};

const RIGHTS = `SELECT current_user AS role, has_schema_privilege('pdfseal', 'USAGE') AND (
    SELECT bool_and(has_table_privilege(c.oid, needed)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace,
      unnest($1::text[]) AS needed
    WHERE n.nspname = 'pdfseal' AND c.relkind = 'r' AND c.relname ~ $2) AS may`;

/**
 * The version of the layout, which this program knows. Throws OperatorError if there is no store, if it is of a newer program or of too old
 * a build, or if the role may not use it this way.
 */
export async function usableLayoutOf(client: Client, use: Use): Promise<number> {
  const layout = await layoutOf(client);
  if (layout === undefined)
    throw new OperatorError('the database has no store of pdfseald: make one with `pdfseal init`');
  if (layout > LAYOUT)
    throw new OperatorError(
      `the store in the database was made by a newer pdfseald (layout ${layout}, this program knows ${LAYOUT}): install that version`,
    );
  if (layout < MIGRATIONS[0].layout)
    throw new OperatorError(
      `the store in the database was made by a build of pdfseald that this one does not follow (layout ${layout}): install a later build of 0.1.0 first`,
    );
  const { rows } = await client.query<{ role: string; may: boolean }>(RIGHTS, [
    NEEDED[use].privileges,
    NEEDED[use].tables,
  ]);
  const [{ role = '', may = false } = {}] = rows;
  if (!may)
    throw new OperatorError(`the role "${role}" may not use the store in the database`, {
      remedy: OWNER_REMEDY,
    });
  return layout;
}

/** Makes the tables, or migrates them to the layout of this program, within a transaction of the caller. */
export async function migrate(client: Client, from: number): Promise<void> {
  if (from === 0) await client.query('CREATE SCHEMA pdfseal');
  for (const { file } of MIGRATIONS.filter(({ layout }) => layout > from)) {
    const text = readFileSync(new URL(file, import.meta.url), 'utf8');
    await client.query({ text, query_timeout: MIGRATION_MS_MAX } as { text: string });
  }
  await client.query(`COMMENT ON SCHEMA pdfseal IS 'pdfseal layout ${LAYOUT}'`);
  await grantRoles(client);
}
