import { hostname } from 'node:os';
import type { Client } from 'pg';
import { stopwatch } from '../../base/clock.ts';
import { UnknownOutcome } from '../store.ts';
import {
  begin,
  clientOf,
  commitForSure,
  ElsewherePrimary,
  fenceOf,
  isLost,
  isRepeatable,
  type Location,
  NotPrimary,
  Superseded,
  setupFault,
} from './pgSession.ts';
import type { Turn } from './writes.ts';

const POLL_MS = 250;
const BEAT_MS = 500;
/** A daemon that gave no sign of life for so long is stopped or cannot be reached. */
const SILENT_MS_MAX = 3_000;
const ANSWER_MS_MAX = 5_000;
/** Longer than a session of a daemon that hangs keeps its locks. */
const RAISE_MS_MAX = 15_000;
/** For so long this daemon waits at one of several servers before it asks the next one. */
const STAY_MS_MAX = 5_000;

/** What a daemon waits for: that another one ends, or that a server answers. */
export type Obstacle = { holder: string } | { unreachable: string };

export interface Sequencing {
  /** Called again and again while this daemon waits. */
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
  /** When its daemon gave its last sign of life, as text. */
  beat: string | null;
  is_connected: boolean;
}

/** Every role sees which sessions there are, and what they call themselves. */
const SESSION = `pg_stat_activity a ON a.pid = l.session AND a.application_name LIKE 'pdfseal %'`;
const LAST_TURN = `SELECT s.fence, s.holder, l.session, l.beaten_at::text AS beat, a.pid IS NOT NULL AS is_connected
  FROM sequencer s LEFT JOIN life l ON l.fence = s.fence LEFT JOIN ${SESSION}`;

/** Whether a daemon is active, by the clock of the server. */
export const IS_ACTIVE = `SELECT count(*) > 0 FROM life l JOIN ${SESSION}
  WHERE l.beaten_at > clock_timestamp() - interval '${SILENT_MS_MAX} ms'`;

/** Nobody loses anything with a sign of life: it waits for no disk and no standby. */
const BEATING = 'SET synchronous_commit = off';
const BEAT = `UPDATE life SET session = pg_backend_pid(), beaten_at = clock_timestamp() WHERE fence = $1`;
const DISK_FULL = '53100';
const FIRST_BEAT = `INSERT INTO life (fence, session, beaten_at) VALUES ($1, pg_backend_pid(), clock_timestamp())
  ON CONFLICT (single) DO UPDATE SET fence = excluded.fence, session = excluded.session, beaten_at = excluded.beaten_at`;

/** All sessions of the process that has that one: its transactions hold locks. Those of another role end by themselves, after some seconds. */
const END_PROCESS = `SELECT pg_terminate_backend(other.pid)
  FROM pg_stat_activity one JOIN pg_stat_activity other USING (usesysid, datid, application_name)
  WHERE one.pid = $1 AND one.application_name LIKE 'pdfseal %' AND one.usename = current_user AND other.pid <> pg_backend_pid()`;

/**
 * The turn of this daemon: the fence, which is the truth, and signs of life, for which others look before they take over. Nobody can hold
 * up a take-over: there is no lock for it. Who takes over too early does no harm.
 */
export class Sequencer implements Turn {
  readonly fence: string;
  readonly #location: Location;
  readonly #onLost: (error: Error) => void;
  readonly #awayMsMax: number;
  #client: Client;
  #timer: NodeJS.Timeout | undefined;
  #isOver = false;

  private constructor(
    client: Client,
    fence: string,
    location: Location,
    { onLost, awayMsMax }: { onLost(error: Error): void; awayMsMax: number },
  ) {
    this.#client = client;
    this.fence = fence;
    this.#location = location;
    this.#onLost = onLost;
    this.#awayMsMax = awayMsMax;
    this.#next();
  }

  /**
   * Waits until no other daemon is active at this log, and takes its place: raises the fence, in a commit of its own. That commit is also the
   * barrier: once standbys have it, they have everything that this process is about to read, also what a daemon before it wrote without
   * being told so. What `prepare` throws on a primary is thrown before this process
   * waits. Where a server does not answer that commit in time, or says that standbys may not have it, the next server is asked.
   */
  static async open(
    location: Location,
    { onWait, signal, onLost, awayMsMax, prepare }: Sequencing & { awayMsMax: number; prepare?: Prepare },
  ): Promise<Sequencer> {
    const silence = new Silence();
    let fence = '';
    const attempt = async (client: Client): Promise<Obstacle | undefined> => {
      const last = await lastTurn(client);
      const isSilent = silence.ofMs(last) > SILENT_MS_MAX;
      if (last.is_connected && !isSilent) return { holder: last.holder };
      if (last.is_connected) await client.query(END_PROCESS, [last.session]);
      const raised = await raiseFence(client, last.fence);
      if (raised === undefined) return { holder: 'another daemon' };
      fence = raised;
      return undefined;
    };
    const client = await sessionOf(location, { onWait, signal, prepare, attempt });
    return new Sequencer(client, fence, location, { onLost, awayMsMax });
  }

  async close(): Promise<void> {
    this.#isOver = true;
    clearTimeout(this.#timer);
    await this.#client.end().catch(() => {});
  }

  #next(): void {
    this.#timer = setTimeout(() => {
      this.#beat().catch((error) => this.#end(error));
    }, BEAT_MS).unref();
  }

  /** Shows whoever waits that this daemon is alive, and finds out whether its turn is over. */
  async #beat(): Promise<void> {
    const { fence } = this;
    try {
      await beat(this.#client, fence);
    } catch (error) {
      if (!isLost(error) || this.#isOver) throw error;
      this.#client.end().catch(() => {});
      const signal = AbortSignal.timeout(this.#awayMsMax);
      const onWait = () => {};
      const attempt = (client: Client) => beat(client, fence);
      this.#client = await sessionOf(this.#location, { onWait, signal, fence, attempt });
    }
    if (this.#isOver) await this.#client.end().catch(() => {});
    else this.#next();
  }

  #end(error: Error): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#client.end().catch(() => {});
    this.#onLost(error);
  }
}

async function beat(client: Client, fence: string): Promise<undefined> {
  if ((await fenceOf(client)) !== fence) throw new Superseded();
  await client.query(BEATING);
  await client.query(BEAT, [fence]).catch((error) => {
    if (error.code !== DISK_FULL) throw error; // What can be read is shown still, and nobody else could raise the fence.
  });
}

async function lastTurn(client: Client): Promise<LastTurn> {
  const [turn] = (await client.query<LastTurn>(LAST_TURN)).rows;
  if (turn === undefined) throw new Error('the store has no row for whose turn it is');
  return turn;
}

/**
 * Waits for a transaction of the daemon before, which locks the row; whatever that one writes after it finds another fence. Undefined where
 * another daemon was faster.
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
  /** Only a server that has this one. */
  fence?: string;
  /** Throws where there is no use in waiting. */
  prepare?: Prepare | undefined;
  /** What there is to wait for; undefined once there is nothing. */
  attempt(client: Client): Promise<Obstacle | undefined>;
}

/** A session of a primary, on which the attempt succeeded. */
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
      continue; // Of several primaries, another can be the true one.
    } catch (error) {
      client.end().catch(() => {});
      // Every server was asked, and no one has the turn of this daemon.
      if (error instanceof ElsewherePrimary && server >= urls.length - 1) throw new Superseded();
      const fault = setupFault(error);
      refusals = fault === undefined ? 0 : refusals + 1;
      if (refusals === urls.length || (fault === undefined && !isTransient(error))) throw fault ?? error;
      if (isTaken && error instanceof NotPrimary) continue; // It is known where a primary is, and who is active there.
      isTaken = false;
      onWait({ unreachable: reasonOf(error) });
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** Whether it can be tried again, at another server if there is one. */
function isTransient(error: unknown): boolean {
  if (error instanceof Superseded) return false;
  return isLost(error) || isRepeatable(error) || error instanceof UnknownOutcome;
}

/** For how long a daemon has given no sign of life, by the monotonic clock of this process. */
class Silence {
  #last = '';
  #ms = 0;
  readonly #since = stopwatch();

  ofMs({ fence, beat }: LastTurn): number {
    const seen = `${fence} ${beat}`;
    const elapsedMs = this.#since();
    this.#ms = seen === this.#last ? this.#ms + elapsedMs : 0;
    this.#last = seen;
    return this.#ms;
  }
}
