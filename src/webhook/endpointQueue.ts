import type { Delivery, WebhookEndpoint } from '../store/webhookStore.ts';

/** Failures one after the other that make an endpoint a failing one: it is then tried by one delivery at a time. */
const FAILURES_TOLERATED = 4;
/** The first pause of a failing endpoint is this share of the longest one; each further one is twice as long. */
const FIRST_PAUSE_SHARE = 1 / 64;

/** How deliveries to one endpoint go, as this process knows. What must survive it is in the store. */
export class EndpointQueue {
  endpoint: WebhookEndpoint;
  /** Ids of what is being sent. */
  readonly inFlight = new Set<string>();
  /** Due, in order, read from the store in one go. */
  buffer: Delivery[] = [];
  /** When the store has something due again, in service time as far as known; meaningless while the buffer has something. */
  lookAt = 0;
  pausedUntil = 0;
  #failures = 0;

  constructor(endpoint: WebhookEndpoint) {
    this.endpoint = endpoint;
  }

  get isFailing(): boolean {
    return this.#failures >= FAILURES_TOLERATED;
  }

  /** Whether one more may be sent, given how many of the places for all endpoints are free. */
  maySend({ inFlightMax, perEndpointMax }: QueueLimits, free: number, failingInFlight: number): boolean {
    if (this.endpoint.disabled !== undefined || free <= 0) return false;
    // The last quarter of the places is for endpoints that have none yet, and no more than a quarter goes to failing ones.
    const reserve = inFlightMax / 4;
    if (this.isFailing) return this.inFlight.size === 0 && failingInFlight < reserve;
    return this.inFlight.size === 0 || (this.inFlight.size < perEndpointMax && free > reserve);
  }

  succeeded(): void {
    this.#failures = 0;
    this.pausedUntil = 0;
  }

  failed(now: number, pauseMsMax: number, retryAfterMs = 0): void {
    this.#failures += 1;
    const doublings = this.#failures - FAILURES_TOLERATED;
    const pauseMs = doublings < 0 ? 0 : Math.min(pauseMsMax * FIRST_PAUSE_SHARE * 2 ** doublings, pauseMsMax);
    this.pausedUntil = Math.max(this.pausedUntil, now + pauseMs, now + retryAfterMs);
  }

  /**
   * The endpoint is another, or somebody has something sent to it. What was changed is learnt anew; where nothing was, it is tried
   * again at once, but a failing endpoint stays one until it answers.
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

/** Whether nothing but the revision differs. */
function isSame(one: WebhookEndpoint, other: WebhookEndpoint): boolean {
  return JSON.stringify({ ...one, revision: 0 }) === JSON.stringify({ ...other, revision: 0 });
}

export interface QueueLimits {
  /** Deliveries under way at the same time, to all endpoints. */
  inFlightMax: number;
  /** The same, to one endpoint. */
  perEndpointMax: number;
}
