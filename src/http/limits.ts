import { ServiceError } from '../base/errors.ts';

const RETRY_AFTER_SECONDS = 2;

/** Bounds how many documents are received at once, in all and per client, so that one client cannot hold them all. */
export class UploadSlots {
  readonly #uploadsMax: number;
  readonly #uploadsPerClientMax: number;
  readonly #perClient = new Map<string, number>();
  #total = 0;

  constructor(options: { uploadsMax: number; uploadsPerClientMax: number }) {
    this.#uploadsMax = options.uploadsMax;
    this.#uploadsPerClientMax = options.uploadsPerClientMax;
  }

  /** Takes a slot; the function returned gives it back. Throws ServiceError `too_many_uploads` or `queue_full`. */
  take(clientId: string): () => void {
    const own = this.#perClient.get(clientId) ?? 0;
    if (own >= this.#uploadsPerClientMax) {
      const message = `This client has ${own} uploads under way, the most allowed. Repeat the request when one has ended.`;
      throw new ServiceError('too_many_uploads', message, { retryAfterSeconds: RETRY_AFTER_SECONDS });
    }
    if (this.#total >= this.#uploadsMax) {
      const message = 'The service is receiving as many documents as it can. Repeat the request later.';
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
