import { ServiceError } from '../base/errors.ts';
import { TimestampUnavailable } from '../tsa/unavailable.ts';

export const RETRY_AFTER_SECONDS = 2;

/** Nothing is sealed without a time-stamp where one is to be. */
export function unstampable(): ServiceError {
  return new ServiceError(
    'timestamp_unavailable',
    'No time-stamp can be had at the moment, and nothing was sealed. Repeat the request later.',
    { retryAfterSeconds: RETRY_AFTER_SECONDS },
  );
}

/** What passes by itself; anything else is a fault of ours. */
export function obstacleOf(error: unknown): ServiceError | undefined {
  if (error instanceof TimestampUnavailable) return unstampable();
  return error instanceof ServiceError && error.code === 'kms_partition_unavailable' ? error : undefined;
}
