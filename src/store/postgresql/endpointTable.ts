import type { Act } from '../../manifest/auditRecord.ts';
import { isRefusable } from '../acts.ts';
import { ownUuid, uuidOf } from '../ids.ts';
import { encodeRecord, parseRecord } from '../records.ts';
import type { EndpointStore, NewEndpoint, WebhookEndpoint } from '../webhookStore.ts';
import { type Database, type Queries, statements } from './database.ts';
import { lockRevision, raiseRevision, readRevision } from './revisions.ts';
import { SharedReads } from './sharedReads.ts';
import type { TrailTable } from './trailTable.ts';

const INTERNAL = statements(
  {
    told_clients: 'SELECT client_id, told FROM endpoints WHERE client_id = ANY ($1::text[])',
  },
  { isInternal: true },
);
const SQL = statements({
  endpoints: 'SELECT record FROM endpoints WHERE client_id = coalesce($1, client_id) ORDER BY id',
  endpoint: 'SELECT record FROM endpoints WHERE id = $1',
  count_endpoints: 'SELECT count(*) AS endpoints FROM endpoints WHERE client_id = $1',
  put_endpoint: `INSERT INTO endpoints VALUES ($1, $2, $3, $4)
    ON CONFLICT (id) DO UPDATE SET client_id = excluded.client_id, told = excluded.told, record = excluded.record`,
  begin_tally: 'INSERT INTO tallies (endpoint_id) VALUES ($1)',
  remove_endpoint: 'DELETE FROM endpoints WHERE id = $1 RETURNING id',
});

export type EndpointTable = ReturnType<typeof endpointTable>;

export function endpointTable(database: Database, trail: TrailTable) {
  /** The events that any endpoint of a client receives. */
  const told = new SharedReads(async (clientIds) => {
    const told = new Map<string, string[]>();
    const rows = await database.rows<{ client_id: string; told: string[] }>(INTERNAL.told_clients, [
      clientIds,
    ]);
    for (const row of rows) told.set(row.client_id, [...(told.get(row.client_id) ?? []), ...row.told]);
    return told;
  });

  /** The writes of `also` go into the same transaction; if it returns false, the endpoint stays as it is. `isRefused`: see `acting`. */
  async function change(
    endpointId: string,
    change: (current: WebhookEndpoint) => NewEndpoint | undefined,
    act: Act | null,
    also: (queries: Queries) => Promise<boolean> = async () => true,
    isRefused = isRefusable(act),
  ): Promise<WebhookEndpoint | undefined> {
    let found: WebhookEndpoint | undefined;
    const decide = async (queries: Queries, revision: number) => {
      found = await read(queries, endpointId);
      const next = found && change(found);
      if (next === undefined || !(await also(queries))) return false;
      found = { ...next, revision };
      await put(queries, found);
      return true;
    };
    await changeAny(act, decide, isRefused);
    return found;
  }

  /** Calls `decide` with the next revision, which is taken unless it returns false or undefined. */
  async function changeAny<T>(
    act: Act | null,
    decide: (queries: Queries, revision: number) => Promise<T>,
    isRefused = isRefusable(act),
  ): Promise<T> {
    const work = async (queries: Queries) => {
      const revision = (await lockRevision(queries, 'endpoints')) + 1;
      const decision = await decide(queries, revision);
      if (!decision) return decision;
      await raiseRevision(queries, 'endpoints', revision);
      await trail.record(queries, act);
      return decision;
    };
    return trail.acting(act, work, isRefused);
  }

  const store: Omit<EndpointStore, 'change'> = {
    async all(clientId) {
      const rows = await database.rows<{ record: Buffer }>(SQL.endpoints, [clientId]);
      return rows.map(({ record }) => parseRecord<WebhookEndpoint>(record));
    },

    get: async (endpointId) => read(database, endpointId),
    revision: async () => readRevision(database, 'endpoints'),
    isListening: async (clientId, event) => (await told.get(clientId))?.includes(event) === true,

    async add(endpoint, perClientMax, act) {
      return changeAny(act, async (queries, revision) => {
        const [count] = await queries.rows<{ endpoints: number }>(SQL.count_endpoints, [endpoint.clientId]);
        if (count === undefined || count.endpoints >= perClientMax) return false;
        await put(queries, { ...endpoint, revision });
        await queries.rows(SQL.begin_tally, [ownUuid('we', endpoint.id)]);
        return true;
      });
    },

    async remove(endpointId, act) {
      return changeAny(act, async (queries) => {
        const removed = await queries.rows(SQL.remove_endpoint, [uuidOf('we', endpointId)]);
        return removed.length > 0;
      });
    },
  };
  return { ...store, change };
}

async function read(queries: Queries, endpointId: string): Promise<WebhookEndpoint | undefined> {
  const [row] = await queries.rows<{ record: Buffer }>(SQL.endpoint, [uuidOf('we', endpointId)]);
  return row && parseRecord<WebhookEndpoint>(row.record);
}

async function put(queries: Queries, endpoint: WebhookEndpoint): Promise<void> {
  const { id, clientId, events, disabled } = endpoint;
  const told = disabled === undefined ? events : [];
  await queries.rows(SQL.put_endpoint, [ownUuid('we', id), clientId, told, encodeRecord(endpoint)]);
}
