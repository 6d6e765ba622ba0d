import { type ClientBase, Pool } from 'pg';
import { stopwatch } from '../../base/clock.ts';
import { within } from '../../base/deadline.ts';
import { SlotQueue } from '../../base/slotQueue.ts';
import { UnknownOutcome } from '../store.ts';
import { isRefusedAs, StoreError } from '../storeError.ts';
import { beginBarrier, commitBarrier, passBarrier } from './barrier.ts';
import { DatabaseSpace } from './databaseSpace.ts';
import {
  type BeginOptions,
  begin,
  COMMIT_MS_MAX,
  clientConfig,
  clientOf,
  isDiskFull,
  isLost,
  isRepeatable,
  isShutOut,
  type Location,
  SPACE_PROBE,
} from './pgSession.ts';

/** A statement, prepared once per connection under its name. */
export interface Query {
  name: string;
  text: string;
  /** Its results are not reported to clients, or could be undone without harm: a front reads it without a barrier. */
  isInternal?: true;
}

/** Statements, each under its name. */
export function statements<Name extends string>(
  texts: Readonly<Record<Name, string>>,
  kind: Pick<Query, 'isInternal'> = {},
): Record<Name, Query> {
  const named = Object.entries<string>(texts).map(([name, text]) => [name, { name, text, ...kind }]);
  return Object.fromEntries(named);
}

/** Statements in one transaction, or on one connection. */
export interface Queries {
  /** Columns of `bigint` are numbers, of `bytea` buffers, of `uuid` strings with dashes. */
  rows<Row>(query: Query, values?: readonly unknown[]): Promise<Row[]>;
}

type Results<Statements> = { -readonly [K in keyof Statements]: Awaited<Statements[K]> };

/**
 * Results of statements that were issued one after the other without waiting for answers: in a transaction that writes, they travel to the
 * server together, which runs them in their order. Throws the error of the first that failed, once none of them is under way any more.
 */
export async function together<const Statements extends readonly unknown[]>(
  statements: Statements,
): Promise<Results<Statements>> {
  const settled = await Promise.allSettled(statements);
  return settled.map((one) => {
    if (one.status === 'rejected') throw one.reason;
    return one.value;
  }) as Results<Statements>;
}

/** Connections for reading, and for listings, of which a client can request many. */
const READERS_MAX = 5;
const LISTERS_MAX = 3;
const PAGE_ROWS = 500;
const READ_MS_MAX = 30_000;
/** Also the time limit for a listing to get a connection. */
const LISTING_MS_MAX = 5_000;
const RETRY_MS = 100;
/**
 * Maximum number of repeats of a statement or transaction that conflicts with another: each time it may have waited ten seconds for a lock.
 */
const REPEATS_MAX = 20;
/** The server ended the statement (query_canceled). */
const CANCELED = '57014';

/**
 * Connections to each server, and the slots for using one. A statement waits for its turn, as long as it takes: a full pool is not a fault,
 * and would look as if the server were lost.
 */
interface Readers {
  slots: SlotQueue;
  pools: Pool[];
}

export interface DatabaseOptions {
  /** Maximum time for which servers may not answer, milliseconds; in a front, the time limit for anything that a request waits for. */
  awayMsMax: number;
  fence?: string | undefined;
  isFront?: boolean;
  /** Called when the disk of the server is found full, and when it has space again. */
  onFull?: ((isFull: boolean) => void) | undefined;
}

/** The database, for reading. Only a primary is ever read. */
export class Database implements Queries {
  readonly location: Location;
  readonly space: DatabaseSpace;
  readonly #readers: Readers;
  readonly #listers: Readers;
  readonly #awayMsMax: number;
  readonly #fence: string | undefined;
  readonly #isFront: boolean;
  #current = 0;
  #failure: Error | undefined;
  #committing: Promise<void> | undefined;
  #isClosed = false;

  /**
   * `fence`: that of a daemon's turn. Only a server that has it is read, so nothing is from before the barrier; and each connection begins
   * with another barrier. A front has no turn: it can read a commit that standbys do not have yet, so each read is a barrier of its own.
   */
  constructor(location: Location, { awayMsMax, fence, isFront = false, onFull = () => {} }: DatabaseOptions) {
    this.location = location;
    this.space = new DatabaseSpace({ probe: () => this.#probeSpace(), onFull });
    this.#isFront = isFront;
    this.#awayMsMax = awayMsMax;
    this.#fence = fence;
    // Statements that wait for a lock leave a connection for others.
    const slots = new SlotQueue({ of: 'statements', max: READERS_MAX, perClientMax: READERS_MAX - 1 });
    this.#readers = { slots, pools: this.#pools(READERS_MAX, READ_MS_MAX) };
    this.#listers = {
      slots: new SlotQueue({ of: 'listings', max: LISTERS_MAX }),
      pools: this.#pools(LISTERS_MAX, LISTING_MS_MAX, { isForLists: true }),
    };
  }

  /** Time limit of this process for the answer to a statement that has this time limit on the server. */
  answerMsMax(statementMsMax: number): number {
    return this.#isFront ? Math.min(this.#awayMsMax, statementMsMax) : statementMsMax;
  }

  #pools(max: number, statementMsMax: number, options: Pick<BeginOptions, 'isForLists'> = {}): Pool[] {
    return this.location.urls.map((url) => {
      const pool = new Pool({
        ...clientConfig(url, this.location.password),
        max,
        pipeline: this.#isFront,
        query_timeout: this.answerMsMax(READ_MS_MAX) + 1_000,
        ...(this.#fence !== undefined && { idleTimeoutMillis: 0 }), // Each connection begins with a barrier.
        onConnect: async (client: ClientBase) => {
          client.on('error', () => {}); // The next use of the client fails.
          await begin(client, {
            ...options,
            statementMsMax: this.answerMsMax(statementMsMax),
            fence: this.#fence,
          });
          // A server that was restarted shows data that it had not acknowledged, which standbys may not have.
          if (this.#fence !== undefined) await commitBarrier(client);
        },
      });
      pool.on('error', () => {}); // An idle connection was lost: the next statement takes another.
      return pool;
    });
  }

  async rows<Row>(query: Query, values: readonly unknown[] = []): Promise<Row[]> {
    const rows = this.#rows<Row>(query, values);
    if (!this.#isFront) return rows;
    const late = () => awayError(new Error(`no answer to ${query.name} in time`));
    return within(this.#awayMsMax, rows, late);
  }

  async #rows<Row>(query: Query, values: readonly unknown[]): Promise<Row[]> {
    const give = await this.#readers.slots.take(query.name);
    try {
      return await this.#read(this.#readers, query, values);
    } catch (error) {
      throw this.#isFront && isCanceled(error) ? this.fail(error) : error;
    } finally {
      give();
    }
  }

  /**
   * Like {@link rows} for a listing, which is given up after some seconds. Throws StoreError if it took longer, and ServiceError if
   * clients have the maximum number of listings under way.
   */
  async listing<Row>(clientId: string, query: Query, values: readonly unknown[]): Promise<Row[]> {
    const give = await this.#listers.slots.take(clientId, { waitMs: LISTING_MS_MAX });
    try {
      return await this.#read(this.#listers, query, values);
    } catch (error) {
      throw isCanceled(error) ? new StoreError({ code: 'too_many_lists' }, error) : error;
    } finally {
      give();
    }
  }

  #read<Row>({ pools }: Readers, query: Query, values: readonly unknown[]): Promise<Row[]> {
    const hasBarrier = this.#isFront && query.isInternal !== true;
    // The COMMIT is sent together with the statement, and waits for it.
    const commitMsMax = this.answerMsMax(READ_MS_MAX) + this.answerMsMax(COMMIT_MS_MAX);
    return this.retrying(async (server, answered) => {
      const client = await (pools[server] as Pool).connect();
      answered();
      try {
        const { name, text } = query;
        const read = () => client.query({ name, text, values: [...values] });
        // If the server refuses one of the three, the last one reports it too.
        const [, { rows }] = hasBarrier
          ? await together([beginBarrier(client), read(), passBarrier(client, commitMsMax)])
          : [undefined, await read()];
        client.release();
        if (!hasBarrier && query.isInternal !== true) await this.#committing;
        return rows as Row[];
      } catch (error) {
        client.release(hasBarrier || isLost(error));
        // A barrier writes, and so does a statement that sorts.
        throw isDiskFull(error) ? this.space.refused(error) : error;
      }
    });
  }

  async #probeSpace(): Promise<void> {
    const give = await this.#readers.slots.take('space');
    try {
      await this.retrying(async (server) => {
        const client = await (this.#readers.pools[server] as Pool).connect();
        try {
          await client.query(SPACE_PROBE);
          client.release();
        } catch (error) {
          client.release(true);
          throw error;
        }
      });
    } finally {
      give();
    }
  }

  /**
   * Results of reads during a commit of this process are returned once its outcome is known: `settled` resolves then. A server that has the
   * transaction can show it before it reports that standbys may not have it.
   */
  tellAfter(settled: Promise<void>): void {
    this.#committing = settled;
  }

  /**
   * All rows of a statement, page by page: its first parameter is the key after which a page begins, the second the maximum number of rows.
   */
  async *pages<Row>(query: Query, keyOf: (row: Row) => unknown, start: unknown): AsyncIterable<Row> {
    for (let after = start; ; ) {
      const rows = await this.rows<Row>(query, [after, PAGE_ROWS]);
      yield* rows;
      const last = rows.at(-1);
      if (last === undefined || rows.length < PAGE_ROWS) return;
      after = keyOf(last);
    }
  }

  /** Statements that all see the store at one moment, on a connection of their own, which `end` closes. */
  async snapshot(): Promise<{ queries: Queries; end(): Promise<void> }> {
    const client = await this.retrying(async (server) => {
      const client = clientOf(this.location, server, READ_MS_MAX + 1_000);
      try {
        await client.connect();
        await begin(client, { statementMsMax: READ_MS_MAX, fence: this.#fence });
        await client.query(
          'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL idle_in_transaction_session_timeout = 60000',
        );
      } catch (error) {
        client.end().catch(() => {});
        throw error;
      }
      return client;
    });
    return {
      queries: {
        rows: async ({ name, text }, values = []) =>
          (await client.query({ name, text, values: [...values] })).rows,
      },
      end: () => client.end().catch(() => {}),
    };
  }

  /**
   * Calls `work` with the number of a server; again, with the next one, while servers are lost or one of them refuses the login, and if it
   * conflicted with another transaction. Throws the error of {@link fail} if servers gave no answer for too long: `work` reports each
   * answer.
   */
  async retrying<T>(work: (server: number, answered: () => void) => Promise<T>): Promise<T> {
    const since = stopwatch();
    for (let awayMs = 0, repeats = 0, refusals = 0; ; ) {
      this.#assertUsable();
      const server = this.#current;
      try {
        const result = await work(server, since);
        this.#assertUsable();
        return result;
      } catch (error) {
        if (isRepeatable(error) && repeats < REPEATS_MAX) {
          repeats += 1;
          since();
          continue;
        }
        refusals = isShutOut(error) ? refusals + 1 : 0;
        const isElsewhere = refusals > 0 && refusals < this.location.urls.length;
        if (!isLost(error) && !isElsewhere) throw error;
        awayMs += since();
        if (awayMs > this.#awayMsMax) throw this.fail(error);
        if (this.#current === server) this.#current = (server + 1) % this.location.urls.length;
      }
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }

  /** The number of the server that answered last, or is tried next. */
  get current(): number {
    return this.#current;
  }

  /**
   * From now on every use throws: the state of this process may differ from the database. A front keeps no state, and continues: there,
   * only the request gets the error.
   */
  fail(cause: unknown): Error {
    if (this.#isFront) return isRefusedAs('database_away', cause) ? cause : awayError(cause);
    this.#failure ??= cause instanceof UnknownOutcome ? cause : new UnknownOutcome(cause);
    return this.#failure;
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.space.close();
    await Promise.all([this.#readers, this.#listers].flatMap(({ pools }) => pools.map((pool) => pool.end())));
  }

  #assertUsable(): void {
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#isClosed) throw new Error('the store is closed');
  }
}

function awayError(cause: unknown): StoreError {
  return new StoreError({ code: 'database_away' }, cause);
}

function isCanceled(error: unknown): boolean {
  return (error as { code?: string }).code === CANCELED;
}
