import type { Logger } from 'pino';
import { assert } from '../base/assert.ts';
import { type Clock, toRfc3339 } from '../base/clock.ts';
import { Rounds } from '../base/rounds.ts';
import type { JobRecord } from '../job/job.ts';
import type { Store } from '../store/store.ts';
import type { Delivery, DeliveryFailure, WebhookEndpoint } from '../store/webhookStore.ts';
import { EgressAway } from '../web/egressClient.ts';
import type { HttpExchange } from '../web/httpClient.ts';
import { NoAnswer } from '../web/noAnswer.ts';
import { discardBody } from '../web/response.ts';
import { EndpointQueue, type QueueLimits } from './endpointQueue.ts';
import type { EndpointChange } from './endpoints.ts';
import { nextDelayMs, parseRetryAfterMs, type Waits } from './schedule.ts';
import { signatureHeaders } from './signature.ts';

export interface DelivererOptions extends QueueLimits, Waits {
  store: Pick<Store, 'jobs' | 'webhooks' | 'serviceTime'>;
  /** The HTTP client for allowed targets. It is closed with the deliverer. */
  client: HttpExchange;
  /** The time-out of one attempt. */
  timeoutMs: number;
  /** The longest pause between attempts at a failing endpoint while deliveries are due. */
  probeIntervalMs: number;
  /** How long dead letters are kept. */
  deadLetterMs: number;
  /** `data` of an event: the job as the API shows it, and when it ended, milliseconds since the epoch. */
  present(record: JobRecord, endedAt: number): object;
  clock: Clock;
  /** The clock for the expiry of secrets; default: `clock`. */
  date?: Clock;
  logger: Logger;
  /** Called when the store can no longer be read or written. */
  onFatal(error: unknown): void;
}

/** The parts of an answer that are used. Its body is not. */
export interface Answer {
  status: number;
  /** The header as it was sent. */
  retryAfter?: string;
}

/** For metrics and health checks. */
export interface WebhookStatus {
  endpoints: number;
  disabled: number;
  /** Endpoints limited to one delivery at a time. */
  failing: number;
  inFlight: number;
  pending: number;
  deadLetters: number;
  delivered: number;
  /** Failed attempts. */
  failures: number;
  dropped: number;
  /** When the most overdue delivery was due, milliseconds since the Unix epoch. */
  oldestDueAt?: number;
}

/** This much of the body of an answer is read and discarded, to keep the connection. */
const BODY_BYTES_MAX = 64 * 1024;
const BODY_MS_MAX = 1000;
const BUFFER_DELIVERIES = 32;
/** How soon a change by another process is noticed; each check reads one key of the store. */
const LOOK_MS = 1000;
const SWEEP_MS = 60_000;
/** The pause of an endpoint while the egress process does not answer. */
const AWAY_MS = 1000;
/** How long deliveries in progress may take when the daemon stops. Interrupted ones are sent again after the next start. */
const CLOSE_MS_MAX = 2000;

/**
 * Delivers the messages in the outbox, with a queue for each endpoint. Order, attempts and due times are in the store: delivery continues
 * after a crash, and messages whose delivery was not recorded are sent again with the same `webhook-id`.
 */
export class Deliverer {
  readonly #options: DelivererOptions;
  readonly #queues = new Map<string, EndpointQueue>();
  readonly #attempts = new Set<Promise<void>>();
  #revision = -1;
  #isClosing = false;
  #isCutOff = false;
  #wake = Promise.withResolvers<void>();
  #loop: Promise<void> = Promise.resolve();
  #sweeping: Rounds | undefined;

  constructor(options: DelivererOptions) {
    this.#options = options;
  }

  /** Starts delivery. Called once. */
  start(): void {
    const { store, onFatal } = this.#options;
    store.webhooks.outbox.onQueued((endpointIds) => this.#noticed(endpointIds));
    this.#loop = this.#run().catch(onFatal);
    this.#sweeping = new Rounds(() => this.#sweep(), SWEEP_MS, onFatal);
  }

  async status(): Promise<WebhookStatus> {
    const { webhooks } = this.#options.store;
    const endpoints = await webhooks.endpoints.all();
    const tallies = await webhooks.outbox.tallies(endpoints.map(({ id }) => id));
    const first = await Promise.all(endpoints.map(({ id }) => webhooks.outbox.pending(id, { limit: 1 })));
    const oldestDueAt = Math.min(...first.flat().map(({ at }) => at));
    const sum = (count: 'pending' | 'deadLetters' | 'delivered' | 'failures' | 'dropped') =>
      tallies.reduce((total, tally) => total + tally[count], 0);
    return {
      endpoints: endpoints.length,
      disabled: endpoints.filter(({ disabled }) => disabled !== undefined).length,
      failing: [...this.#queues.values()].filter(({ isFailing }) => isFailing).length,
      inFlight: this.#attempts.size,
      pending: sum('pending'),
      deadLetters: sum('deadLetters'),
      delivered: sum('delivered'),
      failures: sum('failures'),
      dropped: sum('dropped'),
      ...(Number.isFinite(oldestDueAt) && {
        oldestDueAt: this.#options.store.serviceTime.dateOf(oldestDueAt),
      }),
    };
  }

  /** Waits for deliveries in progress, but not for long. */
  async close(): Promise<void> {
    this.#isClosing = true;
    this.#wake.resolve();
    await Promise.all([this.#loop, this.#sweeping?.close()]);
    const patience = setTimeout(() => this.#cutOff(), CLOSE_MS_MAX);
    await Promise.all(this.#attempts);
    clearTimeout(patience);
    this.#cutOff();
  }

  /** Due times are in service time, so that a jump of the clock does not make anything overdue. */
  get #now(): number {
    return this.#options.store.serviceTime.now();
  }

  #cutOff(): void {
    this.#isCutOff = true;
    this.#options.client.close();
  }

  #noticed(endpointIds: readonly string[]): void {
    for (const id of endpointIds) {
      const queue = this.#queues.get(id);
      if (queue) queue.lookAt = 0;
      const isPaused = queue !== undefined && queue.pausedUntil > this.#now;
      if (!queue || (!isPaused && this.#maySend(queue))) this.#wake.resolve();
    }
  }

  async #run(): Promise<void> {
    while (!this.#isClosing) {
      this.#wake = Promise.withResolvers<void>();
      const nextAt = await this.#pass();
      const waitMs = Math.min(Math.max(nextAt - this.#now, 1), LOOK_MS);
      const timer = setTimeout(this.#wake.resolve, waitMs);
      if (!this.#isClosing) await this.#wake.promise;
      clearTimeout(timer);
    }
  }

  /** Sends due messages while places are free, one per endpoint and round. Returns when the next message is due. */
  async #pass(): Promise<number> {
    await this.#refresh();
    let nextAt = Number.POSITIVE_INFINITY;
    for (let isMore = true; isMore && !this.#isClosing; ) {
      isMore = false;
      for (const queue of [...this.#queues.values()]) {
        if (!this.#maySend(queue)) continue;
        const readyAt = Math.max(await this.#dueAt(queue), queue.pausedUntil);
        if (readyAt > this.#now) nextAt = Math.min(nextAt, readyAt);
        else isMore = this.#sendNext(queue) || isMore;
      }
    }
    return nextAt;
  }

  async #refresh(): Promise<void> {
    const { webhooks } = this.#options.store;
    const revision = await webhooks.endpoints.revision();
    if (revision === this.#revision) return;
    const endpoints = await webhooks.endpoints.all();
    const ids = new Set(endpoints.map(({ id }) => id));
    for (const id of this.#queues.keys()) if (!ids.has(id)) this.#queues.delete(id);
    for (const endpoint of endpoints) {
      const queue = this.#queues.get(endpoint.id);
      if (!queue) this.#queues.set(endpoint.id, new EndpointQueue(endpoint));
      else if (queue.endpoint.revision !== endpoint.revision) queue.renew(endpoint);
    }
    this.#revision = revision;
  }

  #maySend(queue: EndpointQueue): boolean {
    const { inFlightMax } = this.#options;
    let failing = 0;
    if (queue.isFailing)
      for (const one of this.#queues.values()) if (one.isFailing) failing += one.inFlight.size;
    return queue.maySend(this.#options, inFlightMax - this.#attempts.size, failing);
  }

  /** When the queue's next delivery is due, 0 for at once. Reads deliveries that are already due into its buffer. */
  async #dueAt(queue: EndpointQueue): Promise<number> {
    const { store } = this.#options;
    if (queue.buffer.length > 0) return 0;
    if (queue.lookAt > this.#now) return queue.lookAt;
    queue.lookAt = Number.POSITIVE_INFINITY;
    const limit = BUFFER_DELIVERIES + queue.inFlight.size;
    const pending = await store.webhooks.outbox.pending(queue.endpoint.id, { limit });
    const open = pending.filter(({ webhookId }) => !queue.inFlight.has(webhookId));
    const now = this.#now;
    // A crash can set service time back by up to a minute. A delivery that was never tried is due all the same.
    const isDue = ({ at, attempts }: Delivery) => at <= now || attempts === 0;
    queue.buffer = open.filter(isDue);
    queue.lookAt = Math.min(queue.lookAt, open.find((one) => !isDue(one))?.at ?? queue.lookAt);
    return queue.buffer.length > 0 ? 0 : queue.lookAt;
  }

  #sendNext(queue: EndpointQueue): boolean {
    const delivery = queue.buffer.shift();
    if (!delivery || queue.inFlight.has(delivery.webhookId) || !this.#maySend(queue))
      return delivery !== undefined;
    // The endpoint is last in turn from now on.
    this.#queues.delete(queue.endpoint.id);
    this.#queues.set(queue.endpoint.id, queue);
    queue.inFlight.add(delivery.webhookId);
    const attempt = this.#attempt(queue, delivery)
      .catch(this.#options.onFatal)
      .finally(() => {
        this.#attempts.delete(attempt);
        queue.inFlight.delete(delivery.webhookId);
        queue.lookAt = 0;
        this.#wake.resolve();
      });
    this.#attempts.add(attempt);
    return true;
  }

  async #attempt(queue: EndpointQueue, delivery: Delivery): Promise<void> {
    const { store, clock, logger } = this.#options;
    const { endpoint } = queue;
    const body = await this.#bodyOf(delivery);
    const answer = await this.#send(endpoint, delivery, body);
    // If we stop before this delivery is settled, it is sent again: at least once, always with the same id.
    if (answer === undefined) return;
    // The endpoint was not contacted, so this does not count as its failure.
    if (answer instanceof EgressAway) return queue.hold(this.#now + AWAY_MS);
    const isDelivered = 'status' in answer && answer.status >= 200 && answer.status <= 299;
    if (isDelivered) {
      if (queue.isFailing) {
        const fields = { event: 'webhook_endpoint_back', ...about(endpoint, delivery) };
        logger.info(fields, 'a webhook endpoint answers again');
      }
      queue.succeeded();
      return store.webhooks.outbox.settle(delivery, { kind: 'delivered' });
    }
    const reason = 'status' in answer ? `http_${answer.status}` : answer.reason;
    await this.#failed(queue, delivery, { at: clock(), reason }, 'status' in answer ? answer : undefined);
  }

  async #failed(
    queue: EndpointQueue,
    delivery: Delivery,
    failure: DeliveryFailure,
    answer?: Answer,
  ): Promise<void> {
    const { store, probeIntervalMs, logger } = this.#options;
    const { endpoint } = queue;
    const fields = { ...about(endpoint, delivery), reason: failure.reason };
    const retryAfterMs = parseRetryAfterMs(answer?.retryAfter, failure.at);
    const wasFailing = queue.isFailing;
    queue.failed(this.#now, probeIntervalMs, retryAfterMs);
    if (queue.isFailing && !wasFailing)
      logger.warn({ event: 'webhook_endpoint_failing', ...fields }, 'a webhook endpoint fails');
    if (answer?.status === 410) {
      const event = 'webhook_endpoint_disabled';
      logger.warn({ event, ...fields }, 'a webhook endpoint answered 410 and is disabled');
      await this.#disable(endpoint, failure.at);
    }
    const delayMs = nextDelayMs(this.#options, delivery.attempts + 1, retryAfterMs);
    if (delayMs === undefined) {
      logger.warn(
        { event: 'webhook_given_up', ...fields },
        'the last retry of a webhook failed: it is a dead letter now',
      );
      return store.webhooks.outbox.settle(delivery, { kind: 'dead', failure });
    }
    logger.debug({ ...fields, retry_ms: Math.round(delayMs) }, 'a webhook was not delivered');
    const dueAt = Math.ceil(this.#now + delayMs);
    await store.webhooks.outbox.settle(delivery, { kind: 'retry', dueAt, failure });
  }

  /** The endpoint answered 410 Gone: it does not want further messages. */
  async #disable({ id, revision }: WebhookEndpoint, at: number): Promise<void> {
    const gone: EndpointChange = (current) => {
      // The endpoint was changed since then, and its new version has not given this answer.
      return current.revision === revision ? { ...current, disabled: { at, reason: 'gone' } } : undefined;
    };
    await this.#options.store.webhooks.endpoints.change(id, gone, null);
  }

  /** Posts without following redirects. The answer, or why there is none; undefined if this process is stopping. */
  async #send(
    endpoint: WebhookEndpoint,
    { webhookId }: Delivery,
    body: Uint8Array,
  ): Promise<Answer | NoAnswer | undefined> {
    const { client, timeoutMs, clock, date = clock } = this.#options;
    const [sentAt, today] = [clock(), date()];
    const secrets = endpoint.secrets
      .filter(({ expiresAt }) => expiresAt === undefined || today < expiresAt)
      .map(({ secret }) => secret);
    const signed = signatureHeaders({ webhookId, sentAt, body, secrets });
    const headers = { 'content-type': 'application/json', ...signed };
    const request = {
      method: 'POST',
      url: new URL(endpoint.url),
      headers,
      body,
      timeoutMs,
      timed: 'head',
    } as const;
    try {
      return await client.exchange(request, async (answer) => {
        await discardBody(answer, BODY_BYTES_MAX, BODY_MS_MAX);
        return { status: answer.statusCode ?? 0, retryAfter: answer.headers['retry-after'] };
      });
    } catch (error) {
      if (this.#isCutOff) return undefined;
      if (!(error instanceof NoAnswer)) throw error;
      this.#options.logger.debug({ endpoint_id: endpoint.id, err: error }, 'no answer');
      return error;
    }
  }

  /** The same bytes every time. */
  async #bodyOf({ type, webhookId, endpointId, occurredAt }: Delivery): Promise<Uint8Array> {
    const { store, present } = this.#options;
    let data: object = { endpoint_id: endpointId };
    if (type !== 'webhook.test') {
      const record = await store.jobs.get(webhookId.replace(/^msg_/, 'job_'));
      assert(record?.outcome, `${webhookId} is about a job that has not ended`);
      data = present(record, occurredAt);
    }
    return Buffer.from(JSON.stringify({ type, timestamp: toRfc3339(occurredAt), data }));
  }

  async #sweep(): Promise<void> {
    const { store, retryDelaysMs, deadLetterMs } = this.#options;
    const patienceMs = retryDelaysMs.reduce((sum, delayMs) => sum + delayMs, 0);
    const { serviceTime } = store;
    const [dueBefore, diedBefore] = [serviceTime.before(patienceMs), serviceTime.before(deadLetterMs)];
    while (!this.#isClosing && (await store.webhooks.outbox.sweep({ dueBefore, diedBefore })) > 0);
  }
}

/** The fields for the log, without URLs, which can contain secrets. */
function about(
  { id, clientId }: WebhookEndpoint,
  { webhookId, attempts }: Delivery,
): Record<string, unknown> {
  return { endpoint_id: id, client_id: clientId, webhook_id: webhookId, attempt: attempts + 1 };
}
