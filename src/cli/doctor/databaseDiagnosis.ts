import { OperatorError } from '../../base/errors.ts';
import { counted } from '../../base/phrases.ts';
import { formatBytes } from '../../base/units.ts';
import type { Config } from '../../config/config.ts';
import {
  inspectDatabase,
  type PrimaryFacts,
  readAcceptanceKeys,
  type ServerFacts,
} from '../../store/engines.ts';
import { bad, badFrom, type Diagnosis, good, warning } from './diagnosis.ts';
import { isAway } from './fileDiagnosis.ts';

/** A front needs no more. */
const FRONT_CONNECTIONS = 20;
/** Those of the daemon that seals, and of a command. */
const OWN_CONNECTIONS = 30;

const START = 'start it, and look into its log; see "PostgreSQL" in the manual';

/** The servers of the database that has the store, and whether they keep what they acknowledge. */
export async function* diagnoseDatabase({ store }: Pick<Config, 'store'>): AsyncIterable<Diagnosis> {
  if (store.engine === 'lmdb') return;
  yield diagnoseAcceptanceKey(store);
  let servers: ServerFacts[];
  try {
    servers = await inspectDatabase(store);
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return yield bad('database', error.message, error.remedy ?? 'correct store.password_file');
  }
  const primaries = servers.filter((server) => server.state === 'primary');
  for (const server of servers) yield diagnoseServer(server, primaries.length > 0);
  // One that is silent or lets nobody in may be the primary.
  if (servers.every(({ state }) => state === 'standby'))
    yield bad('database', 'no server is a primary', 'promote one, or correct store.url');
  if (primaries.length > 1)
    yield bad(
      'database',
      `${primaries.length} servers report that they are the primary`,
      'stop those that are not before you start anything else: the database is split',
    );
  for (const { url, facts } of primaries) {
    yield facts.isFull
      ? bad(
          'database disk',
          `the disk of ${url} is full, so no job is accepted and no act recorded`,
          'free at least 16 MiB on the disk of that server: daemons then continue by themselves',
        )
      : good('database disk', 'it has space');
    yield diagnoseDurability(facts, servers.length);
    if (facts.isSuperuser)
      yield warning(
        'database role',
        `${facts.role} is a superuser`,
        'give pdfseald a role that only owns its database',
      );
    yield* diagnoseFronts(facts);
  }
}

function diagnoseAcceptanceKey({ acceptanceKeyFile: file }: { acceptanceKeyFile?: string }): Diagnosis {
  const check = 'acceptance key';
  if (file === undefined)
    return warning(
      check,
      'none: who can write the database can have jobs sealed that no node accepted',
      'make one with `pdfseal store make-acceptance-key`, and name it on every node: store.acceptance_key_credential',
    );
  if (file.startsWith('/run/credentials/') && isAway(file))
    return warning(
      check,
      'not checked: systemd gives it only to the unit',
      'run this command with pdfseal-run, which has the credentials of the daemon',
    );
  try {
    const { length } = readAcceptanceKeys(file);
    return length === 1
      ? good(check, 'jobs of other writers of the database fail')
      : warning(
          check,
          'two keys count',
          'remove the old one once every node has the new one, and no job waits',
        );
  } catch (error) {
    return badFrom(check, error, 'correct store.acceptance_key_file');
  }
}

/** A stolen login could otherwise hold all connections of the server, and no daemon could take over. */
function* diagnoseFronts({ fronts, connectionsMax }: PrimaryFacts): Iterable<Diagnosis> {
  if (fronts.length === 0) return;
  const unlimited = fronts.filter((front) => front.connectionsMax < 0).map(({ role }) => role);
  for (const role of unlimited)
    yield bad(
      'database fronts',
      `${role} can hold every connection of the server`,
      `as a superuser of the server: ALTER ROLE "${role}" CONNECTION LIMIT ${FRONT_CONNECTIONS}`,
    );
  if (unlimited.length > 0) return;
  const held = fronts.reduce((sum, front) => sum + front.connectionsMax, 0);
  if (held + OWN_CONNECTIONS > connectionsMax)
    yield bad(
      'database fronts',
      `${counted(fronts.length, 'login')} can hold ${held} of ${connectionsMax} connections; a daemon and a command need ${OWN_CONNECTIONS}`,
      `raise max_connections in postgresql.conf, or lower the CONNECTION LIMIT of ${fronts.map(({ role }) => role).join(', ')}`,
    );
  else
    yield good(
      'database fronts',
      `${counted(fronts.length, 'login')} can hold ${held} of ${connectionsMax} connections`,
    );
}

function diagnoseServer(server: ServerFacts, hasPrimary: boolean): Diagnosis {
  const check = `database ${server.url}`;
  if (server.state === 'standby') return good(check, 'a standby');
  if (server.state === 'refusing')
    return bad(check, server.fault.message, server.fault.remedy ?? 'correct store.url');
  if (server.state === 'unreachable')
    return (hasPrimary ? warning : bad)(check, `cannot be reached: ${server.reason}`, START);
  const { version, role, bytes } = server.facts;
  return good(check, `PostgreSQL ${version}, the primary; ${formatBytes(bytes)}, role ${role}`);
}

function diagnoseDurability(
  { fsync, fullPageWrites, synchronousStandbys }: PrimaryFacts,
  servers: number,
): Diagnosis {
  const off = Object.entries({ fsync, full_page_writes: fullPageWrites }).filter(
    ([, value]) => value !== 'on',
  );
  if (off.length > 0)
    return bad(
      'database durability',
      `off: ${off.map(([name]) => name).join(', ')}; what is acknowledged can be lost with power`,
      'set both to on in postgresql.conf; the daemon does not start without them',
    );
  if (synchronousStandbys !== '')
    return good('database durability', `what is acknowledged is on disk here and at ${synchronousStandbys}`);
  if (servers === 1)
    return good('database durability', 'what is acknowledged is on the disk of this server alone');
  return warning(
    'database durability',
    'no standby has to have what is acknowledged: a failover can lose receipts',
    'set synchronous_standby_names; with Patroni, synchronous_mode and synchronous_mode_strict',
  );
}
