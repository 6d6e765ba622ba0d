import { once } from 'node:events';
import { type ErrorCode, ServiceError } from '../base/errors.ts';
import { belowQuorum } from '../kms/partitions.ts';
import { TimestampUnavailable } from '../tsa/unavailable.ts';
import type { Cosigners } from './cosigners.ts';
import type { Signing } from './signing.ts';
import type { Timestamping } from './timestamping.ts';

/** Conditions for sealing. */
export interface Prerequisites {
  signing: Pick<Signing, 'epoch' | 'canSign' | 'areTaken' | 'recovered'>;
  timestamping?: Pick<Timestamping, 'canStamp' | 'recovered'>;
  cosigners?: Cosigners | undefined;
  isForked?(): boolean;
}

const RETRY_AFTER_SECONDS = 2;
/** Only an administrator can end the alarm. */
const FORK_RETRY_AFTER_SECONDS = 600;

/** The answer to a request that can be repeated soon. */
export function repeatLater(code: ErrorCode, why: string, cause?: unknown): ServiceError {
  const message = `${why} Repeat the request later.`;
  return new ServiceError(code, message, { retryAfterSeconds: RETRY_AFTER_SECONDS, cause });
}

export function queueFull(): ServiceError {
  return repeatLater('queue_full', 'Too many jobs wait to be sealed.');
}

/** The answer while an epoch requires time-stamps and no authority provides one. */
export function unstampable(): ServiceError {
  return repeatLater(
    'timestamp_unavailable',
    'No time-stamp is available at the moment, so nothing was sealed.',
  );
}

/** The answer while a witness holds a history of the log that differs from the store. */
export function forkAlarm(): ServiceError {
  return new ServiceError(
    'fork_alarm',
    'A witness holds another history of the log, so nothing is sealed. Tell the administrator of this service.',
    { retryAfterSeconds: FORK_RETRY_AFTER_SECONDS },
  );
}

/** The answer while too few witnesses cosign, if their cosignatures are required before a receipt is released. */
export function unwitnessed(): ServiceError {
  const why = 'Too few witnesses of the log can be reached at the moment, so nothing was sealed.';
  return repeatLater('witness_unavailable', why);
}

const OBSTACLES: Partial<Record<ErrorCode, () => ServiceError>> = {
  kms_partition_unavailable: belowQuorum,
  timestamp_unavailable: unstampable,
  witness_unavailable: unwitnessed,
  fork_alarm: forkAlarm,
};

/** The answer for an obstacle reported by another node. */
export function obstacleNamed(code: ErrorCode): ServiceError {
  return (OBSTACLES[code] ?? belowQuorum)();
}

/** Why a batch cannot be sealed for now; undefined for an internal fault. */
export function obstacleOf(error: unknown): ServiceError | undefined {
  if (error instanceof TimestampUnavailable) return unstampable();
  return error instanceof ServiceError && error.code in OBSTACLES ? error : undefined;
}

/** Why nothing can be sealed now; undefined while sealing works. */
export function obstacleTo({
  signing,
  timestamping,
  cosigners,
  isForked,
}: Prerequisites): ServiceError | undefined {
  if (isForked?.()) return forkAlarm();
  if (!signing.canSign()) return belowQuorum();
  if (cosigners?.canCosign() === false) return unwitnessed();
  const isStamped = signing.epoch.timestamps === 'required';
  return isStamped && !timestamping?.canStamp() ? unstampable() : undefined;
}

/** Resolves as soon as {@link obstacleTo} may return undefined again, or when the signal aborts. */
export async function cleared(
  { signing, timestamping, cosigners, isForked }: Prerequisites,
  signal: AbortSignal,
): Promise<void> {
  // Only an administrator ends a fork alarm, by a restart.
  if (isForked?.()) return void (await once(signal, 'abort'));
  await signing.recovered(signal);
  if (!signal.aborted) await cosigners?.recovered(signal);
  if (signing.epoch.timestamps === 'none' || signal.aborted) return;
  await (timestamping?.recovered(signal) ?? once(signal, 'abort'));
}
