import { oneAtATime } from '../../base/serially.ts';
import type { Act } from '../../manifest/auditRecord.ts';
import { isRefusable } from '../acts.ts';
import { encodeRecord, parseRecord } from '../records.ts';
import type { EndpointStore, NewEndpoint, WebhookEndpoint, WebhookEvent } from '../webhookStore.ts';
import type { Change } from './commits.ts';
import type { Databases } from './databases.ts';
import { COUNTER_BYTES, counterKey, NOTHING, ownIdKey, parseCounterKey } from './keyLayout.ts';
import type { TrailRecords } from './trailRecords.ts';

/** The store has an entry for each of the newest revisions. */
export const REVISIONS_KEPT = 1000;

interface Snapshot {
  revision: number;
  byId: Map<string, WebhookEndpoint>;
  /** The enabled endpoints that receive each event, by client. */
  listening: Record<WebhookEvent, Map<string, WebhookEndpoint[]>>;
}

export type EndpointRecords = ReturnType<typeof endpointRecords>;

/**
 * Webhook endpoints, kept in memory: sealing needs them with every batch. Only the daemon changes them, or a command while no daemon runs.
 * Every change takes the next revision.
 */
export function endpointRecords(databases: Databases, trail: TrailRecords) {
  let known: Snapshot | undefined;
  const serially = oneAtATime();

  /**
   * The changes of `also` go into the same transaction; if it returns undefined, nothing is changed. `isRefused`: see
   * {@link TrailRecords.write}.
   */
  async function change(
    endpointId: string,
    change: (current: WebhookEndpoint) => NewEndpoint | undefined,
    act: Act | null,
    also: () => Change[] | undefined = () => [],
    isRefused = isRefusable(act),
  ): Promise<WebhookEndpoint | undefined> {
    let found: WebhookEndpoint | undefined;
    const decide = (revision: number) => {
      found = current().byId.get(endpointId);
      const next = found && change(found);
      const others = next && also();
      if (next === undefined || others === undefined) return undefined;
      found = { ...next, revision };
      return [put(found), ...others];
    };
    await changeSerially(act, decide, isRefused);
    return found;
  }

  /** Writes the changes that `decide` returns; returns false if there are none. Each change is decided on the state that the one before left. */
  async function changeSerially(
    act: Act | null,
    decide: (revision: number) => Change[] | undefined,
    isRefused = isRefusable(act),
  ): Promise<boolean> {
    if (isRefused) trail.admit();
    return serially(async () => {
      const { endpointRevisions: database } = databases;
      const revision = current().revision + 1;
      const changes = decide(revision);
      if (changes === undefined) return false;
      const taken = { database, key: counterKey(revision), value: NOTHING };
      const outdated = { database, key: counterKey(Math.max(revision - REVISIONS_KEPT, 0)) };
      await trail.write(act, { changes: [...changes, taken, outdated], isRefusable: isRefused });
      known = undefined;
      return true;
    });
  }

  function put(endpoint: WebhookEndpoint): Change {
    return {
      database: databases.endpoints,
      key: ownIdKey('we', endpoint.id),
      value: encodeRecord(endpoint),
    };
  }

  function current(): Snapshot {
    known ??= readAll();
    return known;
  }

  function readAll(): Snapshot {
    databases.root.resetReadTxn();
    const { endpoints, endpointRevisions } = databases;
    const snapshot: Snapshot = {
      revision: 0,
      byId: new Map(),
      listening: { 'job.completed': new Map(), 'job.failed': new Map() },
    };
    for (const key of endpointRevisions.getKeys({ reverse: true })) {
      if (key.length !== COUNTER_BYTES) continue; // This entry is damaged, which must not prevent messages about others.
      snapshot.revision = parseCounterKey(key);
      break;
    }
    for (const { value } of endpoints.getRange({})) {
      const endpoint = parseRecord<WebhookEndpoint>(value);
      snapshot.byId.set(endpoint.id, endpoint);
      if (endpoint.disabled !== undefined) continue;
      for (const event of endpoint.events) {
        const map = snapshot.listening[event];
        map.set(endpoint.clientId, [...(map.get(endpoint.clientId) ?? []), endpoint]);
      }
    }
    return snapshot;
  }

  const store: Omit<EndpointStore, 'change'> = {
    async all(clientId) {
      const all = [...current().byId.values()];
      return clientId === undefined ? all : all.filter((endpoint) => endpoint.clientId === clientId);
    },

    get: async (endpointId) => current().byId.get(endpointId),
    revision: async () => current().revision,
    isListening: async (clientId, event) => current().listening[event].has(clientId),

    async add(endpoint, perClientMax, act) {
      return changeSerially(act, (revision) => {
        const endpoints = [...current().byId.values()];
        const own = endpoints.filter(({ clientId }) => clientId === endpoint.clientId);
        return own.length < perClientMax ? [put({ ...endpoint, revision })] : undefined;
      });
    },

    async remove(endpointId, act) {
      return changeSerially(
        act,
        () =>
          current().byId.get(endpointId) && [
            { database: databases.endpoints, key: ownIdKey('we', endpointId) },
          ],
      );
    },
  };
  return { ...store, change, current };
}
