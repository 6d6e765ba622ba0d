import type { Clock } from '../base/clock.ts';
import type { QuotaWindow } from '../job/job.ts';
import { QUOTA_RETENTION_MS, type QuotaCount } from '../store/store.ts';
import type { QuotaPolicy } from './policies.ts';
import type { Remainder } from './rates.ts';

/** A Monday, so that windows of seven days begin on Mondays. Windows of a day and of an hour begin with the day and the hour, UTC. */
const WINDOWS_BEGIN_MS = Date.UTC(1970, 0, 5);

/** The window of this length that contains `now`. */
export function windowAt(now: number, name: string, { windowMs }: QuotaPolicy): QuotaWindow {
  const startsAt = now - ((((now - WINDOWS_BEGIN_MS) % windowMs) + windowMs) % windowMs);
  return { name, startsAt, endsAt: startsAt + windowMs };
}

/**
 * The number of jobs that count against each quota: the jobs in the store, and those being received. A job is counted before it is
 * completely received, and uncounted if it is not accepted, so that concurrent requests cannot exceed a quota.
 */
export class Quotas {
  readonly #clock: Clock;
  readonly #counts: Map<string, QuotaCount>;

  /** `counts` are the counts in the store. From now on only this object may change them. */
  constructor(clock: Clock, counts: QuotaCount[]) {
    this.#clock = clock;
    this.#counts = new Map(counts.map((count) => [nameOf(count.clientId, count), { ...count }]));
  }

  /** Counts one job. Returns undefined and counts nothing if the quota is used up. */
  take(clientId: string, name: string, policy: QuotaPolicy): QuotaWindow | undefined {
    const window = windowAt(this.#clock(), name, policy);
    const count = this.#counts.get(nameOf(clientId, window)) ?? this.#begin(clientId, window);
    if (count.jobs >= policy.jobs) return undefined;
    count.jobs += 1;
    return window;
  }

  /** Uncounts a job that was not accepted. */
  giveBack(clientId: string, window: QuotaWindow): void {
    const count = this.#counts.get(nameOf(clientId, window));
    if (count) count.jobs -= 1;
  }

  remainder(clientId: string, name: string, policy: QuotaPolicy): Remainder {
    const now = this.#clock();
    const window = windowAt(now, name, policy);
    const jobs = this.#counts.get(nameOf(clientId, window))?.jobs ?? 0;
    return { remaining: Math.max(0, policy.jobs - jobs), resetMs: window.endsAt - now };
  }

  /** Clients that created a job in a recent window. */
  clients(): string[] {
    return Array.from(this.#counts.values(), ({ clientId }) => clientId);
  }

  #begin(clientId: string, window: QuotaWindow): QuotaCount {
    for (const [name, { endsAt }] of this.#counts) {
      if (endsAt < window.startsAt - QUOTA_RETENTION_MS) this.#counts.delete(name);
    }
    const count = { clientId, ...window, jobs: 0 };
    this.#counts.set(nameOf(clientId, window), count);
    return count;
  }
}

function nameOf(clientId: string, { name, startsAt, endsAt }: QuotaWindow): string {
  return JSON.stringify([clientId, name, startsAt, endsAt]);
}
