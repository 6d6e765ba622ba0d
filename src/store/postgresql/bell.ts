import type { Client } from 'pg';
import type { Database } from './database.ts';
import { begin, clientOf } from './pgSession.ts';

/** What there is to hear: a front accepted jobs; the sealing daemon ended some. */
export type Ring = 'pdfseal_accepted' | 'pdfseal_ended';

/** What nodes say to all others. */
const SAYINGS = 'pdfseal_nodes';

/**
 * How many notifications of one channel are heard in a window. Each node says something every second, and 100 of them are known at most; more
 * rings than half of this are no use, as each look takes what there is. Anybody who may connect to the database can send any number.
 */
const PACE = { heardMax: 200, windowMs: 1_000, pauseMs: 10_000, pollMs: 50 };

interface Channel {
  readonly name: Ring | typeof SAYINGS;
  /** In the window that began then, by the monotonic clock. */
  heard: number;
  beganAtMs: number;
  /** In this window, a pause ended. */
  isResumed?: boolean;
  /** Ends a pause, in which the server sends nothing of this channel. */
  pause?: NodeJS.Timeout | undefined;
}

const AGAIN_MS = 1_000;
const ANSWER_MS_MAX = 5_000;

/**
 * Tells other processes that there is something to look for, and hears it from them, on one connection. It is a hint only. It is sent outside of the
 * transaction that it is about: a transaction with a NOTIFY holds off the commits of all others until standbys have it.
 */
export class Bell {
  readonly #database: Database;
  readonly #pace: typeof PACE;
  readonly #rings: Channel;
  readonly #sayings: Channel = { name: SAYINGS, heard: 0, beganAtMs: 0 };
  readonly #listeners: (() => void)[] = [];
  #onSaid: (text: string) => void = () => {};
  #onFlood: () => void = () => {};
  #poll: NodeJS.Timeout | undefined;
  #client: Client | undefined;
  #timer: NodeJS.Timeout | undefined;
  #ringing: Ring | undefined;
  #isRinging = false;
  #isClosed = false;

  constructor(database: Database, hears: Ring, pace = PACE) {
    this.#database = database;
    this.#pace = pace;
    this.#rings = { name: hears, heard: 0, beganAtMs: 0 };
    void this.#connect();
  }

  onRing(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** Calls back with what any process says, this one included. */
  onSaid(listener: (text: string) => void): void {
    this.#onSaid = listener;
  }

  /** Calls back when more is said than nodes say, once while that lasts. Then, nothing of it is heard for seconds at a time. */
  onFlood(listener: () => void): void {
    this.#onFlood = listener;
    if (this.#sayings.pause !== undefined) listener();
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
    this.#endPauses();
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
      if (channel !== SAYINGS) this.#receive(this.#rings, client, () => this.#hear());
      else this.#receive(this.#sayings, client, () => this.#onSaid(payload));
    });
    client.on('end', () => this.#again());
    try {
      await client.connect();
      await begin(client, { statementMsMax: 0 });
      // Whoever sends a NOTIFY holds off all others until its commit is done. A hint waits for no disk and no standby.
      await client.query(`SET synchronous_commit = off; LISTEN ${this.#rings.name}; LISTEN ${SAYINGS}`);
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
    this.#endPauses();
    if (!this.#isClosed) this.#timer = setTimeout(() => void this.#connect(), AGAIN_MS).unref();
  }

  #receive(channel: Channel, client: Client, take: () => void): void {
    if (channel.pause !== undefined) return; // The server sent it before it was asked to stop.
    const { heardMax, windowMs } = this.#pace;
    const now = performance.now();
    if (now - channel.beganAtMs >= windowMs)
      Object.assign(channel, { heard: 0, beganAtMs: now, isResumed: false });
    channel.heard += 1;
    if (channel.heard > heardMax) this.#pause(channel, client);
    else take();
  }

  /** Without this, one process that may connect could keep all others busy. Rings are hints: meanwhile, listeners look by themselves. */
  #pause(channel: Channel, client: Client): void {
    const { pauseMs, pollMs } = this.#pace;
    channel.pause = setTimeout(() => this.#resume(channel, client), pauseMs).unref();
    if (channel === this.#rings) this.#poll = setInterval(() => this.#hear(), pollMs).unref();
    else if (!channel.isResumed) this.#onFlood();
    client.query(`UNLISTEN ${channel.name}`).catch(() => client.end().catch(() => {}));
  }

  #resume(channel: Channel, client: Client): void {
    client
      .query(`LISTEN ${channel.name}`)
      .then(() => {
        Object.assign(channel, { heard: 0, beganAtMs: performance.now(), isResumed: true, pause: undefined });
        if (channel !== this.#rings) return;
        clearInterval(this.#poll);
        this.#hear(); // Whatever was told before.
      })
      .catch(() => client.end().catch(() => {}));
  }

  #endPauses(): void {
    clearInterval(this.#poll);
    for (const channel of [this.#rings, this.#sayings]) {
      clearTimeout(channel.pause);
      channel.pause = undefined;
    }
  }

  #hear(): void {
    for (const listener of this.#listeners) listener();
  }
}
