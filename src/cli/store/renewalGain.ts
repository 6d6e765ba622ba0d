/** Decides which time-stamps are worth a renewal. */
import { toRfc3339 } from '../../base/clock.ts';
import { OperatorError } from '../../base/errors.ts';
import type { Due } from '../../prove/renewal/renewalSurvey.ts';

export const DAY_MS = 86_400_000;

/** The reason why a token is of no use for a run. */
export interface Unusable {
  fault: string;
  remedy?: string;
  /** Another token may do: this one is only not later than everything that it renews. */
  isEarly?: true;
}

/** A renewal that gains less is not made automatically: the timer would make another one each time. */
const GAIN_MS_MIN = 30 * DAY_MS;

/** The required gain of a new time-stamp. */
export interface Gain {
  /** The first end among the standing time-stamps. */
  first: Due | undefined;
  /** Whether a person requested the renewal: it need not end later than the time-stamps it renews, only not before. */
  asked: boolean;
  shorter: true | undefined;
}

/** The reason to refuse a time-stamp that ends before those it renews, or hardly later; undefined if it gains enough. */
export function gainFault(
  { due: ends }: { due: Due },
  { first, asked, shorter }: Gain,
): Unusable | undefined {
  if (first === undefined || shorter || ends.at >= first.at + (asked ? 0 : GAIN_MS_MIN)) return undefined;
  const gained =
    ends.at < first.at
      ? `before what it renews (${toRfc3339(first.at)})`
      : 'hardly later than what it renews';
  return {
    fault: `the new time-stamp would end ${toRfc3339(ends.at)}, ${gained}`,
    remedy: `${remedyOf(ends)}; or renew nevertheless, with --shorter`,
  };
}

/** Not a fault while there is time to wait for a better certificate. */
export class GainsNothing extends OperatorError {
  constructor({ fault, remedy = '' }: Unusable) {
    super(`${fault}: nothing is renewed`, { remedy });
    this.name = 'GainsNothing';
  }
}

/** The first end of time-stamps. */
export function firstDue(judged: readonly { due: Due }[]): Due {
  return judged.map(({ due }) => due).reduce((first, one) => (one.at < first.at ? one : first));
}

function remedyOf({ algorithm, ofDigest }: Due): string {
  if (algorithm === undefined)
    return 'install a new certificate of the time-stamping key (pdfseal hsm certify), or name another authority';
  if (ofDigest !== undefined)
    return 'name another hash function: renewal.hash in the configuration, or --hash';
  return `name an authority that does without ${algorithm}, or give your own a key with another algorithm`;
}
