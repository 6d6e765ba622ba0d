import type { Clock } from '../base/clock.ts';
import type { RatePolicy } from './policies.ts';

/** The level of a client's bucket, in request-milliseconds: whole numbers, so that rounding loses nothing. */
interface Bucket {
  policy: RatePolicy;
  level: number;
  /** The time of that level, in whole milliseconds of the clock. */
  at: number;
  /** Requests taken here and not reported to other nodes yet. */
  untold: number;
}

/** The remaining amount of a policy. */
export interface Remainder {
  remaining: number;
  /** Milliseconds until more is available, at least 1. */
  resetMs: number;
}

/**
 * A leaky bucket for each client: at most `requests` at once, and one more every `windowMs / requests`. The buckets are in memory,
 * because a restart may reset a rate; a limit that must survive a restart is a quota.
 */
export class Rates {
  readonly #clock: Clock;
  readonly #buckets = new Map<string, Bucket>();

  /** A monotonic clock, in whole milliseconds. */
  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts one request. Returns false and counts nothing if no request is left. */
  take(clientId: string, policy: RatePolicy): boolean {
    const level = this.#level(clientId, policy) + policy.windowMs;
    if (level > capacity(policy)) return false;
    const untold = (this.#buckets.get(clientId)?.untold ?? 0) + 1;
    this.#buckets.set(clientId, { policy, level, at: this.#clock(), untold });
    return true;
  }

  /**
   * Counts requests taken by another node: the level may exceed the bucket, so that the average over all nodes is right. For a client that
   * has not sent any request here, nothing is counted.
   */
  add(clientId: string, policy: RatePolicy, requests: number): void {
    const bucket = this.#buckets.get(clientId);
    if (bucket === undefined) return;
    const level = this.#level(clientId, policy) + requests * policy.windowMs;
    const { untold } = bucket;
    // The debt is limited to one window, whatever other nodes report.
    const bounded = Math.min(level, 2 * capacity(policy));
    this.#buckets.set(clientId, { policy, level: bounded, at: this.#clock(), untold });
  }

  /**
   * The number of requests taken since the last call, by client. If the caller stops early, the next call begins with the remaining
   * clients.
   */
  *untold(): Iterable<readonly [clientId: string, requests: number]> {
    for (const [clientId, bucket] of this.#buckets) {
      const { untold } = bucket;
      if (untold === 0) continue;
      bucket.untold = 0;
      this.#buckets.delete(clientId);
      this.#buckets.set(clientId, bucket);
      yield [clientId, untold];
    }
  }

  remainder(clientId: string, policy: RatePolicy): Remainder {
    const { requests, windowMs } = policy;
    const level = this.#level(clientId, policy);
    const remaining = Math.max(0, Math.floor((capacity(policy) - level) / windowMs));
    const nextLevel = capacity(policy) - (remaining + 1) * windowMs;
    return { remaining, resetMs: Math.ceil((level - nextLevel) / requests) };
  }

  /** Clients that sent a request since the start. */
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
