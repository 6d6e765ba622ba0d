import { ServiceError } from '../base/errors.ts';

const RETRY_AFTER_SECONDS = 2;

/**
 * The database of a front does not answer in time. The front's write may have taken place, and no caller is informed that it did. The front
 * continues: it holds nothing that depends on it, and its next read is a barrier of its own.
 */
export class StoreUnavailable extends ServiceError {
  constructor(cause: unknown) {
    super(
      'storage_unavailable',
      'The database of the service does not answer in time, so it is not known whether the request took effect. Repeat it later; a create with the same Idempotency-Key.',
      { retryAfterSeconds: RETRY_AFTER_SECONDS, cause },
    );
    this.name = 'StoreUnavailable';
  }
}
