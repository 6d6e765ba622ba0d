import { idOf, uuidOf } from '../ids.ts';
import { emptyTally } from '../outboxEntry.ts';
import { parseRecord } from '../records.ts';
import type { DeliveryFailure, EndpointTally } from '../webhookStore.ts';
import { type Queries, statements } from './database.ts';

export interface TallyRow {
  pending: number;
  dead_letters: number;
  delivered: number;
  failures: number;
  dropped: number;
  dropped_from: number | null;
  dropped_to: number | null;
  delivered_at: number | null;
  failure: Buffer | null;
}

const SQL = statements({
  tallies: 'SELECT tallies.* FROM tallies JOIN endpoints ON id = endpoint_id WHERE id = ANY($1::uuid[])',
});

/** Delivery statistics of endpoints, in their order; empty for an endpoint that does not exist. */
export async function readTallies(
  queries: Queries,
  endpointIds: readonly string[],
): Promise<EndpointTally[]> {
  const uuids = endpointIds.flatMap((id) => uuidOf('we', id) ?? []);
  const rows = await queries.rows<TallyRow & { endpoint_id: string }>(SQL.tallies, [uuids]);
  const byId = new Map(rows.map((row) => [idOf('we', row.endpoint_id), tallyOf(row)]));
  return endpointIds.map((id) => byId.get(id) ?? emptyTally());
}

export function tallyOf(row: TallyRow): EndpointTally {
  const { pending, delivered, failures, dropped } = row;
  return {
    pending,
    deadLetters: row.dead_letters,
    delivered,
    failures,
    dropped,
    ...(row.dropped_from !== null && { droppedFrom: row.dropped_from }),
    ...(row.dropped_to !== null && { droppedTo: row.dropped_to }),
    ...(row.delivered_at !== null && { deliveredAt: row.delivered_at }),
    ...(row.failure !== null && { failure: parseRecord<DeliveryFailure>(row.failure) }),
  };
}
