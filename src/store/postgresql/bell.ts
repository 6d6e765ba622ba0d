import type { Client } from 'pg';
import type { Database } from './database.ts';
import { begin, clientOf } from './pgSession.ts';

/** Notifications: a front accepted jobs; the sealing daemon ended some. */
export type Ring = 'pdfseal_accepted' | 'pdfseal_ended';

/** The channel for messages of nodes to all others. */
const SAYINGS = 'pdfseal_nodes';

/**
 * Maximum number of notifications of one channel that are read in a window. Each node sends one every second, and at most 100 nodes are
 * known; more rings than half of this are no use, as each look takes all that there is. Any process that may connect to the database can
 * send any number.
 */
const PACE = { heardMax: 200, windowMs: 1_000, pauseMs: 10_000, pollMs: 50 };

interface Channel {
  readonly name: Ring | typeof SAYINGS;
  /** Number of notifications in the window that began at `beganAtMs`, by the monotonic clock. */
  heard: number;
  beganAtMs: number;
  /** Whether a pause ended in this window. */
  isResumed?: boolean;
  /** Timer that ends a pause, in which the server sends nothing of this channel. */
  pause?: NodeJS.Timeout | undefined;
}

const AGAIN_MS = 1_000;
const ANSWER_MS_MAX = 5_000;

/**
 * Notifies other processes that there is work to look for, and receives their notifications, on one connection. A notification is only a
 * hint. It is sent outside the transaction that it is about: a transaction with a NOTIFY holds off the commits of all others until standbys
 * have it.
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

  /** Calls back with every message of any process, including this one. */
  onSaid(listener: (text: string) => void): void {
    this.#onSaid = listener;
  }

  /** Calls back once when more messages arrive than nodes send. While that lasts, they are ignored for seconds at a time. */
  onFlood(listener: () => void): void {
    this.#onFlood = listener;
    if (this.#sayings.pause !== undefined) listener();
  }

  /** Whether messages are received now. */
  get isConnected(): boolean {
    return this.#client !== undefined;
  }

  /** Sends a message to all listening processes; it is lost without a connection. At most 7,999 bytes. */
  say(text: string): void {
    const client = this.#client;
    client?.query('SELECT pg_notify($1, $2)', [SAYINGS, text]).catch(() => client.end().catch(() => {}));
  }

  /** Sends a notification. Several can become one. */
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

  /** Never rejects: it is tried again after the connection has ended. */
  async #connect(): Promise<void> {
    // A message does not wait for the answer to the previous one.
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
      // A NOTIFY holds off all other senders until its commit is done. A hint waits for no disk and no standby.
      await client.query(`SET synchronous_commit = off; LISTEN ${this.#rings.name}; LISTEN ${SAYINGS}`);
    } catch {
      client.end().catch(() => {});
      return;
    }
    this.#client = client;
    if (this.#isClosed) await client.end().catch(() => {});
    else this.#hear(); // For notifications sent before.
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
        this.#hear(); // For notifications sent before.
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
