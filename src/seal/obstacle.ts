import { ServiceError } from '../base/errors.ts';
import { TimestampUnavailable } from '../tsa/unavailable.ts';

const RETRY_AFTER_SECONDS = 2;
/** Only an administrator ends the alarm. */
const FORK_RETRY_AFTER_SECONDS = 600;

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

/** The answer while a witness holds another history of the log than the store. */
export function forkAlarm(): ServiceError {
  return new ServiceError(
    'fork_alarm',
    'A witness holds another history of the log, so nothing is sealed. Tell the administrator of this service.',
    { retryAfterSeconds: FORK_RETRY_AFTER_SECONDS },
  );
}

/** What a batch that cannot be sealed waits for; undefined for a fault of our own. */
export function obstacleOf(error: unknown): ServiceError | undefined {
  if (error instanceof TimestampUnavailable) return unstampable();
  const isObstacle =
    error instanceof ServiceError &&
    (error.code === 'kms_partition_unavailable' || error.code === 'fork_alarm');
  return isObstacle ? error : undefined;
}
