import type { Client } from 'pg';
import type { OperatorError } from '../../base/errors.ts';
import { clientOf, type Location, setupFault } from './pgSession.ts';

/** What a server said of itself, or why it said nothing. */
export type ServerFacts = { url: string } & (
  | { state: 'primary'; facts: PrimaryFacts }
  | { state: 'standby' }
  /** It answered, and does not let this process in. */
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
  /** Empty where no standby has to have what is acknowledged. */
  synchronousStandbys: string;
}

const ANSWER_MS_MAX = 5_000;

const FACTS = `SELECT current_setting('server_version') AS version, current_user AS role,
  (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS "isSuperuser",
  pg_database_size(current_database()) AS bytes, current_setting('fsync') AS fsync,
  current_setting('full_page_writes') AS "fullPageWrites", current_setting('synchronous_commit') AS "synchronousCommit",
  current_setting('synchronous_standby_names') AS "synchronousStandbys"`;

/** Asks every server. Changes nothing. */
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
    const { rows } = await client.query<PrimaryFacts>(FACTS);
    const [facts] = rows;
    if (facts === undefined) throw new Error('it answered with nothing');
    return { url, state: 'primary', facts };
  } catch (error) {
    const fault = setupFault(error);
    if (fault !== undefined) return { url, state: 'refusing', fault };
    return { url, state: 'unreachable', reason: (error as Error).message };
  } finally {
    client.end().catch(() => {});
  }
}
