/** Why no time-stamp is available now. The reasons of the clock come first. */
export type TimestampTrouble =
  | 'clock_unknown'
  | 'clock_unsynchronized'
  | 'clock_imprecise'
  | 'clock_stepped'
  | 'clock_backwards'
  | 'clock_ahead'
  | 'authority_unreachable'
  | 'authority_refused'
  | 'token_invalid';

/**
 * No time-stamp is available at the moment; the caller can try again later. The message is for logs and
 * administrators; clients of the service only get `timestamp_unavailable`.
 */
export class TimestampUnavailable extends Error {
  readonly trouble: TimestampTrouble;

  constructor(trouble: TimestampTrouble, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'TimestampUnavailable';
    this.trouble = trouble;
  }

  /** Whether the clock is the reason, and not an authority. */
  get isOurClock(): boolean {
    return this.trouble.startsWith('clock_');
  }
}
