import { emptyTally } from '../outboxEntry.ts';
import { parseRecord } from '../records.ts';
import type { DeliveryFailure, EndpointTally } from '../webhookStore.ts';
import type { Queries, Query } from './database.ts';
import { uuidOf } from './ids.ts';

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

const READ: Query = {
  name: 'tally',
  text: 'SELECT tallies.* FROM tallies JOIN endpoints ON id = endpoint_id WHERE id = $1',
};

/** How an endpoint fares; empty for one that is not there. */
export async function readTally(queries: Queries, endpointId: string): Promise<EndpointTally> {
  const [row] = await queries.rows<TallyRow>(READ, [uuidOf('we', endpointId)]);
  return row === undefined ? emptyTally() : tallyOf(row);
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
