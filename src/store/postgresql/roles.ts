import type { Client } from 'pg';
import { OperatorError } from '../../base/errors.ts';
import { DATED_MS_MAX } from '../../job/acceptedJob.ts';

/** Tables whose rows have rules for fronts. The rules do not bind the owner. */
const RULED = ['notes', 'jobs', 'sources', 'idempotency'];
const POLICIES = ['front_reads', 'front_adds', 'front_writes', 'all_of_pdfseal_seal', 'all_of_pdfseal_admin'];

/** The bytes of a record must be as encodeRecord writes them, so that no reader fails on them. */
const IS_RECORD = 'substr(record, 1, 8) = substr(sha256(substr(record, 9)), 1, 8)';
const PARSED = `convert_from(substr(record, 9), 'UTF8')::jsonb`;

/** A number that `toRfc3339` can show as a time: up to the end of the year 9999. */
const isTime = (path: string) =>
  `${path}.type() == "number" && ${path} >= 0 && ${path} <= 253402300799999 && ${path}.floor() == ${path}`;
/** True also for a missing value: so optional values are right. */
const areOnly = (type: string, path: string) => `!(${path}.type() != "${type}")`;

/**
 * The properties on which every reader of a job relies: places, types and times as encodeJob writes them. Whether a request could have made
 * it is examined before it is sealed.
 */
const IS_JOB = `$.size() == 6 && $[0].size() == 7 && ${areOnly('string', '$[0][0 to 4]')} && $[0][5].type() == "boolean"
  && ($[2].type() == "null" && $[1].type() == "string"
    || ($[1].type() == "null" || $[1].type() == "string") && $[2].type() == "array" && $[2].size() == 2 && $[2][0].size() == 3
      && ${areOnly('string', '$[2][0][0 to 1]')} && $[2][0][2].type() == "number" && $[2][1].type() == "object")
  && $[3].type() == "array" && ${areOnly('string', '$[3][*]')} && ${isTime('$[4]')} && $[5].type() == "object"
  && ${areOnly('string', '$[5].purpose')} && ${areOnly('string', '$[5].customerReference')}
  && (!exists($[5].since) || ${isTime('$[5].since')})
  && (!exists($[5].quota) || $[5].quota.type() == "object" && $[5].quota.name.type() == "string"
    && ${isTime('$[5].quota.startsAt')} && ${isTime('$[5].quota.endsAt')})`;

/** The date of a new job is that of the database. A transaction can be older than what it writes, so its own time does not count. */
const IS_DATED_NOW = `jsonb_path_match(${PARSED}, '$[4] >= $now - ${DATED_MS_MAX} && $[4] <= $now + ${DATED_MS_MAX}',
  jsonb_build_object('now', floor(extract(epoch FROM clock_timestamp()) * 1000)))`;

/** More than the largest record of its kind has. */
const BYTES_MAX = { jobs: 32_768, sources: 16_384, idempotency: 65_536 };
const isRecordOf = (table: keyof typeof BYTES_MAX) =>
  `length(record) <= ${BYTES_MAX[table]} AND ${IS_RECORD}`;

function allRows(role: string): string {
  return RULED.map((table) => `CREATE POLICY all_of_${role} ON ${table} TO ${role} USING (true);`).join('\n');
}

/**
 * Rights of the roles. They belong to the whole server, and cannot log in: a login is a member of one of them, and may connect to the
 * database of one environment.
 */
const ROLES = {
  /** Accepts jobs, and reads the data that the API shows. */
  pdfseal_front: `
    GRANT SELECT ON jobs, contents, failures, copies, waiting, arrivals, idempotency, quotas, leaves, tiles, batches, log_head, epochs,
      revisions, credentials, renewals, renewal_rows TO pdfseal_front;
    GRANT SELECT (holder, obstacle, scans, acceptance_keys) ON sequencer TO pdfseal_front;
    GRANT SELECT ON life TO pdfseal_front;
    GRANT SELECT (id, client_id, told) ON endpoints TO pdfseal_front;
    GRANT INSERT ON jobs, sources, idempotency, quotas TO pdfseal_front;
    GRANT INSERT (job_id, mac) ON arrivals TO pdfseal_front;
    GRANT UPDATE (job_id, accepted_at, record) ON idempotency TO pdfseal_front;
    GRANT UPDATE (jobs) ON quotas TO pdfseal_front;
    GRANT SELECT ON notes TO pdfseal_front;
    CREATE POLICY front_reads ON notes FOR SELECT TO pdfseal_front
      USING (name IN ('identity', 'service_time', 'witnessing'));
    CREATE POLICY front_reads ON jobs FOR SELECT TO pdfseal_front USING (true);
    CREATE POLICY front_adds ON jobs FOR INSERT TO pdfseal_front WITH CHECK (${isRecordOf('jobs')} AND ${PARSED} @@ '${IS_JOB}'
      AND ${PARSED}->0->>0 = client_id AND ${PARSED}->0->>1 = organization AND ${PARSED}->0->>4 = visibility
      AND ${PARSED}->0->>6 IN ('upload', 'url', 'digest')
      AND ${IS_DATED_NOW}
      AND encode(document_sha256, 'hex') = coalesce(${PARSED}->2->0->>0, ${PARSED}->>1) AND length(document_sha256) = 32
      AND reference_sha256 IS NOT DISTINCT FROM sha256(convert_to((${PARSED}->5->'customerReference')::text, 'UTF8')));
    CREATE POLICY front_adds ON sources FOR INSERT TO pdfseal_front WITH CHECK (${isRecordOf('sources')});
    CREATE POLICY front_writes ON idempotency TO pdfseal_front USING (true) WITH CHECK (${isRecordOf('idempotency')}
      AND ${PARSED}->>'jobId' = 'job_' || replace(job_id::text, '-', '')
      AND EXISTS (SELECT FROM jobs WHERE id = job_id));`,
  /** Seals: may write all rows, but not change tables. */
  pdfseal_seal: `
    GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA pdfseal TO pdfseal_seal;
    ${allRows('pdfseal_seal')}`,
  /** Runs commands: may write everything except the log itself. */
  pdfseal_admin: `
    GRANT SELECT ON ALL TABLES IN SCHEMA pdfseal TO pdfseal_admin;
    GRANT INSERT ON jobs, waiting, trail, epochs TO pdfseal_admin;
    GRANT INSERT, UPDATE, DELETE ON notes, revisions, credentials, salts, endpoints, tallies, outbox, dead_letters, renewals, renewal_rows
      TO pdfseal_admin;
    ${allRows('pdfseal_admin')}`,
} as const;

type RoleName = keyof typeof ROLES;

export const ROLE_NAMES = Object.keys(ROLES) as RoleName[];

/** Grants each existing role its rights, and no others, within a transaction of the caller. */
export async function grantRoles(client: Client): Promise<void> {
  for (const table of RULED)
    for (const policy of POLICIES) await client.query(`DROP POLICY IF EXISTS ${policy} ON ${table}`);
  for (const name of await rolesOf(client)) {
    await client.query(`
      REVOKE ALL ON ALL TABLES IN SCHEMA pdfseal FROM ${name};
      GRANT USAGE ON SCHEMA pdfseal TO ${name};
      ${ROLES[name]}`);
  }
}

/** Makes the roles that the server lacks. Throws OperatorError if this role may not. */
export async function createRoles(client: Client): Promise<void> {
  const present = await rolesOf(client);
  const missing = ROLE_NAMES.filter((name) => !present.includes(name));
  if (missing.length === 0) return;
  const sql = missing.map((name) => `CREATE ROLE ${name} NOLOGIN`).join('; ');
  const { rows } = await client.query<{ may: boolean }>(
    'SELECT rolcreaterole OR rolsuper AS may FROM pg_roles WHERE rolname = current_user',
  );
  if (rows[0]?.may !== true)
    throw new OperatorError(`the server has no role ${missing.join(', ')}, and this one may make none`, {
      remedy: `as a superuser of the server: ${sql}`,
    });
  await client.query(sql);
}

async function rolesOf(client: Client): Promise<RoleName[]> {
  const { rows } = await client.query<{ name: RoleName }>(
    'SELECT rolname AS name FROM pg_roles WHERE rolname = ANY ($1)',
    [ROLE_NAMES],
  );
  return rows.map(({ name }) => name);
}
