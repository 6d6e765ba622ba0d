import type { Act } from '../manifest/auditRecord.ts';

/** What clients can be told of; each job has one of them in the end. */
export const WEBHOOK_EVENTS = ['job.completed', 'job.failed'] as const;
export type WebhookEvent = (typeof WEBHOOK_EVENTS)[number];

/**
 * Where clients are told how their jobs ended. `test/store/webhooks.ts` is the executable form of this contract; the two rules of `Store`
 * hold here too.
 *
 * Another process may change endpoints at any time; the next read and the next batch see it. One process delivers.
 */
export interface WebhookStore {
  readonly endpoints: EndpointStore;
  readonly outbox: OutboxStore;
}

export interface EndpointStore {
  /** All endpoints, or those of a client, oldest first. */
  all(clientId?: string): Promise<WebhookEndpoint[]>;

  get(endpointId: string): Promise<WebhookEndpoint | undefined>;

  /** Rises with every change of an endpoint by any process. Cheap to ask. */
  revision(): Promise<number>;

  /** Returns false and writes nothing when the client has `perClientMax` endpoints already. */
  add(endpoint: NewEndpoint, perClientMax: number, act: Act | null): Promise<boolean>;

  /**
   * Replaces the endpoint by what `change` makes of its newest state, and returns it; the revision rises even if nothing else differs.
   * Where `change` gives undefined, the endpoint stays as it is, and nothing is recorded. Undefined when there is no such endpoint.
   */
  change(
    endpointId: string,
    change: (current: WebhookEndpoint) => NewEndpoint | undefined,
    act: Act | null,
  ): Promise<WebhookEndpoint | undefined>;

  /** Returns false when there is no such endpoint. A later {@link OutboxStore.sweep} removes what was still to be sent to it. */
  remove(endpointId: string, act: Act | null): Promise<boolean>;

  /** Whether a job of this client that ended now would be told to an endpoint. */
  isListening(clientId: string, event: WebhookEvent): Promise<boolean>;
}

/** What is still to be sent to endpoints, and what was given up. */
export interface OutboxStore {
  /** What is to be sent to an endpoint, in the order it is due, after `after` (exclusive). */
  pending(endpointId: string, page: DeliveryPage): Promise<Delivery[]>;

  /** What was given up, the oldest first, after `after` (exclusive). */
  deadLetters(endpointId: string, page: DeliveryPage): Promise<DeadLetter[]>;

  /** One transaction: a pending delivery is sent, is due again, or is given up. */
  settle(delivery: Delivery, result: DeliveryResult): Promise<void>;

  /**
   * Queues a message of type `webhook.test`; returns its `webhook-id`, or undefined when there is no such endpoint. Throws ServiceError
   * `queue_full` when the backlog is full.
   */
  test(endpointId: string): Promise<string | undefined>;

  /**
   * Queues dead letters again, from the first attempt and under their old `webhook-id`: those named, or all; as many as the backlog
   * takes. Returns how many; 0 changes and records nothing.
   */
  replay(endpointId: string, webhookIds: readonly string[] | undefined, act: Act | null): Promise<number>;

  /**
   * Gives up what was due before `dueBefore`, removes what was given up before `diedBefore` and whatever belongs to removed endpoints.
   * Bounded; returns how many entries it changed, 0 when there are none left.
   */
  sweep(bounds: SweepBounds): Promise<number>;

  /** Empty for one that is not there. */
  tally(endpointId: string): Promise<EndpointTally>;

  /** The same of several, in their order, read at once. */
  tallies(endpointIds: readonly string[]): Promise<EndpointTally[]>;

  /** The listener is called, in this process, with the endpoints for which a durable write queued something. */
  onQueued(listener: (endpointIds: readonly string[]) => void): void;
}

/** Where to send what to. Immutable: a change makes a new one, under the next revision. */
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
  /** Set while nothing is sent or queued: by whoever manages it, or because it answered 410. */
  disabled?: { at: number; reason: 'request' | 'gone' };
  /** Of the store, as of this endpoint's last change. */
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
  /** When the event was, milliseconds since the epoch. */
  occurredAt: number;
  /** When it is to be sent, or (of a dead letter) was given up, in service time. */
  at: number;
  /** Made so far. */
  attempts: number;
  failure?: DeliveryFailure;
}

/** Why the last attempt was none: `http_<status>`, or what went wrong before there was one. */
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

/** How an endpoint fares. Counts of what is stored may lag behind by a batch. */
export interface EndpointTally {
  pending: number;
  deadLetters: number;
  delivered: number;
  /** Attempts that failed. */
  failures: number;
  /** What found backlog and dead letters full, and is nowhere any more; from when to when it occurred. */
  dropped: number;
  droppedFrom?: number;
  droppedTo?: number;
  deliveredAt?: number;
  failure?: DeliveryFailure;
}
