import type { Clock } from '../base/clock.ts';
import { encodeRecord, type OneRecord, readable } from './records.ts';

/**
 * The time that the service has run, in milliseconds. Service time advances by a monotonic clock while the daemon runs, and stands still
 * while it does not: so setting the date never makes anything expire, and everything that waits gets all the time it was promised.
 * Everything durable that has a time bears a stamp of it.
 *
 * Service time begins at the date. If its record is lost, it begins again, and nothing counts as older than that: earlier stamps have their
 * whole time from then on.
 */
export type ServiceTime = Pick<
  RunningTime,
  'begunAt' | 'lastDate' | 'now' | 'since' | 'before' | 'dateOf' | 'keep'
>;

/** Service time as it was last kept. */
export interface ServiceTimePoint {
  elapsedMs: number;
  begunAt: number;
  /** The date at that point, as far as it was trusted; milliseconds since the epoch. */
  date?: number;
}

export interface ServiceTimeOptions {
  clock: Clock;
  /** A monotonic clock, milliseconds. */
  monotonicMs: Clock;
}

/** The service time that a store has when it is opened, and how more of it is kept. */
export interface KeptTime {
  /** Undefined if none is readable: service time begins again, and nothing ends early. */
  point: ServiceTimePoint | undefined;
  /**
   * Sealing time of the newest batch, 0 without any. Earlier dates are not believed (see `tsa/trustedClock.ts`): a machine whose clock is
   * far behind does not begin before it.
   */
  newestSealedAt: number;
  keep(point: ServiceTimePoint): Promise<void>;
}

/** Opens the service time of a store: in one record, next to the newest batch. */
export async function openServiceTime(
  { read, write }: OneRecord,
  newestBatch: Buffer | undefined,
  options: ServiceTimeOptions,
): Promise<RunningTime> {
  const point = readable<ServiceTimePoint>(await read());
  const newestSealedAt = readable<{ sealedAt: number }>(newestBatch)?.sealedAt ?? 0;
  return new RunningTime({ point, newestSealedAt, keep: (next) => write(encodeRecord(next)) }, options);
}

/** Twice the interval at which service time is kept. */
const AHEAD_MS_MAX = 120_000;

/** The kept service time, plus the time since it was read. */
export class RunningTime {
  /** The stamp at which service time began in this store. */
  readonly begunAt: number;
  /** The date when service time was last kept, milliseconds since the epoch; undefined before the first time. */
  readonly lastDate: number | undefined;
  readonly #keep: KeptTime['keep'];
  readonly #clock: Clock;
  readonly #monotonicMs: Clock;
  #openedMs: number;
  #openedAtMs: number;

  constructor({ point, newestSealedAt, keep }: KeptTime, { clock, monotonicMs }: ServiceTimeOptions) {
    this.#keep = keep;
    this.#clock = clock;
    this.#monotonicMs = monotonicMs;
    this.#openedMs = point?.elapsedMs ?? Math.max(clock(), newestSealedAt);
    this.#openedAtMs = monotonicMs();
    this.begunAt = point?.begunAt ?? this.#openedMs;
    this.lastDate = point?.date;
  }

  /** A stamp of this moment: a whole number. */
  now(): number {
    return this.#openedMs + Math.max(0, Math.floor(this.#monotonicMs() - this.#openedAtMs));
  }

  /** Milliseconds since a stamp; without a stamp, since the beginning. */
  since(stamp: number | undefined = this.begunAt): number {
    return Math.max(0, this.now() - Math.max(stamp, this.begunAt));
  }

  /** Stamps below the returned one are older than that many milliseconds; 0 while no stamp can be. */
  before(ms: number): number {
    const stamp = this.now() - ms;
    return stamp < this.begunAt ? 0 : stamp;
  }

  /** The date of a stamp if the service runs without a break, for people. */
  dateOf(stamp: number): number {
    return this.#clock() + stamp - this.now();
  }

  /** Goes back to the point that another process has kept, if this one went on while no process kept any: so nothing ends early. */
  follow({ elapsedMs }: ServiceTimePoint): void {
    const latest = elapsedMs + AHEAD_MS_MAX;
    if (this.now() <= latest) return;
    this.#openedMs = latest;
    this.#openedAtMs = this.#monotonicMs();
  }

  /**
   * Makes service time durable, with the trusted date. The time between the last call and a crash is not counted, so nothing ends early.
   */
  async keep(date: number): Promise<void> {
    await this.#keep({ elapsedMs: this.now(), begunAt: this.begunAt, date });
  }
}
