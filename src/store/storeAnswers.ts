import { toRfc3339 } from '../base/clock.ts';
import { ServiceError } from '../base/errors.ts';
import { StoreError, type StoreRefusal } from './storeError.ts';

/** The error for a caller in place of a {@link StoreError}; every other error is returned as it is. Only faces need it. */
export function asAnswer(error: unknown): unknown {
  return error instanceof StoreError ? answerTo(error.refusal, error.cause) : error;
}

function answerTo(refusal: StoreRefusal, cause: unknown): ServiceError {
  switch (refusal.code) {
    case 'disk_full':
      return new ServiceError(
        'storage_full',
        'The service has no room to store more at the moment. Nothing was recorded. Repeat the request later.',
        { retryAfterSeconds: 10, cause },
      );
    case 'database_away':
      return new ServiceError(
        'storage_unavailable',
        'The database of the service does not answer in time, so it is not known whether the request took effect. Repeat it later; a create with the same Idempotency-Key.',
        { retryAfterSeconds: 2, cause },
      );
    case 'too_many_lists':
      return new ServiceError(
        'queue_full',
        'The service was too busy to list the jobs. Repeat the request later.',
        { retryAfterSeconds: 2, cause },
      );
    case 'backlog_full':
      return new ServiceError(
        'queue_full',
        'As many messages wait to be sent to this endpoint as are kept. Repeat the request later.',
        { retryAfterSeconds: 60 },
      );
    // A repeat finds the job of the other node.
    case 'key_taken':
      return new ServiceError(
        'idempotency_in_progress',
        'Another request with this Idempotency-Key was received at the same time. Repeat it later.',
        { retryAfterSeconds: 1 },
      );
    case 'quota_used_up': {
      const { name, endsAt } = refusal.quota;
      return new ServiceError(
        'quota_exceeded',
        `The quota ${JSON.stringify(name)} of this client is used up. Repeat the request after ${toRfc3339(endsAt)}.`,
        { parameter: 'purpose', retryAfterSeconds: Math.max(1, Math.ceil((endsAt - Date.now()) / 1000)) },
      );
    }
  }
}
