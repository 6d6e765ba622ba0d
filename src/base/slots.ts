import { type ErrorCode, ServiceError } from './errors.ts';

const RETRY_AFTER_SECONDS = 2;

export interface SlotsOptions {
  /** The name of what is limited, for messages to callers. */
  of: string;
  max: number;
  /** Default: half of all slots, rounded up. */
  perClientMax?: number;
  /** The error code for a client that has used up its share. Default: `too_many_requests`. */
  code?: ErrorCode;
}

/**
 * Limits concurrency, in total and per client, so that one client cannot take it all.
 *
 * While other clients hold slots, a client gets another slot only if it holds fewer than are free. So the more slots are taken, the fewer
 * each client may hold, and there is always a slot for a client that holds none (Choudhury and Hahne, "Dynamic queue length thresholds").
 */
export class Slots {
  readonly #options: Required<SlotsOptions>;
  readonly #perClient = new Map<string, number>();
  #total = 0;

  constructor({ code = 'too_many_requests', ...options }: SlotsOptions) {
    this.#options = { perClientMax: Math.ceil(options.max / 2), ...options, code };
  }

  /**
   * Takes a slot. The returned function releases it. Throws ServiceError: the code for a client that has used up its share, or
   * `queue_full`.
   */
  take(clientId: string): () => void {
    const give = this.tryTake(clientId);
    if (give) return give;
    const { of, max, perClientMax, code } = this.#options;
    const own = this.held(clientId);
    if (own >= perClientMax || this.#total < max) {
      const message = `This client has ${own} ${of} under way, as many as it may have now. Repeat the request when one has ended.`;
      throw new ServiceError(code, message, { retryAfterSeconds: RETRY_AFTER_SECONDS });
    }
    const message = `The service has as many ${of} under way as it can. Repeat the request later.`;
    throw new ServiceError('queue_full', message, { retryAfterSeconds: RETRY_AFTER_SECONDS });
  }

  /** Like {@link take}, but returns undefined if there is no slot now. For work that can wait. */
  tryTake(clientId: string): (() => void) | undefined {
    if (this.#total >= this.#options.max || this.held(clientId) >= this.#shareOf(clientId)) return undefined;
    this.#count(clientId, 1);
    let isHeld = true;
    return () => {
      if (isHeld) this.#count(clientId, -1);
      isHeld = false;
    };
  }

  /** How many slots a client holds now. */
  held(clientId: string): number {
    return this.#perClient.get(clientId) ?? 0;
  }

  /** How many slots the client may hold now. */
  #shareOf(clientId: string): number {
    const { max, perClientMax } = this.#options;
    const isAlone = this.#perClient.size === (this.#perClient.has(clientId) ? 1 : 0);
    return isAlone ? perClientMax : Math.min(perClientMax, max - this.#total);
  }

  #count(clientId: string, change: 1 | -1): void {
    const own = this.held(clientId) + change;
    if (own === 0) this.#perClient.delete(clientId);
    else this.#perClient.set(clientId, own);
    this.#total += change;
  }
}
