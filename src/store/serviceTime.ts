/**
 * How long the service has been at work, in milliseconds. It goes on while the daemon runs, by a clock that nobody can set, and stands still
 * while it does not: so nothing grows old because the date was set, and what waits gets all the time it was promised. Whatever is durable
 * and has its time bears a stamp of it.
 *
 * It begins at the date, so that stamps of versions that knew none but the date compare with it. Nothing counts as older than the
 * beginning: what those versions stamped has its whole time from then on, whatever their clocks said.
 */
export interface ServiceTime {
  /** The stamp where it began in this store. */
  readonly begunAt: number;

  /** The date that was believed when it was kept last, milliseconds since the epoch; undefined until it is. */
  readonly lastDate: number | undefined;

  /** A stamp of this moment: a whole number. */
  now(): number;

  /** Milliseconds since a stamp; since the beginning for what has none. */
  since(stamp: number | undefined): number;

  /** Stamps below the one returned are older than that many milliseconds; 0 while none can be. */
  before(ms: number): number;

  /** The date that belongs to a stamp if the service goes on without a break, for people. */
  dateOf(stamp: number): number;

  /**
   * Makes it durable, with the date that is believed. What passes between the last time and a crash is not counted: nothing ends early
   * by that.
   */
  keep(date: number): Promise<void>;
}
