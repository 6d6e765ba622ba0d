import type { Client } from 'pg';
import type { Database } from './database.ts';
import { begin, clientOf } from './pgSession.ts';

/** Notifications: a front accepted jobs; the sealing daemon ended some. */
export type Notice = 'pdfseal_accepted' | 'pdfseal_ended';

/** The channel for messages of nodes to all others. */
const NODE_CHANNEL = 'pdfseal_nodes';

/**
 * Maximum number of notifications of one channel that are read in a window. Each node sends one every second, and at most 100 nodes are
 * known; more notices than half of this are no use, as each look takes all that there is. Any process that may connect to the database can
 * send any number.
 */
const PACE = { heardMax: 200, windowMs: 1_000, pauseMs: 10_000, pollMs: 50 };

interface Channel {
  readonly name: Notice | typeof NODE_CHANNEL;
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
export class Notifier {
  readonly #database: Database;
  readonly #pace: typeof PACE;
  readonly #notices: Channel;
  readonly #messages: Channel = { name: NODE_CHANNEL, heard: 0, beganAtMs: 0 };
  readonly #listeners: (() => void)[] = [];
  #onMessage: (text: string) => void = () => {};
  #onFlood: () => void = () => {};
  #poll: NodeJS.Timeout | undefined;
  #client: Client | undefined;
  #timer: NodeJS.Timeout | undefined;
  #due: Notice | undefined;
  #isNotifying = false;
  #isClosed = false;

  constructor(database: Database, receives: Notice, pace = PACE) {
    this.#database = database;
    this.#pace = pace;
    this.#notices = { name: receives, heard: 0, beganAtMs: 0 };
    void this.#connect();
  }

  onNotice(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** Calls back with every message of any process, including this one. */
  onMessage(listener: (text: string) => void): void {
    this.#onMessage = listener;
  }

  /** Calls back once when more messages arrive than nodes send. While that lasts, they are ignored for seconds at a time. */
  onFlood(listener: () => void): void {
    this.#onFlood = listener;
    if (this.#messages.pause !== undefined) listener();
  }

  /** Whether messages are received now. */
  get isConnected(): boolean {
    return this.#client !== undefined;
  }

  /** Sends a message to all listening processes; it is lost without a connection. At most 7,999 bytes. */
  send(text: string): void {
    const client = this.#client;
    client?.query('SELECT pg_notify($1, $2)', [NODE_CHANNEL, text]).catch(() => client.end().catch(() => {}));
  }

  /** Sends a notification. Several can become one. */
  notify(notice: Notice): void {
    this.#due = notice;
    if (!this.#isNotifying) void this.#sendDue();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#endPauses();
    await this.#client?.end().catch(() => {});
  }

  /** Never rejects. */
  async #sendDue(): Promise<void> {
    this.#isNotifying = true;
    for (let client = this.#client; client && this.#due; client = this.#client) {
      const notice = this.#due;
      this.#due = undefined;
      await client.query(`NOTIFY ${notice}`).catch(() => client.end().catch(() => {}));
    }
    this.#isNotifying = false;
  }

  /** Never rejects: it is tried again after the connection has ended. */
  async #connect(): Promise<void> {
    // A message does not wait for the answer to the previous one.
    const client = clientOf(this.#database.location, this.#database.current, ANSWER_MS_MAX, {
      pipeline: true,
    });
    client.on('notification', ({ channel, payload = '' }) => {
      if (channel !== NODE_CHANNEL) this.#receive(this.#notices, client, () => this.#call());
      else this.#receive(this.#messages, client, () => this.#onMessage(payload));
    });
    client.on('end', () => this.#again());
    try {
      await client.connect();
      await begin(client, { statementMsMax: 0 });
      // A NOTIFY holds off all other senders until its commit is done. A hint waits for no disk and no standby.
      await client.query(
        `SET synchronous_commit = off; LISTEN ${this.#notices.name}; LISTEN ${NODE_CHANNEL}`,
      );
    } catch {
      client.end().catch(() => {});
      return;
    }
    this.#client = client;
    if (this.#isClosed) await client.end().catch(() => {});
    else this.#call(); // For notifications sent before.
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

  /** Without this, one process that may connect could keep all others busy. Notices are hints: meanwhile, listeners look by themselves. */
  #pause(channel: Channel, client: Client): void {
    const { pauseMs, pollMs } = this.#pace;
    channel.pause = setTimeout(() => this.#resume(channel, client), pauseMs).unref();
    if (channel === this.#notices) this.#poll = setInterval(() => this.#call(), pollMs).unref();
    else if (!channel.isResumed) this.#onFlood();
    client.query(`UNLISTEN ${channel.name}`).catch(() => client.end().catch(() => {}));
  }

  #resume(channel: Channel, client: Client): void {
    client
      .query(`LISTEN ${channel.name}`)
      .then(() => {
        Object.assign(channel, { heard: 0, beganAtMs: performance.now(), isResumed: true, pause: undefined });
        if (channel !== this.#notices) return;
        clearInterval(this.#poll);
        this.#call(); // For notifications sent before.
      })
      .catch(() => client.end().catch(() => {}));
  }

  #endPauses(): void {
    clearInterval(this.#poll);
    for (const channel of [this.#notices, this.#messages]) {
      clearTimeout(channel.pause);
      channel.pause = undefined;
    }
  }

  #call(): void {
    for (const listener of this.#listeners) listener();
  }
}
