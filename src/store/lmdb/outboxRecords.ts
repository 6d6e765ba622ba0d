import { newUuid } from '../../base/uuid.ts';
import { emptyTally, type OutboxEntry, type OutboxOptions, SWEEP_ENTRIES_MAX } from '../outboxEntry.ts';
import { encodeRecord, parseRecord } from '../records.ts';
import { StoreError } from '../storeError.ts';
import type {
  DeadLetter,
  Delivery,
  DeliveryPage,
  DeliveryResult,
  EndpointTally,
  OutboxStore,
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

export type OutboxRecords = ReturnType<typeof outboxRecords>;

/**
 * Messages still to be sent, and those that were given up, by endpoint and time. Both are bounded per endpoint: a message that finds the
 * backlog full is a dead letter at once, and one that finds the dead letters full too is dropped and counted. So a dead endpoint costs
 * sealing less and less.
 */
export function outboxRecords(
  databases: Databases,
  commits: Commits,
  endpoints: EndpointRecords,
  options: OutboxOptions,
) {
  const counts = new Tallies(databases, commits);
  let whoListens: (endpointIds: readonly string[]) => void = () => {};

  /** Performs the write that ends these jobs, and queues in the same transaction the messages to their clients. */
  async function tell(
    type: WebhookEvent,
    occurredAt: number,
    jobs: readonly { key: Uint8Array; clientId: string }[],
    { unless = [], changes }: Write,
  ): Promise<boolean> {
    const listening = endpoints.current().listening[type];
    if (listening.size === 0) return commits.write({ unless, changes });
    const queued = queue({ type, occurredAt, attempts: 0 }, jobs, listening);
    let happened = false;
    try {
      happened = await commits.write({ unless, changes: [...changes, ...queued.changes] });
    } finally {
      queued.settled(happened);
    }
    return happened;
  }

  function queue(
    entry: OutboxEntry,
    jobs: readonly { key: Uint8Array; clientId: string }[],
    listening: ReadonlyMap<string, readonly WebhookEndpoint[]>,
  ): Queued {
    const now = options.serviceTime.now();
    const value = encodeRecord(entry);
    const changes: Change[] = [];
    const told = new Set<WebhookEndpoint>();
    const counting = new Counting();
    const dropping = new Set<Channel>();
    for (const { key, clientId } of jobs) {
      for (const endpoint of listening.get(clientId) ?? []) {
        const channel = counts.of(endpoint);
        counting.on(channel);
        if (channel.tally.pending < options.backlogMax) {
          channel.tally.pending += 1;
          changes.push({ database: databases.outbox, key: deliveryKey(channel.key, now, key), value });
          told.add(endpoint);
        } else if (channel.tally.deadLetters < options.backlogMax) {
          changes.push(bury(channel, now, key, { ...entry, death: 'backlog_full' }));
        } else {
          drop(channel.tally, entry.occurredAt);
          dropping.add(channel);
        }
      }
    }
    for (const channel of dropping) changes.push(counts.change(channel));
    const counted = counting.end();
    const settled = (happened: boolean) => {
      counted(happened);
      if (happened) whoListens([...told].map(({ id }) => id));
    };
    return { changes, settled };
  }

  async function readTally(endpointId: string): Promise<EndpointTally> {
    const endpoint = endpointOf(endpointId);
    return endpoint === undefined ? emptyTally() : { ...counts.of(endpoint).tally };
  }

  function endpointOf(endpointId: string): WebhookEndpoint | undefined {
    return endpoints.current().byId.get(endpointId);
  }

  function list(
    database: NamedDatabase,
    endpointId: string,
    { limit, after }: DeliveryPage,
  ): (Delivery | DeadLetter)[] {
    const prefix = idKey('we', endpointId);
    if (prefix === undefined) return [];
    databases.root.resetReadTxn();
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

  /** The changes after a failed delivery. */
  function again(
    channel: Channel,
    message: Uint8Array,
    { type, occurredAt, attempts }: Delivery,
    result: Exclude<DeliveryResult, { kind: 'delivered' }>,
  ): Change[] {
    const entry: OutboxEntry = { type, occurredAt, attempts: attempts + 1, failure: result.failure };
    if (result.kind === 'dead') return giveUp(channel, message, { ...entry, death: 'exhausted' });
    channel.tally.pending += 1;
    const key = deliveryKey(channel.key, result.dueAt, message);
    return [{ database: databases.outbox, key, value: encodeRecord(entry) }];
  }

  function giveUp(channel: Channel, message: Uint8Array, entry: OutboxEntry): Change[] {
    if (channel.tally.deadLetters < options.backlogMax) {
      return [bury(channel, options.serviceTime.now(), message, entry)];
    }
    drop(channel.tally, entry.occurredAt);
    return [];
  }

  function bury(channel: Channel, now: number, message: Uint8Array, entry: OutboxEntry): Change {
    channel.tally.deadLetters += 1;
    const key = deliveryKey(channel.key, now, message);
    return { database: databases.deadLetters, key, value: encodeRecord(entry) };
  }

  function raise(endpointId: string, wanted: ReadonlySet<string> | undefined, room: number): Change[] {
    const { outbox, deadLetters } = databases;
    const prefix = ownIdKey('we', endpointId);
    const now = options.serviceTime.now();
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

  /** Entries of removed endpoints: one look-up for each endpoint that has any. */
  function* orphans(database: NamedDatabase, limit: number): Iterable<Change> {
    let found = 0;
    for (let start: Uint8Array = Buffer.alloc(1); found < limit; ) {
      const [first] = database.getKeys({ start, limit: 1 });
      if (first === undefined) return;
      const prefix = Buffer.from(first.subarray(0, ENDPOINT_KEY_BYTES));
      start = endOf(prefix);
      if (endpointOf(`we_${prefix.toString('hex')}`) !== undefined) continue;
      for (const key of database.getKeys({ start: prefix, end: endOf(prefix), limit: limit - found })) {
        found += 1;
        yield { database, key: Buffer.from(key) };
      }
    }
  }

  const store: OutboxStore = {
    onQueued(listener) {
      whoListens = listener;
    },

    pending: async (endpointId, page) => list(databases.outbox, endpointId, page),
    deadLetters: async (endpointId, page) => list(databases.deadLetters, endpointId, page) as DeadLetter[],

    tally: readTally,
    tallies: async (endpointIds) => Promise.all(endpointIds.map((id) => readTally(id))),

    async settle(delivery, result) {
      const endpoint = endpointOf(delivery.endpointId);
      const message = ownIdKey('msg', delivery.webhookId);
      if (endpoint === undefined) return; // Removed meanwhile; its entries are left to the sweep.
      const channel = counts.of(endpoint);
      const key = deliveryKey(channel.key, delivery.at, message);
      const changes: Change[] = [];
      if (databases.outbox.doesExist(key)) {
        changes.push({ database: databases.outbox, key });
        channel.tally.pending -= 1;
        if (result.kind !== 'delivered') changes.push(...again(channel, message, delivery, result));
      }
      if (result.kind === 'delivered') {
        channel.tally.delivered += 1;
        channel.tally.deliveredAt = options.clock();
      } else {
        channel.tally.failures += 1;
        channel.tally.failure = result.failure;
      }
      await counts.write([channel], [...changes, counts.change(channel)]);
    },

    async test(endpointId) {
      const webhookId = `msg_${newUuid()}`;
      const message = ownIdKey('msg', webhookId);
      const now = options.serviceTime.now();
      const value = encodeRecord({
        type: 'webhook.test',
        occurredAt: options.clock(),
        attempts: 0,
      } satisfies OutboxEntry);
      const queue = () => {
        const prefix = ownIdKey('we', endpointId);
        if (countEntries(databases.outbox, prefix) >= options.backlogMax)
          throw new StoreError({ code: 'backlog_full' });
        const key = deliveryKey(prefix, now, message);
        return [{ database: databases.outbox, key, value }];
      };
      const endpoint = await endpoints.change(endpointId, asItIs, null, queue, true);
      whoListens([endpointId]);
      return endpoint && webhookId;
    },

    async replay(endpointId, webhookIds, act) {
      let replayed = 0;
      const wanted = webhookIds && new Set(webhookIds);
      await endpoints.change(endpointId, asItIs, act, () => {
        const room = options.backlogMax - countEntries(databases.outbox, ownIdKey('we', endpointId));
        const changes = raise(endpointId, wanted, Math.max(room, 0));
        replayed = changes.length / 2;
        return replayed > 0 ? changes : undefined;
      });
      whoListens([endpointId]);
      return replayed;
    },

    async sweep({ dueBefore, diedBefore }) {
      const { outbox, deadLetters, tallies } = databases;
      const changes: Change[] = [];
      const channels: Channel[] = [];
      counts.forgetUnless((id) => endpointOf(id) !== undefined);
      const room = () => SWEEP_ENTRIES_MAX - changes.length;
      for (const endpoint of endpoints.current().byId.values()) {
        const prefix = ownIdKey('we', endpoint.id);
        const forgotten = Array.from(before(deadLetters, prefix, diedBefore, room()));
        const overdue = Array.from(before(outbox, prefix, dueBefore, room() - forgotten.length));
        if (forgotten.length + overdue.length === 0) continue;
        const channel = counts.of(endpoint);
        for (const { key } of forgotten) changes.push({ database: deadLetters, key });
        channel.tally.deadLetters -= forgotten.length;
        for (const { key, value } of overdue) {
          const entry: OutboxEntry = { ...parseRecord<OutboxEntry>(value), death: 'overdue' };
          changes.push({ database: outbox, key }, ...giveUp(channel, key.subarray(-MESSAGE_BYTES), entry));
        }
        channel.tally.pending -= overdue.length;
        channels.push(channel);
        changes.push(counts.change(channel));
      }
      for (const database of [outbox, deadLetters, tallies]) changes.push(...orphans(database, room()));
      if (changes.length > 0) await counts.write(channels, changes);
      return changes.length;
    },
  };
  return { ...store, tell };
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
