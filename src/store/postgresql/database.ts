import { Client, type ClientBase, Pool } from 'pg';
import { stopwatch } from '../../base/clock.ts';
import { UnknownOutcome } from '../store.ts';
import { begin, clientConfig, isLost, type Location } from './pgSession.ts';

/** A statement, prepared once per connection under its name. */
export interface Query {
  name: string;
  text: string;
}

/** A statement whose first parameter is the key after which its rows begin, and the second how many of them at most. */
export interface PagedQuery<Row> extends Query {
  row?: Row;
}

/** Statements that see one transaction, or one connection. */
export interface Queries {
  /** Columns of `bigint` are numbers, of `bytea` buffers, of `uuid` strings with dashes. */
  rows<Row>(query: Query, values?: readonly unknown[]): Promise<Row[]>;
}

const READERS_MAX = 8;
const PAGE_ROWS = 500;
const READ_MS_MAX = 30_000;
const RETRY_MS = 100;

/** The database, for reading. It is always a primary that is read. */
export class Database implements Queries {
  readonly location: Location;
  readonly #pools: Pool[];
  readonly #awayMsMax: number;
  #current = 0;
  #failure: Error | undefined;
  #isClosed = false;

  /** `fence`: of a daemon's turn. Only a server that has it is read, so nothing is from before the barrier. */
  constructor(location: Location, { awayMsMax, fence }: { awayMsMax: number; fence?: string | undefined }) {
    this.location = location;
    this.#awayMsMax = awayMsMax;
    this.#pools = location.urls.map((url) => {
      const pool = new Pool({
        ...clientConfig(url, location.password),
        max: READERS_MAX,
        query_timeout: READ_MS_MAX + 1_000,
        onConnect: (client: ClientBase) => begin(client, { statementMsMax: READ_MS_MAX, fence }),
      });
      pool.on('error', () => {}); // An idle connection was lost: the next statement takes another.
      return pool;
    });
  }

  async rows<Row>({ name, text }: Query, values: readonly unknown[] = []): Promise<Row[]> {
    return this.retrying(async (server) => {
      const pool = this.#pools[server] as Pool;
      const { rows } = await pool.query({ name, text, values: [...values] });
      return rows as Row[];
    });
  }

  /** All rows of a statement, page by page. */
  async *pages<Row>(
    query: PagedQuery<Row>,
    keyOf: (row: Row) => unknown,
    start: unknown,
  ): AsyncIterable<Row> {
    for (let after = start; ; ) {
      const rows = await this.rows<Row>(query, [after, PAGE_ROWS]);
      yield* rows;
      const last = rows.at(-1);
      if (last === undefined || rows.length < PAGE_ROWS) return;
      after = keyOf(last);
    }
  }

  /** Statements that all see the store as it is at one moment, on a connection of their own, which `end` closes. */
  async snapshot(): Promise<{ queries: Queries; end(): Promise<void> }> {
    const client = await this.retrying(async (server) => {
      const { urls, password } = this.location;
      const config = clientConfig(urls[server] ?? '', password);
      const client = new Client({ ...config, query_timeout: READ_MS_MAX + 1_000 });
      client.on('error', () => {}); // Its next statement fails.
      try {
        await client.connect();
        await begin(client, { statementMsMax: READ_MS_MAX });
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

  /** Calls `work` with the number of a server; again, with the next one, while servers are lost. Throws UnknownOutcome where that goes on too long. */
  async retrying<T>(work: (server: number) => Promise<T>): Promise<T> {
    const since = stopwatch();
    for (let awayMs = 0; ; ) {
      this.#assertUsable();
      const server = this.#current;
      try {
        const result = await work(server);
        this.#assertUsable();
        return result;
      } catch (error) {
        if (!isLost(error)) throw error;
        awayMs += since();
        if (awayMs > this.#awayMsMax) throw this.fail(error);
        if (this.#current === server) this.#current = (server + 1) % this.#pools.length;
      }
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }

  /** From now on every use throws: what this process believes may not be what the database has. */
  fail(cause: unknown): Error {
    this.#failure ??= cause instanceof UnknownOutcome ? cause : new UnknownOutcome(cause);
    return this.#failure;
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await Promise.all(this.#pools.map((pool) => pool.end()));
  }

  #assertUsable(): void {
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#isClosed) throw new Error('the store is closed');
  }
}
