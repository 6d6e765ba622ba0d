import type { Delivery, WebhookEndpoint } from '../store/webhookStore.ts';

/** Consecutive failures after which an endpoint is failing: it then gets one delivery at a time. */
const FAILURES_TOLERATED = 4;
/** The first pause of a failing endpoint as a share of the longest pause. Each further pause is twice as long. */
const FIRST_PAUSE_SHARE = 1 / 64;

/** The deliveries to one endpoint, as this process knows them. Everything that must survive is in the store. */
export class EndpointQueue {
  endpoint: WebhookEndpoint;
  /** Ids of the messages being sent. */
  readonly inFlight = new Set<string>();
  /** Due deliveries in their order, read from the store together. */
  buffer: Delivery[] = [];
  /** When the store's next delivery is due, in service time; meaningless while the buffer is not empty. */
  lookAt = 0;
  pausedUntil = 0;
  #failures = 0;

  constructor(endpoint: WebhookEndpoint) {
    this.endpoint = endpoint;
  }

  get isFailing(): boolean {
    return this.#failures >= FAILURES_TOLERATED;
  }

  /** Whether another delivery may be sent, given how many of the places for all endpoints are free. */
  maySend({ inFlightMax, perEndpointMax }: QueueLimits, free: number, failingInFlight: number): boolean {
    if (this.endpoint.disabled !== undefined || free <= 0) return false;
    // The last quarter of the places is for endpoints that have none yet, and failing endpoints get at most a quarter.
    const reserve = inFlightMax / 4;
    if (this.isFailing) return this.inFlight.size === 0 && failingInFlight < reserve;
    return this.inFlight.size === 0 || (this.inFlight.size < perEndpointMax && free > reserve);
  }

  succeeded(): void {
    this.#failures = 0;
    this.pausedUntil = 0;
  }

  /** Sends nothing until then. */
  hold(until: number): void {
    this.pausedUntil = Math.max(this.pausedUntil, until);
  }

  failed(now: number, pauseMsMax: number, retryAfterMs = 0): void {
    this.#failures += 1;
    const doublings = this.#failures - FAILURES_TOLERATED;
    const pauseMs = doublings < 0 ? 0 : Math.min(pauseMsMax * FIRST_PAUSE_SHARE * 2 ** doublings, pauseMsMax);
    this.hold(now + Math.max(pauseMs, retryAfterMs));
  }

  /**
   * The endpoint was changed, or a delivery to it was requested. It is tried at once. If it was changed, earlier failures no longer count;
   * otherwise a failing endpoint stays failing until it answers.
   */
  renew(endpoint: WebhookEndpoint): void {
    const isChanged = !isSame(this.endpoint, endpoint);
    this.endpoint = endpoint;
    this.buffer = [];
    this.lookAt = 0;
    this.pausedUntil = 0;
    if (isChanged) this.#failures = 0;
  }
}

/** Whether only the revision differs. */
function isSame(one: WebhookEndpoint, other: WebhookEndpoint): boolean {
  return JSON.stringify({ ...one, revision: 0 }) === JSON.stringify({ ...other, revision: 0 });
}

export interface QueueLimits {
  /** Concurrent deliveries to all endpoints. */
  inFlightMax: number;
  /** Concurrent deliveries to one endpoint. */
  perEndpointMax: number;
}
