import { ServiceError } from '../base/errors.ts';
import { TimestampUnavailable } from '../tsa/unavailable.ts';

const RETRY_AFTER_SECONDS = 2;

/** The answer while the queue is full. */
export function queueFull(): ServiceError {
  const message = 'Too many jobs wait to be sealed. Repeat the request later.';
  return new ServiceError('queue_full', message, { retryAfterSeconds: RETRY_AFTER_SECONDS });
}

/** The answer while an epoch requires time-stamps and no authority gives one. */
export function unstampable(): ServiceError {
  return new ServiceError(
    'timestamp_unavailable',
    'No time-stamp is available at the moment, so nothing was sealed. Repeat the request later.',
    { retryAfterSeconds: RETRY_AFTER_SECONDS },
  );
}

/** A temporary obstacle; undefined for a fault of our own. */
export function obstacleOf(error: unknown): ServiceError | undefined {
  if (error instanceof TimestampUnavailable) return unstampable();
  return error instanceof ServiceError && error.code === 'kms_partition_unavailable' ? error : undefined;
}
