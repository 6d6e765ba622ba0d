/** Classifies how soon a certificate expires: the same table for log, status, metrics and `pdfseal doctor`. */

/** Milliseconds since the epoch. */
export interface Validity {
  readonly notBefore: number;
  readonly notAfter: number;
}

/** `ahead`: plan the renewal; `soon`: renew it; `urgent`: renew it immediately. */
export const URGENCIES = ['none', 'ahead', 'soon', 'urgent'] as const;
export type Urgency = (typeof URGENCIES)[number];

/** Each urgency begins at most this many days before expiry. */
const DAYS: readonly [urgency: Urgency, days: number][] = [
  ['urgent', 7],
  ['soon', 30],
  ['ahead', 60],
];

const DAY_MS = 86_400_000;

/**
 * A certificate that is valid for only weeks is renewed late: only the last third of its validity counts. One that is not valid yet is as
 * useless as one that has expired.
 */
export function urgencyOf({ notBefore, notAfter }: Validity, now: number): Urgency {
  if (now < notBefore) return 'urgent';
  const lastThirdDays = (notAfter - notBefore) / DAY_MS / 3;
  const left = daysLeft({ notAfter }, now);
  return DAYS.find(([, days]) => left <= Math.min(days, lastThirdDays))?.[0] ?? 'none';
}

/**
 * The same for a revocation list, which its authority replaces regularly: a week before expiry would be most of its validity, so fractions
 * of it are used instead, the last third and the last tenth.
 */
export function listUrgencyOf({ notBefore, notAfter }: Validity, now: number): Urgency {
  if (now < notBefore) return 'urgent';
  const left = (notAfter - now) / (notAfter - notBefore);
  return left <= 1 / 10 ? 'urgent' : left <= 1 / 3 ? 'soon' : 'none';
}

/** Whole days until `notAfter`, both in milliseconds since the epoch; negative after it has passed. */
export function daysLeft({ notAfter }: Pick<Validity, 'notAfter'>, now: number): number {
  return Math.floor((notAfter - now) / DAY_MS);
}
