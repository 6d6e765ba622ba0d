import { newUuid } from '../../base/uuid.ts';
import type { Act } from '../../manifest/auditRecord.ts';
import {
  backlogFull,
  emptyTally,
  type OutboxEntry,
  type OutboxOptions,
  SWEEP_ENTRIES_MAX,
} from '../outboxEntry.ts';
import { encodeRecord, parseRecord } from '../records.ts';
import type {
  DeadLetter,
  Delivery,
  DeliveryPage,
  DeliveryResult,
  EndpointTally,
  OutboxStore,
  SweepBounds,
  WebhookEndpoint,
  WebhookEvent,
} from '../webhookStore.ts';
import type { Change, Commits, Write } from './commits.ts';
import type { Databases, NamedDatabase } from './databases.ts';
import type { EndpointRecords } from './endpointRecords.ts';
import { deliveryKey, ENDPOINT_KEY_BYTES, idKey, ownIdKey, parseDeliveryKey } from './keyLayout.ts';
import { type Channel, Counting, countEntries, drop, endOf, Tallies } from './tallies.ts';

/** Changes for a transaction; `settled` must be called once it is known whether the transaction took place. */
interface Queued {
  changes: Change[];
  settled(happened: boolean): void;
}

const MESSAGE_BYTES = 16;

/**
 * What is still to be sent, and what was given up, by endpoint and time. Both are bounded per endpoint: a message that finds the backlog
 * full is a dead letter at once, and one that finds the dead letters full too is dropped and counted. So a dead endpoint costs sealing
 * less and less.
 */
export class Outbox implements OutboxStore {
  readonly #databases: Databases;
  readonly #commits: Commits;
  readonly #endpoints: EndpointRecords;
  readonly #options: OutboxOptions;
  readonly #tallies: Tallies;
  #listener: (endpointIds: readonly string[]) => void = () => {};

  constructor(databases: Databases, commits: Commits, endpoints: EndpointRecords, options: OutboxOptions) {
    this.#databases = databases;
    this.#commits = commits;
    this.#endpoints = endpoints;
    this.#options = options;
    this.#tallies = new Tallies(databases, commits);
  }

  onQueued(listener: (endpointIds: readonly string[]) => void): void {
    this.#listener = listener;
  }

  /** Does the write that ends these jobs, and queues in the same transaction the messages that tell their clients. */
  async tell(
    type: WebhookEvent,
    occurredAt: number,
    jobs: readonly { key: Uint8Array; clientId: string }[],
    { unless = [], changes }: Write,
  ): Promise<boolean> {
    const listening = this.#endpoints.current().listening[type];
    if (listening.size === 0) return this.#commits.write({ unless, changes });
    const queued = this.#queue({ type, occurredAt, attempts: 0 }, jobs, listening);
    let happened = false;
    try {
      happened = await this.#commits.write({ unless, changes: [...changes, ...queued.changes] });
    } finally {
      queued.settled(happened);
    }
    return happened;
  }

  #queue(
    entry: OutboxEntry,
    jobs: readonly { key: Uint8Array; clientId: string }[],
    listening: ReadonlyMap<string, readonly WebhookEndpoint[]>,
  ): Queued {
    const now = this.#options.serviceTime.now();
    const value = encodeRecord(entry);
    const changes: Change[] = [];
    const told = new Set<WebhookEndpoint>();
    const counting = new Counting();
    const dropping = new Set<Channel>();
    for (const { key, clientId } of jobs) {
      for (const endpoint of listening.get(clientId) ?? []) {
        const channel = this.#tallies.of(endpoint);
        counting.on(channel);
        if (channel.tally.pending < this.#options.backlogMax) {
          channel.tally.pending += 1;
          changes.push({ database: this.#databases.outbox, key: deliveryKey(channel.key, now, key), value });
          told.add(endpoint);
        } else if (channel.tally.deadLetters < this.#options.backlogMax) {
          changes.push(this.#bury(channel, now, key, { ...entry, death: 'backlog_full' }));
        } else {
          drop(channel.tally, entry.occurredAt);
          dropping.add(channel);
        }
      }
    }
    for (const channel of dropping) changes.push(this.#tallies.change(channel));
    const counted = counting.end();
    const settled = (happened: boolean) => {
      counted(happened);
      if (happened) this.#listener([...told].map(({ id }) => id));
    };
    return { changes, settled };
  }

  async pending(endpointId: string, page: DeliveryPage): Promise<Delivery[]> {
    return this.#list(this.#databases.outbox, endpointId, page);
  }

  async deadLetters(endpointId: string, page: DeliveryPage): Promise<DeadLetter[]> {
    return this.#list(this.#databases.deadLetters, endpointId, page) as DeadLetter[];
  }

  async tally(endpointId: string): Promise<EndpointTally> {
    const endpoint = this.#endpoint(endpointId);
    return endpoint === undefined ? emptyTally() : { ...this.#tallies.of(endpoint).tally };
  }

  async tallies(endpointIds: readonly string[]): Promise<EndpointTally[]> {
    return Promise.all(endpointIds.map((id) => this.tally(id)));
  }

  async settle(delivery: Delivery, result: DeliveryResult): Promise<void> {
    const endpoint = this.#endpoint(delivery.endpointId);
    const message = ownIdKey('msg', delivery.webhookId);
    if (endpoint === undefined) return; // Removed meanwhile; its entries go with the sweep.
    const channel = this.#tallies.of(endpoint);
    const key = deliveryKey(channel.key, delivery.at, message);
    const changes: Change[] = [];
    if (this.#databases.outbox.doesExist(key)) {
      changes.push({ database: this.#databases.outbox, key });
      channel.tally.pending -= 1;
      if (result.kind !== 'delivered') changes.push(...this.#again(channel, message, delivery, result));
    }
    if (result.kind === 'delivered') {
      channel.tally.delivered += 1;
      channel.tally.deliveredAt = this.#options.clock();
    } else {
      channel.tally.failures += 1;
      channel.tally.failure = result.failure;
    }
    await this.#tallies.write([channel], [...changes, this.#tallies.change(channel)]);
  }

  async test(endpointId: string): Promise<string | undefined> {
    const webhookId = `msg_${newUuid()}`;
    const message = ownIdKey('msg', webhookId);
    const now = this.#options.serviceTime.now();
    const value = encodeRecord({
      type: 'webhook.test',
      occurredAt: this.#options.clock(),
      attempts: 0,
    } satisfies OutboxEntry);
    const endpoint = await this.#endpoints.change(endpointId, asItIs, null, () => {
      const prefix = ownIdKey('we', endpointId);
      if (countEntries(this.#databases.outbox, prefix) >= this.#options.backlogMax) throw backlogFull();
      const key = deliveryKey(prefix, now, message);
      return [{ database: this.#databases.outbox, key, value }];
    });
    this.#listener([endpointId]);
    return endpoint && webhookId;
  }

  async replay(
    endpointId: string,
    webhookIds: readonly string[] | undefined,
    act: Act | null,
  ): Promise<number> {
    let replayed = 0;
    const wanted = webhookIds && new Set(webhookIds);
    await this.#endpoints.change(endpointId, asItIs, act, () => {
      const room =
        this.#options.backlogMax - countEntries(this.#databases.outbox, ownIdKey('we', endpointId));
      const changes = this.#replay(endpointId, wanted, Math.max(room, 0));
      replayed = changes.length / 2;
      return replayed > 0 ? changes : undefined;
    });
    this.#listener([endpointId]);
    return replayed;
  }

  async sweep({ dueBefore, diedBefore }: SweepBounds): Promise<number> {
    const { outbox, deadLetters, tallies } = this.#databases;
    const changes: Change[] = [];
    const channels: Channel[] = [];
    const room = () => SWEEP_ENTRIES_MAX - changes.length;
    for (const endpoint of this.#endpoints.current().byId.values()) {
      const prefix = ownIdKey('we', endpoint.id);
      const forgotten = Array.from(before(deadLetters, prefix, diedBefore, room()));
      const overdue = Array.from(before(outbox, prefix, dueBefore, room() - forgotten.length));
      if (forgotten.length + overdue.length === 0) continue;
      const channel = this.#tallies.of(endpoint);
      for (const { key } of forgotten) changes.push({ database: deadLetters, key });
      channel.tally.deadLetters -= forgotten.length;
      for (const { key, value } of overdue) {
        const entry: OutboxEntry = { ...parseRecord<OutboxEntry>(value), death: 'overdue' };
        changes.push(
          { database: outbox, key },
          ...this.#giveUp(channel, key.subarray(-MESSAGE_BYTES), entry),
        );
      }
      channel.tally.pending -= overdue.length;
      channels.push(channel);
      changes.push(this.#tallies.change(channel));
    }
    for (const database of [outbox, deadLetters, tallies]) changes.push(...this.#orphans(database, room()));
    if (changes.length > 0) await this.#tallies.write(channels, changes);
    return changes.length;
  }

  #endpoint(endpointId: string): WebhookEndpoint | undefined {
    return this.#endpoints.current().byId.get(endpointId);
  }

  #list(
    database: NamedDatabase,
    endpointId: string,
    { limit, after }: DeliveryPage,
  ): (Delivery | DeadLetter)[] {
    const prefix = idKey('we', endpointId);
    if (prefix === undefined) return [];
    this.#databases.root.resetReadTxn();
    const start =
      after === undefined ? prefix : deliveryKey(prefix, after.at, idKey('msg', after.webhookId) ?? prefix);
    const range = database.getRange({
      start,
      exclusiveStart: after !== undefined,
      end: endOf(prefix),
      limit,
    });
    return Array.from(range, ({ key, value }) => ({
      ...parseDeliveryKey(key),
      ...parseRecord<OutboxEntry>(value),
    }));
  }

  /** What becomes of a delivery that failed. */
  #again(
    channel: Channel,
    message: Uint8Array,
    { type, occurredAt, attempts }: Delivery,
    result: Exclude<DeliveryResult, { kind: 'delivered' }>,
  ): Change[] {
    const entry: OutboxEntry = { type, occurredAt, attempts: attempts + 1, failure: result.failure };
    if (result.kind === 'dead') return this.#giveUp(channel, message, { ...entry, death: 'exhausted' });
    channel.tally.pending += 1;
    const key = deliveryKey(channel.key, result.dueAt, message);
    return [{ database: this.#databases.outbox, key, value: encodeRecord(entry) }];
  }

  #giveUp(channel: Channel, message: Uint8Array, entry: OutboxEntry): Change[] {
    if (channel.tally.deadLetters < this.#options.backlogMax) {
      return [this.#bury(channel, this.#options.serviceTime.now(), message, entry)];
    }
    drop(channel.tally, entry.occurredAt);
    return [];
  }

  #bury(channel: Channel, now: number, message: Uint8Array, entry: OutboxEntry): Change {
    channel.tally.deadLetters += 1;
    const key = deliveryKey(channel.key, now, message);
    return { database: this.#databases.deadLetters, key, value: encodeRecord(entry) };
  }

  #replay(endpointId: string, wanted: ReadonlySet<string> | undefined, room: number): Change[] {
    const { outbox, deadLetters } = this.#databases;
    const prefix = ownIdKey('we', endpointId);
    const now = this.#options.serviceTime.now();
    const changes: Change[] = [];
    for (const { key, value } of deadLetters.getRange({ start: prefix, end: endOf(prefix) })) {
      if (changes.length >= 2 * room) break;
      if (wanted !== undefined && !wanted.has(parseDeliveryKey(key).webhookId)) continue;
      const { type, occurredAt } = parseRecord<OutboxEntry>(value);
      const again = encodeRecord({ type, occurredAt, attempts: 0 } satisfies OutboxEntry);
      const message = Buffer.from(key.subarray(-MESSAGE_BYTES));
      changes.push({ database: deadLetters, key: Buffer.from(key) });
      changes.push({ database: outbox, key: deliveryKey(prefix, now, message), value: again });
    }
    return changes;
  }

  /** Entries whose endpoint is no more: one look for each endpoint that has any. */
  *#orphans(database: NamedDatabase, limit: number): Iterable<Change> {
    let found = 0;
    for (let start: Uint8Array = Buffer.alloc(1); found < limit; ) {
      const [first] = database.getKeys({ start, limit: 1 });
      if (first === undefined) return;
      const prefix = Buffer.from(first.subarray(0, ENDPOINT_KEY_BYTES));
      start = endOf(prefix);
      if (this.#endpoint(`we_${prefix.toString('hex')}`) !== undefined) continue;
      for (const key of database.getKeys({ start: prefix, end: endOf(prefix), limit: limit - found })) {
        found += 1;
        yield { database, key: Buffer.from(key) };
      }
    }
  }
}

function asItIs(endpoint: WebhookEndpoint): WebhookEndpoint {
  return endpoint;
}

/** The first entries of an endpoint with a time before that. */
function* before(
  database: NamedDatabase,
  prefix: Uint8Array,
  stamp: number,
  limit: number,
): Iterable<{ key: Buffer; value: Buffer }> {
  if (limit <= 0) return;
  const end = deliveryKey(prefix, stamp, Buffer.alloc(0));
  for (const { key, value } of database.getRange({ start: prefix, end, limit })) {
    yield { key: Buffer.from(key), value };
  }
}
