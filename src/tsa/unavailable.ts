/** Why there is no time-stamp right now. The clock's own reasons come first. */
export type TimestampTrouble =
  | 'clock_unknown'
  | 'clock_unsynchronized'
  | 'clock_imprecise'
  | 'clock_stepped'
  | 'clock_backwards'
  | 'authority_unreachable'
  | 'authority_refused'
  | 'token_invalid';

/**
 * No time-stamp can be had at the moment; nothing is lost by trying again later. The message is for logs and
 * administrators; callers of the service are told `timestamp_unavailable` and no more.
 */
export class TimestampUnavailable extends Error {
  readonly trouble: TimestampTrouble;

  constructor(trouble: TimestampTrouble, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'TimestampUnavailable';
    this.trouble = trouble;
  }

  /** Whether no authority is to blame. */
  get isOurClock(): boolean {
    return this.trouble.startsWith('clock_');
  }
}
