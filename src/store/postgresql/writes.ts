import { Client } from 'pg';
import { BrokenInvariant } from '../../base/assert.ts';
import { Superseded, UnknownOutcome } from '../store.ts';
import { isRefusedAs } from '../storeError.ts';
import { commitBarrier } from './barrier.ts';
import type { Database, Queries } from './database.ts';
import { begin, COMMIT_MS_MAX, clientConfig, commitForSure, isDiskFull, isLost } from './pgSession.ts';
import type { Turn } from './sequencer.ts';

type Work<T> = (queries: Queries) => Promise<T>;

export interface WriteOptions {
  /**
   * Whether it has a transaction of its own. Every work that takes locks shared with other processes must have one, one after the other:
   * together with other works it could hold a lock that another process needs first, and wait for one that the other holds.
   */
  isAlone?: boolean;
  /** For a request: throws StoreError `disk_full` if the daemon itself would wait for space on the server's disk. */
  isRefusable?: boolean;
}

interface Pending extends WriteOptions {
  work: Work<unknown>;
  resolve(result: unknown): void;
  reject(error: unknown): void;
}

/** Upper bound of one transaction. */
const GROUP_WORKS_MAX = 256;
/** A statement of a transaction that takes longer is given up with its connection. */
const STATEMENT_MS_MAX = 30_000;

/**
 * Group commit: one transaction of this process at a time is on its way to the disk, and writes made meanwhile form the next one. Works run
 * in the order in which they were given.
 *
 * If the answer to a COMMIT is lost, or reports that standbys may not have the transaction, its durability cannot be determined (a server's
 * own answer to that question can come from another timeline): every write in it and everything after it, reads included, throws
 * {@link UnknownOutcome}, until the process ends, and another has committed a barrier of its own before it reads.
 *
 * A server whose disk is full rolls a transaction back. The writes of requests then throw StoreError; writes that a daemon with a turn
 * must make wait for space, in their order.
 */
export class Writes {
  readonly #database: Database;
  readonly #turn: Turn | undefined;
  #client: Client | undefined;
  #pending: Pending[] = [];
  #draining: Promise<void> | undefined;
  /** Ends the wait for the outcome of the last COMMIT. */
  #settled = () => {};

  constructor(database: Database, turn?: Turn) {
    this.#database = database;
    this.#turn = turn;
  }

  /**
   * Resolves with the result of `work`, once that is durable. A work that throws has written nothing. It can be called several times: it
   * may only use the queries it is given.
   */
  run<T>(work: Work<T>, { isAlone = false, isRefusable = false }: WriteOptions = {}): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (isRefusable) this.#database.space.admit(); // It would only wait behind works that wait for space.
      this.#pending.push({
        work,
        isAlone,
        isRefusable,
        resolve: resolve as (result: unknown) => void,
        reject,
      });
      this.#draining ??= this.#drain();
    });
  }

  async close(): Promise<void> {
    await this.#draining;
    await this.#client?.end().catch(() => {});
    this.#client = undefined;
  }

  async #drain(): Promise<void> {
    // Everything else that happens in this turn of the event loop shares the first commit.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#pending.length > 0) {
      const group = this.#nextGroup();
      try {
        await this.#write(group);
      } catch (error) {
        this.#break(error, group);
      }
      this.#settled();
    }
    this.#draining = undefined;
  }

  #nextGroup(): Pending[] {
    const alone = this.#pending.findIndex(({ isAlone }) => isAlone);
    const works = alone === -1 ? GROUP_WORKS_MAX : Math.min(Math.max(alone, 1), GROUP_WORKS_MAX);
    return this.#pending.splice(0, works);
  }

  /** Runs all works in one transaction; if one of them throws, each in its own. */
  async #write(group: Pending[]): Promise<void> {
    const results: unknown[] = [];
    try {
      await this.#transaction(async (queries) => {
        results.length = 0;
        for (const { work } of group) results.push(await work(queries));
      });
    } catch (error) {
      if (error instanceof UnknownOutcome || isRefusedAs('database_away', error)) throw error;
      if (isDiskFull(error)) return await this.#writeOnceThereIsSpace(group, error);
      const [only, second] = group;
      if (only !== undefined && second === undefined) only.reject(asInvariant(error));
      else for (const one of group) await this.#write([one]);
      return;
    }
    for (const [index, { resolve }] of group.entries()) resolve(results[index]);
  }

  async #writeOnceThereIsSpace(group: Pending[], cause: unknown): Promise<void> {
    const { space } = this.#database;
    this.#settled();
    const refusal = space.refused(cause);
    const isRefused = ({ isRefusable }: Pending) => isRefusable || this.#turn === undefined;
    for (const { reject } of [...group, ...this.#pending].filter(isRefused)) reject(refusal);
    this.#pending = this.#pending.filter((one) => !isRefused(one));
    const waiting = group.filter((one) => !isRefused(one));
    if (waiting.length === 0) return;
    await space.regained();
    await this.#write(waiting);
  }

  /** Runs until the transaction is known to be durable, or to have had no effect. Throws UnknownOutcome if neither is known. */
  async #transaction(work: Work<void>): Promise<void> {
    await this.#database.retrying((server, answered) => this.#attempt(server, answered, work));
  }

  async #attempt(server: number, answered: () => void, work: Work<void>): Promise<void> {
    this.#client ??= await this.#connect(server);
    const client = this.#client;
    const queries: Queries = {
      rows: async ({ name, text }, values = []) => {
        const { rows } = await client.query({ name, text, values: [...values] });
        answered();
        return rows;
      },
    };
    try {
      await this.#begin(client);
      answered();
      await work(queries);
    } catch (error) {
      // The session of a lost connection ends without a commit. Any other one is used again.
      if (isLost(error) || !(await isRolledBack(client))) this.#drop();
      throw error;
    }
    await this.#commit();
  }

  async #connect(server: number): Promise<Client> {
    const { urls, password } = this.#database.location;
    const config = clientConfig(urls[server] ?? '', password);
    // Without a time limit of the server: it would also end the wait of a COMMIT for standbys, and report that as success.
    const client = new Client({
      ...config,
      query_timeout: this.#database.answerMsMax(STATEMENT_MS_MAX),
      pipeline: true,
    });
    client.on('error', () => {
      if (this.#client === client) this.#client = undefined;
    });
    try {
      await client.connect();
      await begin(client, { statementMsMax: 0, fence: this.#turn?.fence });
      // If no standby answers, the first COMMIT that waits for one is the last that is begun, and keeps its connection.
      if (this.#turn === undefined) await commitBarrier(client, this.#database.answerMsMax(COMMIT_MS_MAX));
    } catch (error) {
      client.end().catch(() => {});
      throw error;
    }
    return client;
  }

  /**
   * Also holds off take-overs until the transaction ends. Nothing is sent before the answer: if the server refuses to begin a transaction,
   * each of the following statements would be one of its own.
   */
  async #begin(client: Client): Promise<void> {
    if (this.#turn === undefined) {
      await client.query('BEGIN');
      return;
    }
    const [, held] = (await client.query(
      'BEGIN; SELECT fence FROM pdfseal.sequencer FOR SHARE',
    )) as unknown as { rows: { fence: string }[] }[];
    if (held?.rows[0]?.fence !== this.#turn.fence) throw new Superseded();
  }

  async #commit(): Promise<void> {
    const client = this.#client;
    if (client === undefined) throw new Error('Connection ended'); // Before a COMMIT: it can be repeated.
    this.#settled();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#settled = resolve;
    this.#database.tellAfter(promise);
    try {
      await commitForSure(client, this.#database.answerMsMax(COMMIT_MS_MAX));
    } catch (error) {
      const isAnswer = /^[0-9A-Z]{5}$/.test((error as { code?: string }).code ?? '');
      // Without space for its write-ahead log, the server reports the same while it crashes, and may have written the commit to it before.
      const isRefused = isAnswer && !isLost(error) && !isDiskFull(error);
      this.#drop();
      throw isRefused || error instanceof UnknownOutcome ? error : new UnknownOutcome(error);
    }
  }

  #drop(): void {
    const client = this.#client;
    this.#client = undefined;
    client?.end().catch(() => {});
  }

  #break(error: unknown, group: Pending[]): void {
    const failure = this.#database.fail(error);
    const lost = [...group, ...this.#pending];
    this.#pending = [];
    for (const { reject } of lost) reject(failure);
  }
}

/** A violation of the database's own rules (class 23) contradicts the program, like a failed assertion. */
function asInvariant(error: unknown): unknown {
  const { code = '', message = '' } = error as { code?: string; message?: string };
  return /^23/.test(code) ? new BrokenInvariant(message) : error;
}

async function isRolledBack(client: Client): Promise<boolean> {
  try {
    await client.query('ROLLBACK');
    return true;
  } catch {
    return false;
  }
}
