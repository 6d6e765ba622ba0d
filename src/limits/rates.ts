import type { Clock } from '../base/clock.ts';
import type { RatePolicy } from './policies.ts';

/** How full the bucket of a client is, in request-milliseconds: whole numbers, so that nothing is lost by rounding. */
interface Bucket {
  policy: RatePolicy;
  level: number;
  /** When the level was that, in whole milliseconds of the clock. */
  at: number;
}

/** What is left of a policy. */
export interface Remainder {
  remaining: number;
  /** Milliseconds until there may be more, at least 1. */
  resetMs: number;
}

/**
 * A leaky bucket for each client: `requests` at once at most, and one comes back each `windowMs / requests`. In memory, since
 * after a restart nobody minds: what is to outlast it is a quota.
 */
export class Rates {
  readonly #clock: Clock;
  readonly #buckets = new Map<string, Bucket>();

  /** Whole milliseconds of a clock that nobody sets. */
  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts one request; false, and nothing is counted, when there is none left. */
  take(clientId: string, policy: RatePolicy): boolean {
    const level = this.#level(clientId, policy) + policy.windowMs;
    if (level > capacity(policy)) return false;
    this.#buckets.set(clientId, { policy, level, at: this.#clock() });
    return true;
  }

  remainder(clientId: string, policy: RatePolicy): Remainder {
    const { requests, windowMs } = policy;
    const level = this.#level(clientId, policy);
    const remaining = Math.floor((capacity(policy) - level) / windowMs);
    const nextLevel = capacity(policy) - (remaining + 1) * windowMs;
    return { remaining, resetMs: Math.ceil((level - nextLevel) / requests) };
  }

  /** Those that sent a request since the start. */
  clients(): Iterable<string> {
    return this.#buckets.keys();
  }

  #level(clientId: string, policy: RatePolicy): number {
    const bucket = this.#buckets.get(clientId);
    const isOurs = bucket?.policy.requests === policy.requests && bucket.policy.windowMs === policy.windowMs;
    if (!isOurs) return 0;
    const now = this.#clock();
    bucket.level = Math.max(0, bucket.level - Math.max(0, now - bucket.at) * policy.requests);
    bucket.at = now;
    return bucket.level;
  }
}

function capacity({ requests, windowMs }: RatePolicy): number {
  return requests * windowMs;
}
