import { hostname } from 'node:os';
import { Client } from 'pg';
import { stopwatch } from '../../base/clock.ts';
import { UnknownOutcome } from '../store.ts';
import {
  begin,
  clientConfig,
  commitForSure,
  ElsewherePrimary,
  fenceOf,
  isLost,
  type Location,
  NotPrimary,
  Superseded,
  setupFault,
} from './pgSession.ts';
import type { Turn } from './writes.ts';

/** Of the advisory lock that a session of the active daemon holds: "pdfs". */
const LOCK = 0x70646673;
const POLL_MS = 250;
const BEAT_MS = 1_000;
/** A session that did nothing for so long is one of a daemon that is stopped or cannot be reached. */
const SILENT_MS_MAX = 4_000;
const ANSWER_MS_MAX = 5_000;
/** Longer than a session of a daemon that hangs keeps its locks. */
const RAISE_MS_MAX = 15_000;
/** For so long one of several servers is asked for the lock before the next one is. */
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

type Examine = (client: Client) => Promise<void>;

interface Holder {
  pid: number;
  state: string | null;
  waits_for: string | null;
  since: string;
}

/** Of the one-key form of the lock, in this database. */
const HOLDER = `SELECT a.pid, a.state, a.wait_event AS waits_for, a.state_change::text AS since
  FROM pg_locks l JOIN pg_stat_activity a USING (pid)
  WHERE l.locktype = 'advisory' AND l.classid = 0 AND l.objid = ${LOCK} AND l.objsubid = 1 AND l.granted
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`;

/** Whether a daemon has the lock. Every role sees locks. */
export const IS_ACTIVE = `SELECT count(*) > 0 FROM pg_locks l
  WHERE l.locktype = 'advisory' AND l.classid = 0 AND l.objid = ${LOCK} AND l.objsubid = 1 AND l.granted
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`;

/** All sessions of the process that has that one: its transactions hold locks too. */
const END_PROCESS = `SELECT pg_terminate_backend(other.pid)
  FROM pg_stat_activity one JOIN pg_stat_activity other USING (usesysid, datid, application_name)
  WHERE one.pid = $1 AND one.application_name LIKE 'pdfseal %'`;

/**
 * The turn of this daemon: the session that holds the lock for which others wait, and the fence. The lock is a hint, and can be lost without
 * harm; the fence is the truth.
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
   * being told so. What `examine` throws on a primary is thrown before this process
   * waits. Where a server does not answer that commit in time, or says that standbys may not have it, the next server is asked.
   */
  static async open(
    location: Location,
    { onWait, signal, onLost, awayMsMax, examine }: Sequencing & { awayMsMax: number; examine?: Examine },
  ): Promise<Sequencer> {
    for (let first = 0; ; first++) {
      const client = await lockedSession(location, { onWait, signal, first, examine });
      try {
        return new Sequencer(client, await raiseFence(client), location, { onLost, awayMsMax });
      } catch (error) {
        client.end().catch(() => {});
        if (!isLost(error) && !(error instanceof UnknownOutcome)) throw setupFault(error) ?? error;
        onWait({ unreachable: reasonOf(error) });
      }
    }
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
    try {
      if ((await fenceOf(this.#client)) !== this.fence) throw new Superseded();
    } catch (error) {
      if (!isLost(error) || this.#isOver) throw error;
      this.#client.end().catch(() => {});
      const signal = AbortSignal.timeout(this.#awayMsMax);
      const onWait = () => {};
      this.#client = await lockedSession(this.#location, { onWait, signal, fence: this.fence });
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

/** Waits for a transaction of the daemon before, which locks the row; whatever that one writes after it finds another fence. */
async function raiseFence(client: Client): Promise<string> {
  const holder = `process ${process.pid} on ${hostname()}`;
  const text = 'UPDATE sequencer SET fence = gen_random_uuid(), holder = $1 RETURNING fence';
  const query = { text, values: [holder], query_timeout: RAISE_MS_MAX };
  await client.query('BEGIN');
  const { rows } = await client.query<{ fence: string }>(query);
  await commitForSure(client, ANSWER_MS_MAX);
  const [row] = rows;
  if (row === undefined) throw new Error('the store has no row for whose turn it is');
  return row.fence;
}

function reasonOf(error: unknown): string {
  const { message, cause } = error as Error;
  return error instanceof UnknownOutcome && cause instanceof Error ? cause.message : message;
}

interface Locking extends Pick<Sequencing, 'onWait'> {
  signal: AbortSignal | undefined;
  /** The server to begin with. */
  first?: number;
  /** Only a server that has this one. */
  fence?: string;
  /** Throws where there is no use in waiting. */
  examine?: Examine | undefined;
}

/** A session of a primary that holds the lock, as soon as there is one. */
async function lockedSession(
  location: Location,
  { onWait, signal, first = 0, fence, examine }: Locking,
): Promise<Client> {
  const { urls } = location;
  const silence = new Silence();
  let refusals = 0;
  let isTaken = false;
  for (let attempt = first; ; attempt++) {
    signal?.throwIfAborted();
    const config = clientConfig(urls[attempt % urls.length] ?? '', location.password);
    const client = new Client({ ...config, query_timeout: ANSWER_MS_MAX });
    client.on('error', () => {}); // Its next statement fails.
    try {
      await client.connect();
      await begin(client, { statementMsMax: 0, fence });
      await examine?.(client);
      const since = stopwatch();
      for (let stayedMs = 0; urls.length === 1 || stayedMs < STAY_MS_MAX; stayedMs += since()) {
        const obstacle = await lock(client, silence);
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
      if (error instanceof ElsewherePrimary && attempt >= first + urls.length - 1) throw new Superseded();
      const fault = setupFault(error);
      refusals = fault === undefined ? 0 : refusals + 1;
      if (refusals === urls.length || (fault === undefined && !isLost(error))) throw fault ?? error;
      if (isTaken && error instanceof NotPrimary) continue; // It is known where a primary is, and who is active there.
      isTaken = false;
      onWait({ unreachable: (error as Error).message });
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** Takes the lock; or tells why not, and ends the process that has it if that has been silent for too long. */
async function lock(client: Client, silence: Silence): Promise<Obstacle | undefined> {
  const { rows } = await client.query<{ got: boolean }>(`SELECT pg_try_advisory_lock(${LOCK}) AS got`);
  if (rows[0]?.got === true) return undefined;
  const [holder] = (await client.query<Holder>(HOLDER)).rows;
  // A session that is executing something waits for the server: then the daemon is not to blame.
  if (holder?.waits_for === 'SyncRep') return { unreachable: 'no standby has answered a commit yet' };
  if (holder?.state?.startsWith('idle') && silence.ofMs(holder) > SILENT_MS_MAX)
    await client.query(END_PROCESS, [holder.pid]);
  const [named] = (await client.query<{ holder: string }>('SELECT holder FROM sequencer')).rows;
  return { holder: named?.holder || 'another session' };
}

/** For how long a session has been seen to do nothing, by the monotonic clock of this process. */
class Silence {
  #last = '';
  #ms = 0;
  readonly #since = stopwatch();

  ofMs({ pid, since }: Holder): number {
    const seen = `${pid} ${since}`;
    const elapsedMs = this.#since();
    this.#ms = seen === this.#last ? this.#ms + elapsedMs : 0;
    this.#last = seen;
    return this.#ms;
  }
}
