import { type Clock, systemClock } from '../base/clock.ts';
import type { Job } from '../job/job.ts';
import type { ServiceTime } from '../store/serviceTime.ts';
import type { TrustedClock } from '../tsa/trustedClock.ts';

/** How often service time is made durable: so much of it may be lost in a crash. */
const KEEP_MS = 60_000;

/**
 * What time it is, for whatever is not to believe the system clock blindly. Durations are measured in service time; days that somebody
 * named, such as the end of an API key, come by the date that was last believed.
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

  /** When a job is accepted: by the system clock, which is what its receipt says, and in service time. */
  stamp(): Required<Pick<Job, 'acceptedAt' | 'since'>> & Pick<Job, 'dated'> {
    const vouched = this.#clock.vouched();
    const since = this.#serviceTime.now();
    return { acceptedAt: vouched ?? this.#wall(), since, ...(vouched !== undefined && { dated: true }) };
  }

  /**
   * How long ago a job was accepted, in milliseconds: as long as the service was at work since, and with what it was not where that is
   * known for certain, both days being vouched for by others. Never more than has passed.
   */
  ageMs({ acceptedAt, since, dated }: Pick<Job, 'acceptedAt' | 'since' | 'dated'>): number {
    const served = this.#serviceTime.since(since);
    const today = dated ? this.#clock.vouched() : undefined;
    return today === undefined ? served : Math.max(served, today - acceptedAt);
  }

  /** Keeps service time from now on. Returns the function that ends it, after the write under way and a last one unless `isFull`. */
  start({ onFatal, isFull }: { onFatal(error: unknown): void; isFull(): boolean }): () => Promise<void> {
    const keep = () => this.#serviceTime.keep(this.date());
    let keeping = keep().catch(onFatal);
    const timer = setInterval(() => {
      keeping = keeping.then(keep).catch(onFatal);
    }, KEEP_MS);
    return async () => {
      clearInterval(timer);
      // What waits for room on the disk is not waited for.
      if (!isFull()) await keeping.then(keep).catch(onFatal);
    };
  }
}
