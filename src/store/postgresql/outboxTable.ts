import { newUuid } from '../../base/uuid.ts';
import { idOf, ownUuid, uuidOf } from '../ids.ts';
import { emptyTally, type OutboxEntry, type OutboxOptions, SWEEP_ENTRIES_MAX } from '../outboxEntry.ts';
import { encodeRecord, parseRecord } from '../records.ts';
import { StoreError } from '../storeError.ts';
import type {
  DeadLetter,
  Delivery,
  DeliveryPage,
  EndpointTally,
  OutboxStore,
  WebhookEvent,
} from '../webhookStore.ts';
import type { Database, Queries, Query } from './database.ts';
import type { EndpointTable } from './endpointTable.ts';
import { OUTBOX_SQL } from './outboxQueries.ts';
import { lockRevision } from './revisions.ts';
import { readTallies } from './tallyTable.ts';
import type { Writes } from './writes.ts';

interface MessageRow {
  message: string;
  record: Buffer;
}

/** A message that is given up: UUIDs of its endpoint and of itself. */
interface Letter {
  endpoint: string;
  message: string;
  entry: OutboxEntry;
}

/** Sorts before every message. */
const FIRST = { at: -1, webhookId: `msg_${'0'.repeat(32)}` };

export type OutboxTable = ReturnType<typeof outboxTable>;

/** Messages still to be sent, and those that were given up, in PostgreSQL. */
export function outboxTable(
  database: Database,
  writes: Writes,
  endpoints: EndpointTable,
  options: OutboxOptions,
) {
  let whoListens: (endpointIds: readonly string[]) => void = () => {};

  /** Queues, in the transaction that ends these jobs, the messages to their clients. Returns the endpoints to {@link wake} after it. */
  async function tell(
    queries: Queries,
    type: WebhookEvent,
    occurredAt: number,
    jobs: readonly { id: string; clientId: string }[],
  ): Promise<string[]> {
    const entry: OutboxEntry = { type, occurredAt, attempts: 0 };
    const told = await queries.rows<{ endpoint_id: string; queued: number; rest: string[] }>(
      OUTBOX_SQL.tell,
      [
        jobs.map(({ id }) => ownUuid('job', id)),
        jobs.map(({ clientId }) => clientId),
        type,
        options.serviceTime.now(),
        encodeRecord(entry),
        options.backlogMax,
      ],
    );
    const full: OutboxEntry = { ...entry, death: 'backlog_full' };
    const letters = told.flatMap(({ endpoint_id: endpoint, rest }) =>
      rest.map((message): Letter => ({ endpoint, message, entry: full })),
    );
    await bury(queries, letters);
    return told.filter(({ queued }) => queued > 0).map(({ endpoint_id }) => idOf('we', endpoint_id));
  }

  /** Call this once the transaction that queued messages for these endpoints is durable. */
  function wake(endpointIds: readonly string[]): void {
    if (endpointIds.length > 0) whoListens(endpointIds);
  }

  async function tallies(endpointIds: readonly string[]): Promise<EndpointTally[]> {
    return readTallies(database, endpointIds);
  }

  async function bury(queries: Queries, letters: readonly Letter[]): Promise<void> {
    if (letters.length === 0) return;
    await queries.rows(OUTBOX_SQL.bury, [
      letters.map(({ endpoint }) => endpoint),
      letters.map(({ message }) => message),
      letters.map(({ entry }) => encodeRecord(entry)),
      letters.map(({ entry }) => entry.occurredAt),
      options.serviceTime.now(),
      options.backlogMax,
    ]);
  }

  async function list(
    query: Query,
    endpointId: string,
    { limit, after = FIRST }: DeliveryPage,
  ): Promise<(Delivery | DeadLetter)[]> {
    const last = uuidOf('msg', after.webhookId) ?? uuidOf('msg', FIRST.webhookId);
    const values = [uuidOf('we', endpointId), after.at, last, limit];
    const rows = await database.rows<MessageRow & { at: number }>(query, values);
    return rows.map(({ at, message, record }) => ({
      endpointId,
      at,
      webhookId: idOf('msg', message),
      ...parseRecord<OutboxEntry>(record),
    }));
  }

  const store: OutboxStore = {
    onQueued(listener) {
      whoListens = listener;
    },

    pending: async (endpointId, page) => list(OUTBOX_SQL.pending, endpointId, page),
    deadLetters: async (endpointId, page) =>
      list(OUTBOX_SQL.dead_letters, endpointId, page) as Promise<DeadLetter[]>,

    async tally(endpointId) {
      const [tally = emptyTally()] = await tallies([endpointId]);
      return tally;
    },
    tallies,

    async settle(delivery, result) {
      const { type, occurredAt, attempts } = delivery;
      const [endpoint, message] = [ownUuid('we', delivery.endpointId), ownUuid('msg', delivery.webhookId)];
      const failure = result.kind === 'delivered' ? undefined : result.failure;
      const entry: OutboxEntry = { type, occurredAt, attempts: attempts + 1, failure };
      await writes.run(async (queries) => {
        const [settled] = await queries.rows<{ was_there: boolean }>(OUTBOX_SQL.settle, [
          endpoint,
          delivery.at,
          message,
          result.kind === 'retry' ? Math.trunc(result.dueAt) : undefined,
          encodeRecord(entry),
          options.clock(),
          failure && encodeRecord(failure),
        ]);
        if (settled?.was_there && result.kind === 'dead')
          await bury(queries, [{ endpoint, message, entry: { ...entry, death: 'exhausted' } }]);
      });
    },

    async test(endpointId) {
      const webhookId = `msg_${newUuid()}`;
      const entry: OutboxEntry = { type: 'webhook.test', occurredAt: options.clock(), attempts: 0 };
      const values = [
        options.serviceTime.now(),
        ownUuid('msg', webhookId),
        encodeRecord(entry),
        options.backlogMax,
      ];
      const queue = async (queries: Queries) => {
        const queued = await queries.rows(OUTBOX_SQL.queue_message, [uuidOf('we', endpointId), ...values]);
        if (queued.length === 0) throw new StoreError({ code: 'backlog_full' });
        return true;
      };
      const endpoint = await endpoints.change(endpointId, (asItIs) => asItIs, null, queue, true);
      whoListens([endpointId]);
      return endpoint && webhookId;
    },

    async replay(endpointId, webhookIds, act) {
      const endpoint = uuidOf('we', endpointId);
      const wanted = webhookIds?.flatMap((id) => uuidOf('msg', id) ?? []);
      let replayed = 0;
      await endpoints.change(
        endpointId,
        (asItIs) => asItIs,
        act,
        async (queries) => {
          const raised = await queries.rows<MessageRow>(OUTBOX_SQL.raise_dead_letters, [
            endpoint,
            wanted,
            options.backlogMax,
          ]);
          const afresh = raised.map(({ record }) => {
            const { type, occurredAt } = parseRecord<OutboxEntry>(record);
            return encodeRecord({ type, occurredAt, attempts: 0 } satisfies OutboxEntry);
          });
          const messages = raised.map(({ message }) => message);
          await queries.rows(OUTBOX_SQL.queue_messages, [
            endpoint,
            options.serviceTime.now(),
            messages,
            afresh,
          ]);
          replayed = raised.length;
          return replayed > 0;
        },
      );
      whoListens([endpointId]);
      return replayed;
    },

    async sweep({ dueBefore, diedBefore }) {
      const work = async (queries: Queries) => {
        await lockRevision(queries, 'endpoints'); // prevents that one is removed meanwhile
        const forgotten = await queries.rows(OUTBOX_SQL.take_forgotten, [diedBefore, SWEEP_ENTRIES_MAX]);
        const room = SWEEP_ENTRIES_MAX - forgotten.length;
        const overdue = await queries.rows<MessageRow & { endpoint_id: string }>(OUTBOX_SQL.take_overdue, [
          dueBefore,
          room,
        ]);
        const letters = overdue.map(({ endpoint_id: endpoint, message, record }): Letter => {
          const entry = parseRecord<OutboxEntry>(record);
          return { endpoint, message, entry: { ...entry, death: 'overdue' } };
        });
        await bury(queries, letters);
        await queries.rows(OUTBOX_SQL.end_tallies);
        return forgotten.length + overdue.length;
      };
      return writes.run(work, { isAlone: true });
    },
  };
  return { ...store, tell, wake };
}
