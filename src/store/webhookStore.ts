import type { Act } from '../manifest/auditRecord.ts';

/** Events that are reported to clients; each job has one of them in the end. */
export const WEBHOOK_EVENTS = ['job.completed', 'job.failed'] as const;
export type WebhookEvent = (typeof WEBHOOK_EVENTS)[number];

/**
 * Endpoints at which clients are notified how their jobs ended. `test/store/webhooks.ts` is the executable form of this contract; the two
 * rules of `Store` hold here too.
 *
 * In a database, another process may change endpoints at any time; the next read and the next batch see it. One process delivers.
 */
export interface WebhookStore {
  readonly endpoints: EndpointStore;
  readonly outbox: OutboxStore;
}

export interface EndpointStore {
  /** All endpoints, or those of a client, oldest first. */
  all(clientId?: string): Promise<WebhookEndpoint[]>;

  get(endpointId: string): Promise<WebhookEndpoint | undefined>;

  /** Rises with every change of an endpoint by any process. Cheap to call. */
  revision(): Promise<number>;

  /** Returns false and writes nothing if the client has `perClientMax` endpoints already. */
  add(endpoint: NewEndpoint, perClientMax: number, act: Act | null): Promise<boolean>;

  /**
   * Replaces the endpoint by the result of `change` on its newest state, and returns it; the revision rises even if nothing else differs.
   * If `change` returns undefined, the endpoint stays as it is, and nothing is recorded. Undefined if there is no such endpoint.
   */
  change(
    endpointId: string,
    change: (current: WebhookEndpoint) => NewEndpoint | undefined,
    act: Act | null,
  ): Promise<WebhookEndpoint | undefined>;

  /**
   * Returns false if there is no such endpoint. A later {@link OutboxStore.sweep} removes the messages that were still to be sent to it.
   */
  remove(endpointId: string, act: Act | null): Promise<boolean>;

  /** Whether an endpoint would be notified if a job of this client ended now. */
  isListening(clientId: string, event: WebhookEvent): Promise<boolean>;
}

/** Messages still to be sent to endpoints, and those that were given up. */
export interface OutboxStore {
  /** Messages to be sent to an endpoint, in the order they are due, after `after` (exclusive). */
  pending(endpointId: string, page: DeliveryPage): Promise<Delivery[]>;

  /** Messages that were given up, the oldest first, after `after` (exclusive). */
  deadLetters(endpointId: string, page: DeliveryPage): Promise<DeadLetter[]>;

  /** One transaction: a pending delivery is sent, is due again, or is given up. */
  settle(delivery: Delivery, result: DeliveryResult): Promise<void>;

  /**
   * Queues a message of type `webhook.test`; returns its `webhook-id`, or undefined if there is no such endpoint. Throws StoreError
   * `backlog_full` if the backlog is full.
   */
  test(endpointId: string): Promise<string | undefined>;

  /**
   * Queues dead letters again, from the first attempt and under their old `webhook-id`: the named ones, or all; as many as the backlog
   * takes. Returns their number; 0 changes and records nothing.
   */
  replay(endpointId: string, webhookIds: readonly string[] | undefined, act: Act | null): Promise<number>;

  /**
   * Gives up messages due before `dueBefore`, removes those given up before `diedBefore` and everything that belongs to removed endpoints.
   * Bounded; returns the number of changed entries, 0 if there are none left.
   */
  sweep(bounds: SweepBounds): Promise<number>;

  /** Empty for an endpoint that does not exist. */
  tally(endpointId: string): Promise<EndpointTally>;

  /** Tallies of several endpoints, in their order, read at once. */
  tallies(endpointIds: readonly string[]): Promise<EndpointTally[]>;

  /** The listener is called, in this process, with the endpoints for which a durable write queued something. */
  onQueued(listener: (endpointIds: readonly string[]) => void): void;
}

/** A target for messages, with its events. Immutable: a change makes a new one, under the next revision. */
export interface WebhookEndpoint {
  /** `we_` and a UUIDv7 without dashes. */
  id: string;
  clientId: string;
  url: string;
  events: WebhookEvent[];
  description?: string;
  /** The newest first; each signs until it expires. */
  secrets: WebhookSecret[];
  createdAt: number;
  /** Set while nothing is sent or queued: on request, or because it answered 410. */
  disabled?: { at: number; reason: 'request' | 'gone' };
  /** Revision of the store at this endpoint's last change. */
  revision: number;
}

export type NewEndpoint = Omit<WebhookEndpoint, 'revision'>;

export interface WebhookSecret {
  /** `whsec_` and Base64. */
  secret: string;
  expiresAt?: number;
}

export interface Delivery {
  endpointId: string;
  /** `msg_` and 32 hex characters: those of the job's id, so that they are the same whatever crashes. */
  webhookId: string;
  type: WebhookEvent | 'webhook.test';
  /** Time of the event, milliseconds since the epoch. */
  occurredAt: number;
  /** Time at which it is due, or (of a dead letter) was given up, in service time. */
  at: number;
  /** Number of attempts so far. */
  attempts: number;
  failure?: DeliveryFailure;
}

/** The reason why the last attempt failed: `http_<status>`, or the fault before there was a status. */
export interface DeliveryFailure {
  at: number;
  reason: string;
}

export const DEATHS = ['exhausted', 'overdue', 'backlog_full'] as const;

export interface DeadLetter extends Delivery {
  /** `exhausted`: every attempt failed. `overdue`: it could not be tried for too long. `backlog_full`: it was never queued. */
  death: (typeof DEATHS)[number];
}

export type DeliveryResult =
  | { kind: 'delivered' }
  | { kind: 'retry' /** In service time. */; dueAt: number; failure: DeliveryFailure }
  | { kind: 'dead'; failure: DeliveryFailure };

export interface DeliveryPage {
  limit: number;
  /** `at` and `webhookId` of the last one seen. */
  after?: Pick<Delivery, 'at' | 'webhookId'>;
}

/** In service time, exclusive. */
export interface SweepBounds {
  dueBefore: number;
  diedBefore: number;
}

/** Delivery statistics of an endpoint. Counts of stored messages may lag behind by a batch. */
export interface EndpointTally {
  pending: number;
  deadLetters: number;
  delivered: number;
  /** Number of failed attempts. */
  failures: number;
  /**
   * Number of messages that found backlog and dead letters full, and were dropped; `droppedFrom` and `droppedTo` are when the first and
   * last of them occurred.
   */
  dropped: number;
  droppedFrom?: number;
  droppedTo?: number;
  deliveredAt?: number;
  failure?: DeliveryFailure;
}
