import { type ErrorCode, ServiceError } from './errors.ts';

const RETRY_AFTER_SECONDS = 2;

export interface SlotsOptions {
  /** What is bounded, as callers are told. */
  of: string;
  max: number;
  /** Left out: half of all, rounded up. */
  perClientMax?: number;
  /** What a client is told that has its share. Left out: `too_many_requests`. */
  code?: ErrorCode;
}

/**
 * Bounds how much goes on at once, in all and per client, so that one client cannot hold it all.
 *
 * Beside others a client gets another place only while it holds fewer than are free: the more is taken, the less each may
 * hold, and there is always some place for a client who holds none (Choudhury and Hahne, "Dynamic queue length thresholds").
 */
export class Slots {
  readonly #options: Required<SlotsOptions>;
  readonly #perClient = new Map<string, number>();
  #total = 0;

  constructor({ code = 'too_many_requests', ...options }: SlotsOptions) {
    this.#options = { perClientMax: Math.ceil(options.max / 2), ...options, code };
  }

  /** Takes a slot; the function returned gives it back, once. Throws ServiceError: the code for a client's share, or `queue_full`. */
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

  /** Like {@link take}; undefined where no slot is to be had now. For work that can wait. */
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

  /** What a client may hold, beside others: as many as would still be free then. */
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
