import { ServiceError } from '../base/errors.ts';
import type { Failure, Outcome } from '../job/job.ts';
import type { Sealer } from '../seal/sealer.ts';
import { ERROR_KINDS } from './errorKinds.ts';

/** What to wait before asking again: batches follow each other within fractions of a second. */
export const RETRY_AFTER_SECONDS = 1;

/** The outcome of a blocking create; undefined when `waitMs` pass or `patience` is aborted first. */
export async function settledWithin(
  waitMs: number,
  jobId: string,
  sealer: Pick<Sealer, 'settled'>,
  patience: AbortController,
): Promise<Outcome | undefined> {
  const timer = setTimeout(() => patience.abort(), waitMs);
  try {
    return await sealer.settled(jobId, patience.signal);
  } finally {
    clearTimeout(timer);
  }
}

/** What a blocking create is answered with whose job failed. */
export function failureOf({ code, message }: Failure): ServiceError {
  const mayPass = ERROR_KINDS[code].status === 503;
  return new ServiceError(code, message, { ...(mayPass && { retryAfterSeconds: RETRY_AFTER_SECONDS }) });
}
