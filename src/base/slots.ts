import { ServiceError } from './errors.ts';

const RETRY_AFTER_SECONDS = 2;

export interface SlotsOptions {
  /** What is bounded, as callers are told. */
  of: string;
  max: number;
  perClientMax: number;
}

/** Bounds how many bodies are received at once, in all and per client, so that one client cannot hold them all. */
export class Slots {
  readonly #options: SlotsOptions;
  readonly #perClient = new Map<string, number>();
  #total = 0;

  constructor(options: SlotsOptions) {
    this.#options = options;
  }

  /** Takes a slot; the function returned gives it back. Throws ServiceError `too_many_uploads` or `queue_full`. */
  take(clientId: string): () => void {
    const { of, max, perClientMax } = this.#options;
    const own = this.#perClient.get(clientId) ?? 0;
    if (own >= perClientMax) {
      const message = `This client has ${own} ${of} under way, the most allowed. Repeat the request when one has ended.`;
      throw new ServiceError('too_many_uploads', message, { retryAfterSeconds: RETRY_AFTER_SECONDS });
    }
    if (this.#total >= max) {
      const message = `The service is receiving as many ${of} as it can. Repeat the request later.`;
      throw new ServiceError('queue_full', message, { retryAfterSeconds: RETRY_AFTER_SECONDS });
    }
    this.#count(clientId, 1);
    return () => this.#count(clientId, -1);
  }

  #count(clientId: string, change: 1 | -1): void {
    const own = (this.#perClient.get(clientId) ?? 0) + change;
    if (own === 0) this.#perClient.delete(clientId);
    else this.#perClient.set(clientId, own);
    this.#total += change;
  }
}
