/**
 * The time that the service has run, in milliseconds. Service time advances by a monotonic clock while the daemon runs, and stands still
 * while it does not: so setting the date never makes anything expire, and everything that waits gets all the time it was promised.
 * Everything durable that has a time bears a stamp of it.
 *
 * Service time begins at the date. If its record is lost, it begins again, and nothing counts as older than that: earlier stamps have their
 * whole time from then on.
 */
export interface ServiceTime {
  /** The stamp at which service time began in this store. */
  readonly begunAt: number;

  /** The date when service time was last kept, milliseconds since the epoch; undefined before the first time. */
  readonly lastDate: number | undefined;

  /** A stamp of this moment: a whole number. */
  now(): number;

  /** Milliseconds since a stamp; without a stamp, since the beginning. */
  since(stamp: number | undefined): number;

  /** Stamps below the returned one are older than that many milliseconds; 0 while no stamp can be. */
  before(ms: number): number;

  /** The date of a stamp if the service runs without a break, for people. */
  dateOf(stamp: number): number;

  /**
   * Makes service time durable, with the trusted date. The time between the last call and a crash is not counted, so nothing ends early.
   */
  keep(date: number): Promise<void>;
}
