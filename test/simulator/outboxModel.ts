import type { JobRecord } from '../../src/job/job.ts';
import type { Store } from '../../src/store/store.ts';
import type {
  DeadLetter,
  Delivery,
  DeliveryResult,
  SweepBounds,
  WebhookEndpoint,
} from '../../src/store/webhookStore.ts';
import { makeJob } from '../support/sealing.ts';
import type { World } from './world.ts';

/** What the deliverer uses of a store, as its contract describes it, on a disk that survives every crash. */
export class OutboxModel {
  readonly endpoints = new Map<string, WebhookEndpoint>();
  readonly pending: Delivery[] = [];
  readonly dead: DeadLetter[] = [];
  /** Whether what could not be tried for too long is given up. */
  isSwept = true;
  readonly #jobs = new Map<string, JobRecord>();
  readonly #world: World;
  #revision = 0;
  /** Of the process that has the store open. */
  #listener: (endpointIds: readonly string[]) => void = () => {};

  constructor(world: World) {
    this.#world = world;
  }

  open(): Pick<Store, 'jobs' | 'webhooks' | 'serviceTime'> {
    const now = () => this.#world.now;
    const store = {
      serviceTime: {
        now,
        since: (stamp = 0) => now() - stamp,
        before: (ms: number) => Math.max(0, now() - ms),
        dateOf: (stamp: number) => stamp,
      },
      jobs: { get: async (id: string) => this.#jobs.get(id) },
      webhooks: {
        endpoints: {
          all: async () => [...this.endpoints.values()],
          revision: async () => this.#revision,
          change: async (id: string, change: (current: WebhookEndpoint) => WebhookEndpoint | undefined) =>
            this.#write(`change of ${id}`, () => {
              const current = this.endpoints.get(id);
              const changed = current && change(current);
              return changed ? this.put(changed) : current;
            }),
        },
        outbox: {
          onQueued: (listener: (endpointIds: readonly string[]) => void) => {
            this.#listener = listener;
          },
          pending: async (id: string, { limit }: { limit: number }) => this.#due(id).slice(0, limit),
          settle: (delivery: Delivery, result: DeliveryResult) =>
            this.#write(`${result.kind} of ${delivery.webhookId}`, () => this.#settle(delivery, result)),
          sweep: async (bounds: SweepBounds) => this.#sweep(bounds),
        },
      },
    };
    return store as unknown as Pick<Store, 'jobs' | 'webhooks' | 'serviceTime'>;
  }

  /** The process has ended. */
  close(): void {
    this.#listener = () => {};
  }

  /** Adds or replaces an endpoint, in any process. */
  put(endpoint: Omit<WebhookEndpoint, 'revision'>): WebhookEndpoint {
    this.#revision += 1;
    const changed = { ...endpoint, revision: this.#revision };
    this.endpoints.set(endpoint.id, changed);
    return changed;
  }

  /** A job of every endpoint's client has ended. Returns the ids of the endpoints that are told. */
  tell(number: number): string[] {
    const digits = String(number).padStart(32, '0');
    const job = makeJob(`job_${digits}`);
    this.#jobs.set(job.id, { job, outcome: { kind: 'sealed', leafIndex: number } });
    const told = [...this.endpoints.values()].filter(({ disabled }) => disabled === undefined);
    const at = this.#world.now;
    for (const { id: endpointId } of told) {
      const type = 'job.completed' as const;
      this.pending.push({ endpointId, webhookId: `msg_${digits}`, type, occurredAt: 0, at, attempts: 0 });
    }
    const ids = told.map(({ id }) => id);
    this.#listener(ids);
    return ids;
  }

  #due(endpointId: string): Delivery[] {
    return this.pending
      .filter((one) => one.endpointId === endpointId)
      .sort((a, b) => a.at - b.at || (a.webhookId < b.webhookId ? -1 : 1));
  }

  #settle({ endpointId, webhookId, at, attempts }: Delivery, result: DeliveryResult): void {
    const isIt = (one: Delivery) =>
      one.endpointId === endpointId && one.webhookId === webhookId && one.at === at;
    const index = this.pending.findIndex(isIt);
    const [settled] = index < 0 ? [] : this.pending.splice(index, 1);
    if (settled === undefined || result.kind === 'delivered') return;
    const { failure } = result;
    const tried = { ...settled, attempts: attempts + 1, failure };
    if (result.kind === 'dead') this.dead.push({ ...tried, death: 'exhausted' });
    else this.pending.push({ ...tried, at: result.dueAt });
  }

  #sweep({ dueBefore }: SweepBounds): number {
    const overdue = this.isSwept ? this.pending.filter(({ at }) => at < dueBefore) : [];
    for (const one of overdue) {
      this.pending.splice(this.pending.indexOf(one), 1);
      this.dead.push({ ...one, death: 'overdue' });
    }
    return overdue.length;
  }

  #write<T>(name: string, apply: () => T): Promise<T> {
    return this.#world.begin('store', name, [['written', apply]], { inOrder: true });
  }
}
