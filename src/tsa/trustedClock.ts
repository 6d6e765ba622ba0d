import { EventEmitter, once } from 'node:events';
import type { Logger } from 'pino';
import { type Clock, systemClock, toRfc3339 } from '../base/clock.ts';
import { ServiceError } from '../base/errors.ts';
import { type ClockSource, readSynchronization, type Synchronization } from './synchronization.ts';
import { type TimestampTrouble, TimestampUnavailable } from './unavailable.ts';

export interface TrustedClockOptions {
  source: ClockSource;
  /** The accuracy stated in tokens, in milliseconds. If the clock's error can be larger, nothing is stamped. */
  accuracyMs: number;
  /** Newest time in the log, `sealed_at` or of a token, milliseconds since the epoch. An earlier time is not trusted. */
  newest: number;
  /** The last trusted date of the previous run; default: the system clock's. */
  lastDate?: number;
  /**
   * How far the clock may be ahead of the last trusted date and the time since, in milliseconds, if no source vouches for it. A batch with
   * a wrong date would prevent sealing until that date. If absent, this is not checked, because no user of this clock could accept the
   * date.
   */
  aheadMsMax?: number;
  logger: Logger;
  /** Interval of queries to the source; default: ten seconds, or one if the system clock itself is the source. */
  intervalMs?: number;
  /** For tests: the wall clock and the monotonic clock, in milliseconds. */
  clock?: Clock;
  monotonicMs?: () => number;
}

export interface ClockStatus {
  trust: ClockSource['trust'];
  /** Undefined while the clock is trusted. */
  trouble?: TimestampTrouble;
  detail: string;
  errorBoundMs?: number;
}

interface Fault {
  trouble: TimestampTrouble;
  detail: string;
}

const INTERVAL_MS = 10_000;
const SYSTEM_INTERVAL_MS = 1_000;
/** A reading is valid for this many intervals. */
const READING_INTERVALS_MAX = 3;
/** Largest drift of a clock between readings (RFC 5905, section 4: PHI). */
const DRIFT_PER_MS = 15e-6;
/**
 * How long the source is not trusted after a step. chrony notices a step only at its next measurements; until then it still reports the old
 * error.
 */
const STEP_HOLD_MS = 30_000;
/** The same if no source is queried: nothing will be noticed later, and a step that is reversed at once is ignored. */
const SYSTEM_STEP_HOLD_MS = 5_000;

/** Queries the source once, and then at every interval until the clock is closed. Also opens if the clock is not trusted. */
export async function openTrustedClock(options: TrustedClockOptions): Promise<TrustedClock> {
  const clock = new TrustedClock(options);
  await clock.read();
  return clock;
}

/**
 * The system clock, while it can be trusted. The daemon checks five things: whether the clock is synchronized, how
 * large its error can be, whether it was set (it then departs from the monotonic clock), whether it is behind
 * the log and, if no source vouches for it, whether it is far ahead.
 */
export class TrustedClock {
  readonly accuracyMs: number;
  readonly #source: ClockSource;
  readonly #logger: Logger;
  readonly #intervalMs: number;
  readonly #stepHoldMs: number;
  readonly #aheadMsMax: number;
  readonly #clock: Clock;
  readonly #monotonicMs: () => number;
  readonly #changes = new EventEmitter().setMaxListeners(0);
  readonly #timer: NodeJS.Timeout;

  #floor: number;
  /** The last time returned by {@link now}. */
  #given = 0;
  #reading: (Synchronization & { atMs: number }) | undefined;
  #readFailure = 'not asked yet';
  /** Wall clock minus monotonic clock, when last trusted. */
  #offsetMs: number | undefined;
  /** When the wall clock departed from the monotonic clock, on the monotonic clock. */
  #steppedAtMs: number | undefined;
  #trouble: TimestampTrouble | undefined;
  /** The last trusted date, and the monotonic clock at that time. */
  #believed: { date: number; atMs: number };

  /** Use {@link openTrustedClock}. */
  constructor(options: TrustedClockOptions) {
    this.accuracyMs = options.accuracyMs;
    this.#source = options.source;
    this.#logger = options.logger;
    const isSystem = options.source.trust === 'system';
    this.#intervalMs = options.intervalMs ?? (isSystem ? SYSTEM_INTERVAL_MS : INTERVAL_MS);
    this.#stepHoldMs = isSystem ? SYSTEM_STEP_HOLD_MS : STEP_HOLD_MS;
    this.#aheadMsMax = options.aheadMsMax ?? Number.POSITIVE_INFINITY;
    this.#clock = options.clock ?? systemClock;
    this.#monotonicMs = options.monotonicMs ?? (() => performance.now());
    this.#floor = options.newest;
    this.#believed = { date: options.lastDate ?? this.#clock(), atMs: this.#monotonicMs() };
    this.#timer = setInterval(() => void this.read(), this.#intervalMs).unref();
  }

  /** Milliseconds since the epoch. Throws TimestampUnavailable if the clock cannot be trusted. */
  now(): number {
    const wall = this.#clock();
    const fault = this.#judge(wall);
    if (fault !== undefined) throw new TimestampUnavailable(fault.trouble, `the clock: ${fault.detail}`);
    // Within its accuracy a trusted clock may go back, for example at a leap second. The dates derived from it do not.
    const isSameTime = this.#given - wall <= this.accuracyMs;
    this.#given = Math.max(wall, this.#floor, isSameTime ? this.#given : 0);
    return this.#given;
  }

  isTrusted(): boolean {
    return this.#judge(this.#clock()) === undefined;
  }

  /**
   * The date, milliseconds since the epoch: the clock's while it is trusted, otherwise the last trusted date plus the time since then. So a
   * wrong clock does not make anything expire.
   */
  date(): number {
    const wall = this.#clock();
    if (this.#judge(wall) === undefined) this.#believed = { date: wall, atMs: this.#monotonicMs() };
    return this.#expected;
  }

  /**
   * An administrator vouches for a date that is far ahead: from now on it is trusted. Throws ServiceError unless that is the current
   * problem.
   */
  acceptDate(): { from: number; to: number } {
    const wall = this.#clock();
    const fault = this.#judge(wall);
    if (fault?.trouble !== 'clock_ahead') {
      const why = fault === undefined ? 'it is trusted' : `${fault.trouble}: ${fault.detail}`;
      throw new ServiceError(
        'invalid_request',
        `The clock is not far ahead, so there is nothing to accept (${why}).`,
      );
    }
    const from = Math.max(this.#expected, this.#floor);
    this.#believed = { date: wall, atMs: this.#monotonicMs() };
    this.#report();
    this.#changes.emit('read');
    return { from, to: wall };
  }

  /** The clock's time, if a source confirms it; undefined if it is not checked (clock.trust = "system"). */
  vouched(): number | undefined {
    const wall = this.#clock();
    return this.#source.trust === 'system' || this.#judge(wall) !== undefined ? undefined : wall;
  }

  /** Resolves as soon as the clock is trusted, or when the signal aborts. Never rejects. */
  async recovered(signal: AbortSignal): Promise<void> {
    while (!this.isTrusted() && !signal.aborted) {
      await once(this.#changes, 'read', { signal }).catch(() => {});
    }
  }

  /** The log contains this time. From now on, earlier times are not trusted. */
  raiseFloor(time: number): void {
    this.#floor = Math.max(this.#floor, time);
  }

  status(): ClockStatus {
    const fault = this.#judge(this.#clock());
    const bound = this.#errorBoundMs();
    return {
      trust: this.#source.trust,
      trouble: fault?.trouble,
      detail: fault?.detail ?? this.#reading?.detail ?? this.#readFailure,
      errorBoundMs: bound,
    };
  }

  /** Queries the source now. Never rejects. Only the timer and tests call it. */
  async read(): Promise<void> {
    try {
      this.#reading = { ...(await readSynchronization(this.#source)), atMs: this.#monotonicMs() };
    } catch (error) {
      this.#reading = undefined;
      this.#readFailure = `${this.#source.trust} cannot be asked: ${firstLine(error)}`;
    }
    this.#watchOffset(this.#clock(), this.#reading?.synchronized ?? false);
    this.date();
    this.#report();
    this.#changes.emit('read');
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #judge(wall: number): Fault | undefined {
    this.#watchOffset(wall, false);
    const reading = this.#reading;
    if (reading === undefined) return { trouble: 'clock_unknown', detail: this.#readFailure };
    const isOld = this.#monotonicMs() - reading.atMs > READING_INTERVALS_MAX * this.#intervalMs;
    if (isOld && this.#source.trust !== 'system') {
      return { trouble: 'clock_unknown', detail: `${this.#source.trust} has not answered for too long` };
    }
    if (!reading.synchronized) return { trouble: 'clock_unsynchronized', detail: reading.detail };
    const bound = this.#errorBoundMs();
    if (bound !== undefined && bound > this.accuracyMs) {
      const detail = `may be wrong by ${Math.ceil(bound)} ms, more than the ${this.accuracyMs} ms that tokens promise`;
      return { trouble: 'clock_imprecise', detail };
    }
    if (this.#steppedAtMs !== undefined) return { trouble: 'clock_stepped', detail: 'it was set' };
    // Times within the accuracy count as equal: a disciplined clock occasionally goes back a little.
    if (wall + this.accuracyMs < this.#floor) {
      const detail = `it says ${toRfc3339(wall)}, but the newest time in the log is ${toRfc3339(this.#floor)}`;
      return { trouble: 'clock_backwards', detail };
    }
    const expected = Math.max(this.#expected, this.#floor);
    // Before anything is sealed, there is no known date to compare with.
    if (this.#source.trust === 'system' && this.#floor > 0 && wall - expected > this.#aheadMsMax) {
      const detail = `it says ${toRfc3339(wall)}, but by the last trusted date and the time since, it is ${toRfc3339(expected)}; if the clock is right, run \`pdfseal clock accept\``;
      return { trouble: 'clock_ahead', detail };
    }
    return undefined;
  }

  /** The last trusted date, plus the time since then. */
  get #expected(): number {
    return Math.floor(this.#believed.date + this.#monotonicMs() - this.#believed.atMs);
  }

  /** Rate corrections change both clocks alike. Only a step moves them apart. */
  #watchOffset(wall: number, synchronized: boolean): void {
    const now = this.#monotonicMs();
    const offset = wall - now;
    this.#offsetMs ??= synchronized ? offset : undefined;
    if (this.#offsetMs === undefined) return;
    const departureMs = Math.abs(offset - this.#offsetMs);
    // A leap second equals the default accuracy. If the limit counted both ways, the clock would alternate between trusted and not trusted.
    if (departureMs > this.accuracyMs) this.#steppedAtMs ??= now;
    else if (departureMs <= this.accuracyMs / 2) this.#steppedAtMs = undefined;
    if (synchronized && this.#steppedAtMs !== undefined && now - this.#steppedAtMs >= this.#stepHoldMs) {
      this.#offsetMs = offset;
      this.#steppedAtMs = undefined;
    }
  }

  #errorBoundMs(): number | undefined {
    const { errorBoundMs, atMs = 0 } = this.#reading ?? {};
    if (errorBoundMs === undefined) return undefined;
    return errorBoundMs + (this.#monotonicMs() - atMs) * DRIFT_PER_MS;
  }

  /** Logs once when the clock is no longer trusted, and once when it is trusted again. */
  #report(): void {
    const { trouble, detail } = this.status();
    if (trouble === this.#trouble) return;
    this.#trouble = trouble;
    if (trouble === undefined)
      this.#logger.info({ event: 'clock_trusted', detail }, 'the clock is trusted again');
    else {
      const fields = { event: 'clock_untrusted', trouble, detail };
      this.#logger.error(fields, 'the clock is not trusted: nothing is time-stamped');
    }
  }
}

function firstLine(error: unknown): string {
  const [line = ''] = (error instanceof Error ? error.message : String(error)).split('\n');
  return line.slice(0, 200);
}
