import { hostname } from 'node:os';
import { Client } from 'pg';
import { stopwatch } from '../../base/clock.ts';
import { begin, clientConfig, isLost, type Location, setupFault } from './pgSession.ts';
import { Superseded, type Turn } from './writes.ts';

/** Of the advisory lock that a session of the active daemon holds: "pdfs". */
const LOCK = 0x70646673;
const POLL_MS = 250;
const BEAT_MS = 1_000;
/** A session that did nothing for so long is one of a daemon that is stopped or cannot be reached. */
const SILENT_MS_MAX = 4_000;
const ANSWER_MS_MAX = 5_000;

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

interface Holder {
  pid: number;
  state: string | null;
  since: string;
}

const HOLDER = `SELECT a.pid, a.state, a.state_change::text AS since FROM pg_locks l JOIN pg_stat_activity a USING (pid)
  WHERE l.locktype = 'advisory' AND l.objid = ${LOCK} AND l.granted
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`;

/**
 * The turn of this daemon: the session that holds the lock for which others wait, and the fence. The lock is a hint, and can be lost without
 * harm; the fence is the truth.
 */
export class Sequencer implements Turn {
  readonly fence: number;
  readonly #location: Location;
  readonly #onLost: (error: Error) => void;
  readonly #awayMsMax: number;
  #client: Client;
  #timer: NodeJS.Timeout | undefined;
  #isOver = false;

  private constructor(
    client: Client,
    fence: number,
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
   * being told so. A server that does not answer it in time, or says that standbys may not have it, is asked again: they may be away.
   */
  static async open(
    location: Location,
    { onWait, signal, onLost, awayMsMax }: Sequencing & { awayMsMax: number },
  ): Promise<Sequencer> {
    for (;;) {
      const client = await lockedSession(location, { onWait, signal });
      try {
        return new Sequencer(client, await raiseFence(client), location, { onLost, awayMsMax });
      } catch (error) {
        client.end().catch(() => {});
        if (!isLost(error) && !(error instanceof NotReplicated)) throw setupFault(error) ?? error;
        onWait({ unreachable: (error as Error).message });
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
      await this.#assertOurs(this.#client);
    } catch (error) {
      if (!isLost(error) || this.#isOver) throw error;
      this.#client.end().catch(() => {});
      const signal = AbortSignal.timeout(this.#awayMsMax);
      const beforeEach = (client: Client) => this.#assertOurs(client);
      this.#client = await lockedSession(this.#location, { onWait: () => {}, signal, beforeEach });
    }
    if (!this.#isOver) this.#next();
  }

  async #assertOurs(client: Client): Promise<void> {
    const { rows } = await client.query<{ fence: number }>('SELECT fence FROM sequencer');
    if (rows[0]?.fence !== this.fence) throw new Superseded();
  }

  #end(error: Error): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#client.end().catch(() => {});
    this.#onLost(error);
  }
}

class NotReplicated extends Error {}

/** Waits for a transaction of the daemon before, which locks the row; whatever that one writes after it finds another number. */
async function raiseFence(client: Client): Promise<number> {
  const holder = `process ${process.pid} on ${hostname()}`;
  let warning: string | undefined;
  client.on('notice', ({ severity, message }) => {
    if (severity === 'WARNING') warning = message;
  });
  const text = 'UPDATE sequencer SET fence = fence + 1, holder = $1 RETURNING fence';
  const { rows } = await client.query<{ fence: number }>(text, [holder]);
  if (warning !== undefined) throw new NotReplicated(warning);
  return Number(rows[0]?.fence);
}

interface Locking extends Pick<Sequencing, 'onWait'> {
  signal: AbortSignal | undefined;
  /** Called before each attempt to take the lock; what it throws ends them. */
  beforeEach?(client: Client): Promise<void>;
}

/** A session of the primary that holds the lock, as soon as there is one. */
async function lockedSession(
  location: Location,
  { onWait, signal, beforeEach = async () => {} }: Locking,
): Promise<Client> {
  const silence = new Silence();
  let refusals = 0;
  for (let attempt = 0; ; attempt++) {
    signal?.throwIfAborted();
    const url = location.urls[attempt % location.urls.length] ?? '';
    const client = new Client({ ...clientConfig(url, location.password), query_timeout: ANSWER_MS_MAX });
    client.on('error', () => {}); // Its next statement fails.
    try {
      await client.connect();
      await begin(client, { statementMsMax: 0 });
      for (;;) {
        await beforeEach(client);
        const obstacle = await lock(client, silence);
        if (obstacle === undefined) return client;
        onWait({ holder: obstacle });
        signal?.throwIfAborted();
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      }
    } catch (error) {
      client.end().catch(() => {});
      const fault = setupFault(error);
      refusals = fault === undefined ? 0 : refusals + 1;
      if (refusals === location.urls.length || (fault === undefined && !isLost(error))) throw fault ?? error;
      onWait({ unreachable: (error as Error).message });
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** Takes the lock; or tells who has it, and ends its session if that has been silent for too long. */
async function lock(client: Client, silence: Silence): Promise<string | undefined> {
  const { rows } = await client.query<{ got: boolean }>(`SELECT pg_try_advisory_lock(${LOCK}) AS got`);
  if (rows[0]?.got === true) return undefined;
  const [holder] = (await client.query<Holder>(HOLDER)).rows;
  // A session that is executing something waits for the server: then the daemon is not to blame.
  if (holder?.state?.startsWith('idle') && silence.ofMs(holder) > SILENT_MS_MAX)
    await client.query('SELECT pg_terminate_backend($1)', [holder.pid]);
  const [named] = (await client.query<{ holder: string }>('SELECT holder FROM sequencer')).rows;
  return named?.holder ?? '';
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
