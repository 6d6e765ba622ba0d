import { assert } from '../../base/assert.ts';
import type { Act } from '../../manifest/auditRecord.ts';
import type { NewEndpoint, WebhookEndpoint, WebhookEvent } from '../webhookStore.ts';
import type { Change } from './commits.ts';
import type { Databases } from './databases.ts';
import { COUNTER_BYTES, counterKey, endpointKey, NOTHING, parseCounterKey } from './keyLayout.ts';
import { encodeRecord, parseRecord } from './records.ts';
import type { TrailRecords } from './trailRecords.ts';

/** How many changes may be made between a change's decision and its commit without it being told apart from none. */
export const REVISIONS_KEPT = 1000;

interface Snapshot {
  revision: number;
  byId: Map<string, WebhookEndpoint>;
  listening: Record<WebhookEvent, Map<string, WebhookEndpoint[]>>;
}

/**
 * Webhook endpoints, kept in memory: sealing asks for them with every batch. Every change, of any process, takes the next
 * revision. So a look for that one key tells whether memory is still right; and of two changes decided on the same state only one finds it free.
 */
export class Endpoints {
  readonly #databases: Databases;
  readonly #trail: TrailRecords;
  #snapshot: Snapshot | undefined;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(databases: Databases, trail: TrailRecords) {
    this.#databases = databases;
    this.#trail = trail;
  }

  get revision(): number {
    return this.#current().revision;
  }

  all(): WebhookEndpoint[] {
    return [...this.#current().byId.values()];
  }

  get(endpointId: string): WebhookEndpoint | undefined {
    return this.#current().byId.get(endpointId);
  }

  /** The enabled endpoints that are told of such an event, by client. */
  listening(event: WebhookEvent): ReadonlyMap<string, readonly WebhookEndpoint[]> {
    return this.#current().listening[event];
  }

  async add(endpoint: NewEndpoint, perClientMax: number, act: Act | null): Promise<boolean> {
    return this.#change(act, (revision) => {
      const own = this.all().filter(({ clientId }) => clientId === endpoint.clientId);
      return own.length < perClientMax ? [this.#put({ ...endpoint, revision })] : undefined;
    });
  }

  /** With `also` other changes go into the same transaction. */
  async change(
    endpointId: string,
    change: (current: WebhookEndpoint) => NewEndpoint,
    act: Act | null,
    also: () => Change[] = () => [],
  ): Promise<WebhookEndpoint | undefined> {
    let changed: WebhookEndpoint | undefined;
    const happened = await this.#change(act, (revision) => {
      const current = this.get(endpointId);
      if (current === undefined) return undefined;
      changed = { ...change(current), revision };
      return [this.#put(changed), ...also()];
    });
    return happened ? changed : undefined;
  }

  async remove(endpointId: string, act: Act | null): Promise<boolean> {
    return this.#change(
      act,
      () => this.get(endpointId) && [{ database: this.#databases.endpoints, key: keyOf(endpointId) }],
    );
  }

  /** Changes of this process take turns: decided at once, all but one would find their revision taken, and decide again and again. */
  async #change(act: Act | null, decide: (revision: number) => Change[] | undefined): Promise<boolean> {
    const written = this.#turn.then(() => this.#write(act, decide));
    this.#turn = written.catch(() => {});
    return written;
  }

  /** Writes what `decide` says, or nothing and false; decides anew when another process was faster. */
  async #write(act: Act | null, decide: (revision: number) => Change[] | undefined): Promise<boolean> {
    const { endpointRevisions: database } = this.#databases;
    for (;;) {
      const revision = this.revision + 1;
      const changes = decide(revision);
      if (changes === undefined) return false;
      const key = counterKey(revision);
      const taken = [{ database, key, value: NOTHING }];
      const oldest = Math.max(revision - REVISIONS_KEPT, 0);
      const happened = await this.#trail.write(act, {
        unless: [{ database, key }],
        changes: [...changes, ...taken, { database, key: counterKey(oldest) }],
      });
      if (happened) return true;
    }
  }

  #put(endpoint: WebhookEndpoint): Change {
    return { database: this.#databases.endpoints, key: keyOf(endpoint.id), value: encodeRecord(endpoint) };
  }

  #current(): Snapshot {
    this.#databases.root.resetReadTxn();
    const { endpointRevisions } = this.#databases;
    if (
      this.#snapshot !== undefined &&
      !endpointRevisions.doesExist(counterKey(this.#snapshot.revision + 1))
    ) {
      return this.#snapshot;
    }
    this.#snapshot = this.#read();
    return this.#snapshot;
  }

  #read(): Snapshot {
    const { endpoints, endpointRevisions } = this.#databases;
    const snapshot: Snapshot = {
      revision: 0,
      byId: new Map(),
      listening: { 'job.completed': new Map(), 'job.failed': new Map() },
    };
    for (const key of endpointRevisions.getKeys({ reverse: true })) {
      if (key.length !== COUNTER_BYTES) continue; // Damage, which is no reason to tell nobody anything.
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
}

function keyOf(endpointId: string): Buffer {
  const key = endpointKey(endpointId);
  assert(key !== undefined, `${endpointId} is not an endpoint id of this service`);
  return key;
}
