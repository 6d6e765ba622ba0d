import type { Client } from 'pg';
import type { OperatorError } from '../../base/errors.ts';
import { clientOf, isDiskFull, isLost, type Location, SPACE_PROBE, setupFault } from './pgSession.ts';

/** Facts that a server reports about itself, or the reason why it reports none. */
export type ServerFacts = { url: string } & (
  | { state: 'primary'; facts: PrimaryFacts }
  | { state: 'standby' }
  /** It answered, and refuses this process. */
  | { state: 'refusing'; fault: OperatorError }
  | { state: 'unreachable'; reason: string }
);

export interface PrimaryFacts {
  version: string;
  role: string;
  isSuperuser: boolean;
  bytes: number;
  fsync: string;
  fullPageWrites: string;
  synchronousCommit: string;
  /** Empty if acknowledged data need not be on any standby. */
  synchronousStandbys: string;
  /** Maximum number of connections of roles that are not superusers. */
  connectionsMax: number;
  /** The logins that are members of the role of fronts, of every environment; without a limit, `connectionsMax` is -1. */
  fronts: { role: string; connectionsMax: number }[];
  /** Whether its disk lacks space for a job. */
  isFull: boolean;
}

const ANSWER_MS_MAX = 5_000;

const FACTS = `SELECT current_setting('server_version') AS version, current_user AS role,
  (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS "isSuperuser",
  pg_database_size(current_database()) AS bytes, current_setting('fsync') AS fsync,
  current_setting('full_page_writes') AS "fullPageWrites", current_setting('synchronous_commit') AS "synchronousCommit",
  current_setting('synchronous_standby_names') AS "synchronousStandbys",
  current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
    - coalesce(current_setting('reserved_connections', true), '0')::int AS "connectionsMax",
  (SELECT coalesce(json_agg(json_build_object('role', r.rolname, 'connectionsMax', r.rolconnlimit) ORDER BY r.rolname), '[]')
    FROM pg_roles r JOIN pg_roles front ON front.rolname = 'pdfseal_front' JOIN pg_database d ON d.datname = current_database()
    WHERE r.rolcanlogin AND NOT r.rolsuper AND pg_has_role(r.oid, front.oid, 'MEMBER')
      AND NOT pg_has_role(r.oid, d.datdba, 'MEMBER')) AS fronts`;

/** Queries every server. Changes nothing. */
export function inspectServers(location: Location): Promise<ServerFacts[]> {
  return Promise.all(
    location.urls.map((url, server) => inspect(url, clientOf(location, server, ANSWER_MS_MAX))),
  );
}

async function inspect(url: string, client: Client): Promise<ServerFacts> {
  try {
    await client.connect();
    const { rows: recovery } = await client.query<{ is: boolean }>('SELECT pg_is_in_recovery() AS is');
    if (recovery[0]?.is !== false) return { url, state: 'standby' };
    const { rows } = await client.query<Omit<PrimaryFacts, 'isFull'>>(FACTS);
    const [facts] = rows;
    if (facts === undefined) throw new Error('it answered with nothing');
    return { url, state: 'primary', facts: { ...facts, isFull: await hasNoSpace(client) } };
  } catch (error) {
    const fault = setupFault(error);
    if (fault !== undefined) return { url, state: 'refusing', fault };
    return { url, state: 'unreachable', reason: (error as Error).message };
  } finally {
    client.end().catch(() => {});
  }
}

/** Throws if the server no longer answers. A server that does not let this role write so much for a moment does not count as full. */
async function hasNoSpace(client: Client): Promise<boolean> {
  try {
    await client.query(SPACE_PROBE);
    return false;
  } catch (error) {
    if (isLost(error)) throw error;
    return isDiskFull(error);
  }
}
