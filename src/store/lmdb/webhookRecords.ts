import type { Clock } from '../../base/clock.ts';
import type { Act } from '../../manifest/auditRecord.ts';
import type { ServiceTime } from '../serviceTime.ts';
import type {
  DeadLetter,
  Delivery,
  DeliveryPage,
  DeliveryResult,
  NewEndpoint,
  SweepBounds,
  Tally,
  WebhookEndpoint,
  WebhookEvent,
  WebhookStore,
} from '../webhookStore.ts';
import type { Commits } from './commits.ts';
import type { Databases } from './databases.ts';
import { Endpoints } from './endpointRecords.ts';
import { Outbox } from './outbox.ts';
import type { TrailRecords } from './trailRecords.ts';

/** The part of the embedded store that webhooks need. */
export class LmdbWebhooks implements WebhookStore {
  /** For the transactions that end a job. */
  readonly outbox: Outbox;
  readonly #commits: Commits;
  readonly #endpoints: Endpoints;

  constructor(
    databases: Databases,
    commits: Commits,
    trail: TrailRecords,
    options: { clock: Clock; serviceTime: ServiceTime; backlogMax: number },
  ) {
    this.#commits = commits;
    this.#endpoints = new Endpoints(databases, trail);
    this.outbox = new Outbox(databases, commits, this.#endpoints, options);
  }

  async endpoints(clientId?: string): Promise<WebhookEndpoint[]> {
    const all = this.#intact(this.#endpoints).all();
    return clientId === undefined ? all : all.filter((endpoint) => endpoint.clientId === clientId);
  }

  async endpoint(endpointId: string): Promise<WebhookEndpoint | undefined> {
    return this.#intact(this.#endpoints).get(endpointId);
  }

  async revision(): Promise<number> {
    return this.#intact(this.#endpoints).revision;
  }

  async addEndpoint(endpoint: NewEndpoint, perClientMax: number, act: Act | null): Promise<boolean> {
    return this.#intact(this.#endpoints).add(endpoint, perClientMax, act);
  }

  async changeEndpoint(
    endpointId: string,
    change: (current: WebhookEndpoint) => NewEndpoint,
    act: Act | null,
  ): Promise<WebhookEndpoint | undefined> {
    return this.#intact(this.#endpoints).change(endpointId, change, act);
  }

  async removeEndpoint(endpointId: string, act: Act | null): Promise<boolean> {
    return this.#intact(this.#endpoints).remove(endpointId, act);
  }

  async isListening(clientId: string, event: WebhookEvent): Promise<boolean> {
    return this.#intact(this.#endpoints).listening(event).has(clientId);
  }

  async pending(endpointId: string, page: DeliveryPage): Promise<Delivery[]> {
    return this.#intact(this.outbox).pending(endpointId, page);
  }

  async deadLetters(endpointId: string, page: DeliveryPage): Promise<DeadLetter[]> {
    return this.#intact(this.outbox).deadLetters(endpointId, page);
  }

  async settle(delivery: Delivery, result: DeliveryResult): Promise<void> {
    return this.#intact(this.outbox).settle(delivery, result);
  }

  async test(endpointId: string): Promise<string | undefined> {
    return this.#intact(this.outbox).test(endpointId);
  }

  async replay(
    endpointId: string,
    webhookIds: readonly string[] | undefined,
    act: Act | null,
  ): Promise<number> {
    return this.#intact(this.outbox).replay(endpointId, webhookIds, act);
  }

  async sweep(bounds: SweepBounds): Promise<number> {
    return this.#intact(this.outbox).sweep(bounds);
  }

  async tally(endpointId: string): Promise<Tally> {
    return this.#intact(this.outbox).tally(endpointId);
  }

  onQueued(listener: (endpointIds: readonly string[]) => void): void {
    this.outbox.onQueued(listener);
  }

  #intact<Part>(part: Part): Part {
    this.#commits.assertIntact();
    return part;
  }
}
