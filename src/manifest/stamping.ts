import type { MessageImprint } from '../asn1/timestampQuery.ts';
import type { VerifiedTimestamp } from '../asn1/timestampToken.ts';
import { fromUtf8 } from '../base/bytes.ts';
import { sha512 } from '../base/crypto.ts';

/**
 * How far a token's time may be from `sealed_at`, beyond the token's own accuracy: signatures and authorities take their
 * time, and two clocks differ. A token proves that the checkpoint existed by then and says nothing of how long it had, so
 * this is also how far back a service that lies about `sealed_at` could move it.
 */
export const STAMPING_TOLERANCE_MS = 600_000;

/** What a checkpoint's time-stamp is over: SHA-512 of the whole signed note, signatures included, as UTF-8. */
export function checkpointImprint(note: string): MessageImprint {
  return { algorithm: 'sha512', digest: sha512(fromUtf8(note)) };
}

/** Whether a verified token bears out that something was sealed at `sealedAt`, milliseconds since the epoch. */
export function bearsOut(
  { genTime, accuracyMs = 0 }: Pick<VerifiedTimestamp, 'genTime' | 'accuracyMs'>,
  sealedAt: number,
): boolean {
  return Math.abs(genTime - sealedAt) <= accuracyMs + STAMPING_TOLERANCE_MS;
}
