import { type Clock, systemClock } from '../base/clock.ts';
import type { Job } from '../job/job.ts';
import type { ServiceTime } from '../store/serviceTime.ts';
import type { TrustedClock } from '../tsa/trustedClock.ts';

/** How often service time is made durable. A crash loses at most this much of it. */
const KEEP_MS = 60_000;

/**
 * Time for everything that must not depend on the system clock alone. Durations are measured in service time. Dates set by users, such as
 * the expiry of an API key, are compared with the last trusted date.
 */
export class Timekeeping {
  readonly #serviceTime: ServiceTime;
  readonly #clock: Pick<TrustedClock, 'date' | 'vouched'>;
  readonly #wall: Clock;

  constructor(
    serviceTime: ServiceTime,
    clock: Pick<TrustedClock, 'date' | 'vouched'>,
    wall: Clock = systemClock,
  ) {
    this.#serviceTime = serviceTime;
    this.#clock = clock;
    this.#wall = wall;
  }

  /** See {@link TrustedClock.date}. */
  readonly date: Clock = () => this.#clock.date();

  /** The time of acceptance: by the system clock, as the receipt states it, and in service time. */
  stamp(): Required<Pick<Job, 'acceptedAt' | 'since'>> & Pick<Job, 'dated'> {
    const vouched = this.#clock.vouched();
    const since = this.#serviceTime.now();
    return { acceptedAt: vouched ?? this.#wall(), since, ...(vouched !== undefined && { dated: true }) };
  }

  /**
   * How long ago a job was accepted, in milliseconds. This is how long the service has been running since; time while it was off counts
   * only if an outside source vouched for both dates. Never more than the time that has really passed.
   */
  ageMs({ acceptedAt, since, dated }: Pick<Job, 'acceptedAt' | 'since' | 'dated'>): number {
    const served = this.#serviceTime.since(since);
    const today = dated ? this.#clock.vouched() : undefined;
    return today === undefined ? served : Math.max(served, today - acceptedAt);
  }

  /** Starts to make service time durable. Returns a function that stops this, after the current write and, unless `isFull`, a last one. */
  start({ onFatal, isFull }: { onFatal(error: unknown): void; isFull(): boolean }): () => Promise<void> {
    const keep = () => this.#serviceTime.keep(this.date());
    let keeping = keep().catch(onFatal);
    const timer = setInterval(() => {
      keeping = keeping.then(keep).catch(onFatal);
    }, KEEP_MS);
    return async () => {
      clearInterval(timer);
      // Does not wait for a write that waits for free disk space.
      if (!isFull()) await keeping.then(keep).catch(onFatal);
    };
  }
}
