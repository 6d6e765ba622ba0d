import type { Client } from 'pg';
import type { Database } from './database.ts';
import { begin, clientOf } from './pgSession.ts';

/** What there is to hear: a front accepted jobs; the sealing daemon ended some. */
export type Ring = 'pdfseal_accepted' | 'pdfseal_ended';

/** What nodes say to all others. */
const SAYINGS = 'pdfseal_nodes';

const AGAIN_MS = 1_000;
const ANSWER_MS_MAX = 5_000;

/**
 * Tells other processes that there is something to look for, and hears it from them, on one connection. It is a hint only. It is sent outside of the
 * transaction that it is about: a transaction with a NOTIFY holds off the commits of all others until standbys have it.
 */
export class Bell {
  readonly #database: Database;
  readonly #hears: Ring;
  readonly #listeners: (() => void)[] = [];
  #onSaid: (text: string) => void = () => {};
  #client: Client | undefined;
  #timer: NodeJS.Timeout | undefined;
  #ringing: Ring | undefined;
  #isRinging = false;
  #isClosed = false;

  constructor(database: Database, hears: Ring) {
    this.#database = database;
    this.#hears = hears;
    void this.#connect();
  }

  onRing(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** Calls back with what any process says, this one included. */
  onSaid(listener: (text: string) => void): void {
    this.#onSaid = listener;
  }

  /** Whether what is said now is heard. */
  get isConnected(): boolean {
    return this.#client !== undefined;
  }

  /** To all processes that hear; it is lost where there is no connection. At most 7,999 bytes. */
  say(text: string): void {
    const client = this.#client;
    client?.query('SELECT pg_notify($1, $2)', [SAYINGS, text]).catch(() => client.end().catch(() => {}));
  }

  /** Several rings can become one. */
  ring(ring: Ring): void {
    this.#ringing = ring;
    if (!this.#isRinging) void this.#send();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#client?.end().catch(() => {});
  }

  /** Never rejects. */
  async #send(): Promise<void> {
    this.#isRinging = true;
    for (let client = this.#client; client && this.#ringing; client = this.#client) {
      const ring = this.#ringing;
      this.#ringing = undefined;
      await client.query(`NOTIFY ${ring}`).catch(() => client.end().catch(() => {}));
    }
    this.#isRinging = false;
  }

  /** Never rejects: it is tried again when the connection has ended. */
  async #connect(): Promise<void> {
    // What is said does not wait for the answer to what was said before.
    const client = clientOf(this.#database.location, this.#database.current, ANSWER_MS_MAX, {
      pipeline: true,
    });
    client.on('notification', ({ channel, payload = '' }) => {
      if (channel === SAYINGS) this.#onSaid(payload);
      else this.#hear();
    });
    client.on('end', () => this.#again());
    try {
      await client.connect();
      await begin(client, { statementMsMax: 0 });
      // Whoever sends a NOTIFY holds off all others until its commit is done. A hint waits for no disk and no standby.
      await client.query(`SET synchronous_commit = off; LISTEN ${this.#hears}; LISTEN ${SAYINGS}`);
    } catch {
      client.end().catch(() => {});
      return;
    }
    this.#client = client;
    if (this.#isClosed) await client.end().catch(() => {});
    else this.#hear(); // Whatever was told before.
  }

  #again(): void {
    this.#client = undefined;
    clearTimeout(this.#timer);
    if (!this.#isClosed) this.#timer = setTimeout(() => void this.#connect(), AGAIN_MS).unref();
  }

  #hear(): void {
    for (const listener of this.#listeners) listener();
  }
}
