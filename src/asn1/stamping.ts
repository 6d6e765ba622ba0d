import { fromUtf8 } from '../base/bytes.ts';
import { sha512 } from '../base/crypto.ts';
import type { MessageImprint } from './timestampQuery.ts';
import type { VerifiedTimestamp } from './timestampToken.ts';

/**
 * Largest difference between a token's time and `sealed_at`, beyond the token's own accuracy: signatures and authorities need time, and two
 * clocks differ. A token proves that the checkpoint existed at its time, but not since when, so a dishonest service could predate
 * `sealed_at` by this much.
 */
export const STAMPING_TOLERANCE_MS = 600_000;

/**
 * Largest difference between two maintained clocks, such as those of the service, of an authority and of a witness; in addition to the
 * accuracy that a token states.
 */
export const CLOCK_TOLERANCE_MS = 60_000;

/**
 * Largest accuracy that a token may state, unless a trust file sets another limit. A token with a larger one says nothing about the time:
 * `sealed_at` may differ from it by that much.
 */
export const ACCURACY_MAX_MS = 300_000;

/** The digest that a checkpoint's time-stamp covers: SHA-512 of the whole signed note, signatures included, as UTF-8. */
export function checkpointImprint(note: string): MessageImprint {
  return { algorithm: 'sha512', digest: sha512(fromUtf8(note)) };
}

/**
 * Why the accuracy of a verified token is not sufficient; undefined if it is. If a bound is configured for its authority, `namedMaxMs`, the
 * token must state its accuracy (RFC 3161, section 2.4.2: otherwise the accuracy may be known by other means).
 */
export function accuracyFault(
  { accuracyMs }: Pick<VerifiedTimestamp, 'accuracyMs'>,
  namedMaxMs?: number,
): string | undefined {
  const maxMs = namedMaxMs ?? ACCURACY_MAX_MS;
  if (accuracyMs === undefined)
    return namedMaxMs === undefined ? undefined : `states no accuracy; needed: ${maxMs} ms or better`;
  return accuracyMs <= maxMs
    ? undefined
    : `states an accuracy of ${accuracyMs} ms; needed: ${maxMs} ms or better`;
}

/** Whether a token predates what it covers: its time is before `sealedAt` by more than its accuracy. */
export function predates(
  { genTime, accuracyMs = 0 }: Pick<VerifiedTimestamp, 'genTime' | 'accuracyMs'>,
  sealedAt: number,
): boolean {
  return genTime + accuracyMs + CLOCK_TOLERANCE_MS < sealedAt;
}

/** Whether a verified token confirms `sealedAt`, milliseconds since the epoch. */
export function bearsOut(
  { genTime, accuracyMs = 0 }: Pick<VerifiedTimestamp, 'genTime' | 'accuracyMs'>,
  sealedAt: number,
): boolean {
  return Math.abs(genTime - sealedAt) <= accuracyMs + STAMPING_TOLERANCE_MS;
}
