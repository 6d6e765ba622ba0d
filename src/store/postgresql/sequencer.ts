import { hostname } from 'node:os';
import type { Client } from 'pg';
import { stopwatch } from '../../base/clock.ts';
import { Superseded, UnknownOutcome } from '../store.ts';
import {
  begin,
  clientOf,
  commitForSure,
  ElsewherePrimary,
  fenceOf,
  isDiskFull,
  isLost,
  isRepeatable,
  type Location,
  NotPrimary,
  setupFault,
} from './pgSession.ts';

const POLL_MS = 250;
const BEAT_MS = 500;
/** A daemon without a sign of life for this long is stopped or cannot be reached. */
const SILENT_MS_MAX = 3_000;
const ANSWER_MS_MAX = 5_000;
/** Longer than a session of a daemon that hangs keeps its locks. */
const RAISE_MS_MAX = 15_000;
/** The daemon waits this long at one of several servers before it tries the next one. */
const STAY_MS_MAX = 5_000;

/** The reason for a wait: another daemon must end, or a server must answer. */
export type Obstacle = { holder: string } | { unreachable: string };

export interface Sequencing {
  /** Called repeatedly while this daemon waits. */
  onWait(wait: Obstacle): void;
  /** Ends the wait. */
  signal?: AbortSignal;
  /** Called once, when this daemon's turn is over: it must end. */
  onLost(error: Error): void;
}

type Prepare = (client: Client) => Promise<void>;

interface LastTurn {
  fence: string;
  holder: string;
  session: number | null;
  /** Time of the last sign of life of its daemon, as text. */
  beat: string | null;
  is_connected: boolean;
}

/** Every role sees the sessions, and their application names. */
const SESSION = `pg_stat_activity a ON a.pid = l.session AND a.application_name LIKE 'pdfseal %'`;
const LAST_TURN = `SELECT s.fence, s.holder, l.session, l.beaten_at::text AS beat, a.pid IS NOT NULL AS is_connected
  FROM sequencer s LEFT JOIN life l ON l.fence = s.fence LEFT JOIN ${SESSION}`;

/** Whether a daemon is active, by the clock of the server. */
export const IS_ACTIVE = `SELECT count(*) > 0 FROM life l JOIN ${SESSION}
  WHERE l.beaten_at > clock_timestamp() - interval '${SILENT_MS_MAX} ms'`;

/** Losing a sign of life does no harm: it waits for no disk and no standby. */
const BEATING = 'SET synchronous_commit = off';
const BEAT = `UPDATE life SET session = pg_backend_pid(), beaten_at = clock_timestamp() WHERE fence = $1`;
const FIRST_BEAT = `INSERT INTO life (fence, session, beaten_at) VALUES ($1, pg_backend_pid(), clock_timestamp())
  ON CONFLICT (single) DO UPDATE SET fence = excluded.fence, session = excluded.session, beaten_at = excluded.beaten_at`;

/**
 * Ends all sessions of the process with this session: its transactions hold locks. Those of another role end by themselves, after some
 * seconds.
 */
const END_PROCESS = `SELECT pg_terminate_backend(other.pid)
  FROM pg_stat_activity one JOIN pg_stat_activity other USING (usesysid, datid, application_name)
  WHERE one.pid = $1 AND one.application_name LIKE 'pdfseal %' AND one.usename = current_user AND other.pid <> pg_backend_pid()`;

/** A turn of this daemon, in which it may write. */
export interface Turn {
  /** UUID under which this daemon took over: that of the store, until another takes over. */
  readonly fence: string;
  close(): Promise<void>;
}

/**
 * Waits until no other daemon is active at this log, and takes over: raises the fence, in a commit of its own. That commit is also the
 * barrier: once standbys have it, they have everything that this process is about to read, including unacknowledged writes of an earlier
 * daemon. An error of `prepare` on a primary is thrown before this process waits. If a server does not answer that commit in time, or
 * reports that standbys may not have it, the next server is tried.
 *
 * The fence is the truth; signs of life are only observed before a take-over. A take-over cannot be held up: there is no lock for it.
 * Taking over too early does no harm.
 */
export async function takeTurn(
  location: Location,
  { onWait, signal, onLost, awayMsMax, prepare }: Sequencing & { awayMsMax: number; prepare?: Prepare },
): Promise<Turn> {
  const silentMs = measureSilence();
  let fence = '';
  const attempt = async (client: Client): Promise<Obstacle | undefined> => {
    const last = await lastTurn(client);
    const isSilent = silentMs(last) > SILENT_MS_MAX;
    if (last.is_connected && !isSilent) return { holder: last.holder };
    if (last.is_connected) await client.query(END_PROCESS, [last.session]);
    const raised = await raiseFence(client, last.fence);
    if (raised === undefined) return { holder: 'another daemon' };
    fence = raised;
    return undefined;
  };
  let client = await sessionOf(location, { onWait, signal, prepare, attempt });
  let timer: NodeJS.Timeout | undefined;
  let isOver = false;
  const closed = new AbortController();

  function showLater(): void {
    timer = setTimeout(() => show().catch(end), BEAT_MS).unref();
  }

  /** Shows waiting daemons that this one is alive, and finds out whether its turn is over. */
  async function show(): Promise<void> {
    try {
      await beat(client, fence);
    } catch (error) {
      if (!isLost(error) || isOver) throw error;
      client.end().catch(() => {});
      const signal = AbortSignal.any([AbortSignal.timeout(awayMsMax), closed.signal]);
      const attempt = (client: Client) => beat(client, fence);
      client = await sessionOf(location, { onWait: () => {}, signal, fence, attempt });
    }
    if (isOver) await client.end().catch(() => {});
    else showLater();
  }

  function end(error: Error): void {
    if (isOver) return;
    isOver = true;
    client.end().catch(() => {});
    onLost(error);
  }

  showLater();
  return {
    fence,
    async close() {
      isOver = true;
      // Otherwise a process that closes while the server is away would look for it until the time is over.
      closed.abort();
      clearTimeout(timer);
      await client.end().catch(() => {});
    },
  };
}

async function beat(client: Client, fence: string): Promise<undefined> {
  if ((await fenceOf(client)) !== fence) throw new Superseded();
  await client.query(BEATING);
  await client.query(BEAT, [fence]).catch((error) => {
    if (!isDiskFull(error)) throw error; // Reading still works, and no other daemon could raise the fence.
  });
}

async function lastTurn(client: Client): Promise<LastTurn> {
  const [turn] = (await client.query<LastTurn>(LAST_TURN)).rows;
  if (turn === undefined) throw new Error('the store has no row for whose turn it is');
  return turn;
}

/**
 * Waits for a transaction of the previous daemon, which locks the row; its later writes find another fence. Undefined if another daemon was
 * faster.
 */
async function raiseFence(client: Client, from: string): Promise<string | undefined> {
  const holder = `process ${process.pid} on ${hostname()}`;
  const text = 'UPDATE sequencer SET fence = gen_random_uuid(), holder = $1 WHERE fence = $2 RETURNING fence';
  const query = { text, values: [holder, from], query_timeout: RAISE_MS_MAX };
  await client.query('BEGIN');
  const [row] = (await client.query<{ fence: string }>(query)).rows;
  if (row !== undefined) await client.query(FIRST_BEAT, [row.fence]);
  await commitForSure(client, ANSWER_MS_MAX);
  return row?.fence;
}

function reasonOf(error: unknown): string {
  const { message, cause } = error as Error;
  return error instanceof UnknownOutcome && cause instanceof Error ? cause.message : message;
}

interface Session extends Pick<Sequencing, 'onWait'> {
  signal: AbortSignal | undefined;
  /** If set, only a server with this fence is used. */
  fence?: string;
  /** Throws if waiting is of no use. */
  prepare?: Prepare | undefined;
  /** Returns the obstacle to wait for; undefined once there is none. */
  attempt(client: Client): Promise<Obstacle | undefined>;
}

/** Returns a session of a primary, on which the attempt succeeded. */
async function sessionOf(
  location: Location,
  { onWait, signal, fence, prepare, attempt }: Session,
): Promise<Client> {
  const { urls } = location;
  let refusals = 0;
  let isTaken = false;
  for (let server = 0; ; server++) {
    signal?.throwIfAborted();
    const client = clientOf(location, server % urls.length, ANSWER_MS_MAX);
    try {
      await client.connect();
      await begin(client, { statementMsMax: 0, fence });
      await prepare?.(client);
      const since = stopwatch();
      for (let stayedMs = 0; urls.length === 1 || stayedMs < STAY_MS_MAX; stayedMs += since()) {
        const obstacle = await attempt(client);
        if (obstacle === undefined) return client;
        isTaken = 'holder' in obstacle;
        onWait(obstacle);
        signal?.throwIfAborted();
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      }
      client.end().catch(() => {});
      continue; // With several primaries, another can be the true one.
    } catch (error) {
      client.end().catch(() => {});
      // Every server was tried, and none has the turn of this daemon.
      if (error instanceof ElsewherePrimary && server >= urls.length - 1) throw new Superseded();
      const fault = setupFault(error);
      refusals = fault === undefined ? 0 : refusals + 1;
      if (refusals === urls.length || (fault === undefined && !isTransient(error))) throw fault ?? error;
      if (isTaken && error instanceof NotPrimary) continue; // The location of a primary is known, and its active daemon.
      isTaken = false;
      onWait({ unreachable: reasonOf(error) });
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** Whether it can be tried again, at another server if there is one. */
function isTransient(error: unknown): boolean {
  if (error instanceof Superseded) return false;
  return isLost(error) || isRepeatable(error) || isDiskFull(error) || error instanceof UnknownOutcome;
}

/** Measures how long a daemon has given no sign of life, by the monotonic clock of this process. */
function measureSilence(): (turn: LastTurn) => number {
  const since = stopwatch();
  let last = '';
  let ms = 0;
  return ({ fence, beat }) => {
    const seen = `${fence} ${beat}`;
    const elapsedMs = since();
    ms = seen === last ? ms + elapsedMs : 0;
    last = seen;
    return ms;
  };
}
