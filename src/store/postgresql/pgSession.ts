import { hostname, userInfo } from 'node:os';
import { Client, type ClientBase, type ClientConfig, types } from 'pg';
import { OperatorError } from '../../base/errors.ts';
import { UnknownOutcome } from '../store.ts';

/** Location of the database, and the credentials for logging in. */
export interface Location {
  /** URLs in the form of libpq, one for each server that may be the primary. */
  urls: readonly string[];
  password?: string;
}

/** Time limit for a server to accept a connection, log-in included. */
const CONNECT_MS_MAX = 5_000;

/** A server that is away for this long does not come back soon: the process ends, and its supervisor starts it again. */
export const AWAY_MS_MAX = 10_000;
/** The same limit in a front, whose clients wait for an answer meanwhile. */
export const FRONT_AWAY_MS_MAX = 5_000;
/** As for the other engine: a disk, or a standby, that takes this long will not take any more. */
export const COMMIT_MS_MAX = 60_000;

/** The name of all sessions of this process, so that another can end them together. */
const APPLICATION = `pdfseal ${process.pid} ${hostname()}`.slice(0, 63);

/** The type of a `bigint` column. No number here comes near 2^53. */
const INT8 = 20;

/** Configuration of a `pg` client for this server. */
export function clientConfig(url: string, password: string | undefined): ClientConfig {
  const named = new URL(url);
  // Peer authentication: the database user has the name of the process's user.
  if (named.username === '' && !named.searchParams.has('user'))
    named.searchParams.set('user', userInfo().username);
  // `pg` prefers the URL to separate options, and a URL without a password means an empty one.
  if (password !== undefined) named.searchParams.set('password', password);
  return {
    connectionString: named.href,
    application_name: APPLICATION,
    connectionTimeoutMillis: CONNECT_MS_MAX,
    keepAlive: true,
    types: {
      getTypeParser: (oid: number, format?: 'text' | 'binary') =>
        oid === INT8 ? Number : types.getTypeParser(oid, format),
    } as NonNullable<ClientConfig['types']>,
  };
}

/** A client for a server of the database, not connected yet. Once its connection is lost, its next statement fails. */
export function clientOf(
  { urls, password }: Location,
  server: number,
  queryMsMax: number,
  options: Pick<ClientConfig, 'pipeline'> = {},
): Client {
  const config = { ...clientConfig(urls[server] ?? '', password), ...options, query_timeout: queryMsMax };
  const client = new Client(config);
  client.on('error', () => {});
  return client;
}

/** A server that follows another: it can show older data than a primary has acknowledged (or data that none ever acknowledged). */
export class NotPrimary extends Error {
  constructor() {
    super('the server is a standby, or does not accept writes');
    this.name = 'NotPrimary';
  }
}

/** The server does not know this daemon's turn: it was the primary before, or was restored. */
export class ElsewherePrimary extends Error {
  constructor() {
    super('the server does not know of the turn of this daemon');
    this.name = 'ElsewherePrimary';
  }
}

/** The data read may be undone: standbys may not have it. */
export class Unsure extends Error {
  constructor(cause: unknown) {
    super('the server cannot tell whether what it showed is durable', { cause });
    this.name = 'Unsure';
  }
}

export interface BeginOptions {
  statementMsMax: number;
  /** Fence of a daemon's turn: only a server that has it is used. */
  fence?: string | undefined;
  isForLists?: boolean;
}

/**
 * For pages of lists: ranges of indexes are merged in their order, and nothing is read from end to end or sorted, whatever the planner
 * guesses about numbers that it does not know. Reading pages has no cost here: otherwise the planner would rate the jobs of all clients,
 * whose index is in the order of the table, cheaper than those of one client.
 */
const IN_ORDER = `
    SET plan_cache_mode = force_generic_plan;
    SET enable_seqscan = off;
    SET enable_sort = off;
    SET enable_hashagg = off;
    SET seq_page_cost = 0;
    SET random_page_cost = 0;`;

/**
 * The beginning of every session. Names mean the tables of pdfseal, a commit waits for the disk (and for synchronous standbys), and a
 * client that is gone is noticed within half a minute. A page of a list is the beginning of a range of an index: whole ranges are never
 * gathered and sorted, which the planner prefers if a range is short on average, however long this one is. Throws NotPrimary on a standby.
 */
export async function begin(
  client: ClientBase,
  { statementMsMax, fence, isForLists }: BeginOptions,
): Promise<void> {
  const results = (await client.query(`${isForLists ? IN_ORDER : ''}
    SET search_path = pdfseal, pg_temp;
    SET default_transaction_isolation = 'read committed';
    SET statement_timeout = ${statementMsMax};
    SET enable_bitmapscan = off;
    SET jit = off;
    SET lock_timeout = 10000;
    SET client_min_messages = warning;
    SET idle_in_transaction_session_timeout = 5000;
    SET tcp_keepalives_idle = 10;
    SET tcp_keepalives_interval = 5;
    SET tcp_keepalives_count = 3;
    SELECT set_config('synchronous_commit', 'on', false)
      WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write');
    SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' AS follows
  `)) as unknown as { rows: { follows?: boolean }[] }[];
  if (results.at(-1)?.rows[0]?.follows === true) throw new NotPrimary();
  if (fence !== undefined && (await fenceOf(client)) !== fence) throw new ElsewherePrimary();
}

export async function fenceOf(client: ClientBase): Promise<string | undefined> {
  const { rows } = await client.query<{ fence: string }>('SELECT fence FROM sequencer');
  return rows[0]?.fence;
}

/**
 * Sends COMMIT. Throws UnknownOutcome if the server adds any notice: "the transaction has already committed locally, but might not have
 * been replicated to the standby" is a warning, in the language of the server, and the command succeeds.
 */
export async function commitForSure(client: ClientBase, msMax = COMMIT_MS_MAX): Promise<void> {
  let said: string | undefined;
  const onNotice = ({ message }: { message: string | undefined }) => {
    said = message ?? 'a notice';
  };
  client.on('notice', onNotice);
  try {
    const { command } = await client.query({ text: 'COMMIT', query_timeout: msMax } as { text: string });
    if (command !== 'COMMIT') said ??= `the database answered ${command} to a COMMIT`;
  } finally {
    client.off('notice', onNotice);
  }
  if (said !== undefined) throw new UnknownOutcome(new Error(said));
}

/** Messages of `pg`, without a code, about a connection that is gone or could not be made. */
const LOST =
  /^(?:Connection terminated|Client has encountered a connection error|Client was closed|Query read timeout|timeout e|The server does not support SSL|Connection ended)/;

/** Whether the statement can be tried again on another connection: the server, or the way to it, was lost. */
export function isLost(error: unknown): boolean {
  if ([NotPrimary, ElsewherePrimary, Unsure].some((lost) => error instanceof lost)) return true;
  const { code, message = '' } = error as { code?: string; message?: string };
  if (code === undefined) return LOST.test(message);
  // Class 08: connection exceptions; 57P: shut down, crashed, starting up; 58: its files cannot be read; 53300: too many connections; 25006: no primary any more; 25P03, 25P04: took too long.
  return /^08|^57P0|^58|^53300$|^25006$|^25P0[34]$/.test(code) || /^E(?!RR_)[A-Z_]{3,}$/.test(code);
}

/**
 * Whether the server refused this process (classes 28 and 3D: refused login, no such database), or is not the expected one according to
 * TLS.
 */
export function isShutOut(error: unknown): boolean {
  const { code = '' } = error as { code?: string };
  return /^28|^3D000$|^ERR_TLS_|CERT|^UNABLE_TO_/.test(code);
}

export const OWNER_REMEDY =
  'name the role that made the store; it owns the database, and the schema pdfseal with all that is in it';

/** The fault that an administrator must correct before a daemon or a command can use the database; undefined for anything else. */
export function setupFault(cause: unknown): OperatorError | undefined {
  const { code = '', message } = cause as { code?: string; message: string };
  // Undefined table or schema.
  if (/^42P01$|^3F000$/.test(code))
    return new OperatorError('the database has no store of pdfseald: make one with `pdfseal init`', {
      cause,
    });
  if (code === '42501')
    return new OperatorError(`the role of store.url may not use the store in the database: ${message}`, {
      cause,
      remedy: OWNER_REMEDY,
    });
  if (/^SASL: .*client password must be/.test(message))
    return new OperatorError('the server asks for a password, and the configuration names none', {
      cause,
      remedy: 'name the file that has it: store.password_file',
    });
  if (!isShutOut(cause)) return undefined;
  return new OperatorError(`the database of the store cannot be used: ${message}`, {
    cause,
    remedy: 'check store.url, store.password_file, the role and the database, and pg_hba.conf of the server',
  });
}

/** Needs 16 MiB of the server's disk for a moment: if those are free, the disk is no longer full. */
export const SPACE_PROBE = `SET LOCAL work_mem = '64kB'; SET LOCAL temp_tablespaces = ''; SET LOCAL enable_sort = on;
  SELECT count(*) FROM (SELECT FROM generate_series(1, 16384) n ORDER BY repeat('x', 1000) || n) sorted`;

/** Whether the server's disk has no space for the write. The transaction is rolled back. */
export function isDiskFull(error: unknown): boolean {
  return (error as { code?: string }).code === '53100';
}

/** Two transactions conflicted: this one must be repeated (serialization failure, deadlock, waited too long for a lock). */
export function isRepeatable(error: unknown): boolean {
  return ['40001', '40P01', '55P03'].includes((error as { code?: string }).code ?? '');
}
