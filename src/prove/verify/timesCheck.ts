import { CLOCK_TOLERANCE_MS, predates, STAMPING_TOLERANCE_MS } from '../../asn1/stamping.ts';
import { toRfc3339 } from '../../base/clock.ts';
import { printable, type ReceivedManifest } from '../../manifest/received.ts';
import type { Cosigned } from './checkpointCheck.ts';
import { type Finding, notShown, passed, unknown } from './finding.ts';
import type { TrustedStamp } from './timestampCheck.ts';

/**
 * Whether the dates are in order: accepted, sealed, then stamped and cosigned, none of them in the future. `at` is the time to which the
 * verdict applies. A wrong clock explains a contradiction as well as a lie does, and by a later verdict the future may have come: so the
 * result is never worse than unknown. {@link checkTimestamps} rejects a token that is too far from the seal.
 */
export function checkTimes(
  manifest: Pick<ReceivedManifest, 'sealed_at'> & { accepted_at?: unknown },
  { stamps, cosigned }: { stamps: readonly TrustedStamp[]; cosigned: readonly Cosigned[] },
  at: number,
): Finding {
  const { sealed_at: sealed, accepted_at: accepted } = manifest;
  const sealedAt = Date.parse(sealed);
  const acceptedAt = typeof accepted === 'string' ? Date.parse(accepted) : undefined;
  const latest = at + STAMPING_TOLERANCE_MS;
  const tokens = stamps.map(({ timestamp }) => ({ ...timestamp, time: toRfc3339(timestamp.genTime) }));
  const seen = cosigned.map(({ label, time }) => ({ label, at: time * 1000, time: toRfc3339(time * 1000) }));

  const future = [
    ...(sealedAt > latest ? [`sealed ${sealed}`] : []),
    ...tokens
      .filter(({ genTime, accuracyMs = 0 }) => genTime - accuracyMs > latest)
      .map(({ time }) => `stamped ${time}`),
    ...seen.filter((one) => one.at > latest).map(({ label, time }) => `cosigned by ${label} ${time}`),
  ];
  if (future.length > 0)
    return unknown(`${future.join(', ')}: in the future, by the clock of this machine`, 'in_the_future');
  if (acceptedAt !== undefined && !(acceptedAt <= sealedAt + CLOCK_TOLERANCE_MS))
    return unknown(
      `sealed ${sealed}, before it was accepted, ${printable(String(accepted))}`,
      'accepted_after_sealed',
    );
  const early = tokens.find((token) => predates(token, sealedAt));
  if (early !== undefined)
    return unknown(`stamped ${early.time}, before it was sealed, ${sealed}`, 'stamped_before_sealed');
  const hasty = seen.find((one) => one.at + CLOCK_TOLERANCE_MS < sealedAt);
  if (hasty !== undefined)
    return unknown(
      `cosigned by ${hasty.label} ${hasty.time}, before it was sealed, ${sealed}`,
      'cosigned_before_sealed',
    );
  const order = [
    ...(acceptedAt === undefined ? [] : ['accepted']),
    'sealed',
    ...(tokens.length > 0 ? ['stamped'] : []),
    ...(seen.length > 0 ? ['cosigned'] : []),
  ];
  return passed(`${order.join(', ')}: in this order, and none in the future`);
}

/**
 * Reports that the certificates of all tokens expired before the verdict: the receipt alone no longer shows that its authority stamped it
 * in time. An evidence record does. Undefined while they are valid, and without tokens.
 */
export function checkRenewal(stamps: readonly TrustedStamp[], at: number): Finding | undefined {
  const until = Math.max(...stamps.map((stamp) => stamp.until));
  if (stamps.length === 0 || until >= at) return undefined;
  return notShown(
    `the time-stamp was good until ${toRfc3339(until)}; only an evidence record shows that it was renewed before`,
    'certificate_expired',
  );
}
