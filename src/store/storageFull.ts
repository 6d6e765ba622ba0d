import { ServiceError } from '../base/errors.ts';

const RETRY_AFTER_SECONDS = 10;

/** The disk of the store, or of its database, has no space for a request's write. Nothing of it was written. */
export class StorageFull extends ServiceError {
  constructor(cause?: unknown) {
    super(
      'storage_full',
      'The service has no room to store more at the moment. Nothing was recorded. Repeat the request later.',
      { retryAfterSeconds: RETRY_AFTER_SECONDS, cause },
    );
    this.name = 'StorageFull';
  }
}
