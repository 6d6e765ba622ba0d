import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { MessageImprint } from '../asn1/timestampQuery.ts';
import type { Clock } from '../base/clock.ts';
import { requestStamp, type Stamp, type TimestampAuthority } from './stamp.ts';
import type { ClockStatus, TrustedClock } from './trustedClock.ts';
import { type TimestampTrouble, TimestampUnavailable } from './unavailable.ts';

export interface TimestampsOptions {
  /** In order of preference. The list contains the built-in authority only if it is configured. */
  authorities: readonly TimestampAuthority[];
  clock: TrustedClock;
  logger: Logger;
  /** For tests: a monotonic clock, in milliseconds. */
  monotonicMs?: Clock;
}

export interface AuthorityStatus {
  name: string;
  /** Verified tokens from this authority since the program started. */
  tokens: number;
  failures: number;
  /** The authority's newest failure, if no token has followed it. */
  trouble?: TimestampTrouble;
  /** When the first certificate of its newest token's chain expires; milliseconds since the epoch. */
  notAfter?: number;
}

interface Member {
  authority: TimestampAuthority;
  status: AuthorityStatus;
  /** Until this time, the authority is asked only after all others. */
  avoidUntilMs: number;
}

/** How long a failed authority is asked last, so that stamps do not wait for its time-out each time. */
const AVOID_MS = 30_000;
/** Pauses after all authorities failed. */
const PAUSE_MS_MIN = 250;
const PAUSE_MS_MAX = 5_000;

/** Gets time-stamps from the first authority that returns a valid one. If none does, the stamp fails. */
export class Timestamps {
  readonly #members: Member[];
  readonly #clock: TrustedClock;
  readonly #logger: Logger;
  readonly #monotonicMs: Clock;
  #pauseMs = 0;
  #pausedUntilMs = 0;

  constructor({ authorities, clock, logger, monotonicMs }: TimestampsOptions) {
    this.#clock = clock;
    this.#logger = logger;
    this.#monotonicMs = monotonicMs ?? (() => performance.now());
    this.#members = authorities.map((authority) => ({
      authority,
      status: { name: authority.name, tokens: 0, failures: 0 },
      avoidUntilMs: 0,
    }));
  }

  /**
   * Gets a verified token over a SHA-512 digest (64 bytes). Takes at most the sum of the authorities' time-outs. Throws
   * TimestampUnavailable if no authority returns a token, our clock cannot be trusted to check it, or the signal aborts.
   */
  async stamp(digest: Uint8Array, signal?: AbortSignal): Promise<Stamp> {
    this.#clock.now();
    let last: TimestampUnavailable | undefined;
    const now = this.#monotonicMs();
    const avoided = (member: Member) => Number(member.avoidUntilMs > now);
    for (const member of this.#members.toSorted((a, b) => avoided(a) - avoided(b))) {
      try {
        const imprint = { algorithm: 'sha512', digest } as const;
        const stamp = await requestStamp(member.authority, imprint, this.#clock, signal);
        this.#succeed(member, stamp);
        return stamp;
      } catch (error) {
        // The authority is not responsible for a cancelled request.
        if (!(error instanceof TimestampUnavailable) || error.isOurClock || signal?.aborted) throw error;
        this.#fail(member, error);
        last = error;
      }
    }
    this.#pauseMs = Math.min(Math.max(this.#pauseMs * 2, PAUSE_MS_MIN), PAUSE_MS_MAX);
    this.#pausedUntilMs = this.#monotonicMs() + this.#pauseMs;
    throw last ?? new TimestampUnavailable('authority_unreachable', 'no time-stamp authority is configured');
  }

  /**
   * Gets a verified token from one authority. An authority that refuses a renewal may still accept a seal, so the result does not affect
   * {@link stamp}. Throws as {@link stamp} does.
   */
  async stampBy(name: string, imprint: MessageImprint, signal: AbortSignal): Promise<Stamp> {
    const member = this.#members.find(({ authority }) => authority.name === name);
    if (member === undefined)
      throw new TimestampUnavailable('authority_unreachable', `there is no authority ${name}`);
    return requestStamp(member.authority, imprint, this.#clock, signal);
  }

  /** Whether a stamp can succeed: the clock is trusted, and not all authorities have just failed. */
  canStamp(): boolean {
    return this.#clock.isTrusted() && this.#monotonicMs() >= this.#pausedUntilMs;
  }

  /** Resolves as soon as {@link canStamp}, or when the signal aborts. Never rejects. */
  async recovered(signal: AbortSignal): Promise<void> {
    while (!this.canStamp() && !signal.aborted) {
      await this.#clock.recovered(signal);
      const pauseMs = Math.ceil(this.#pausedUntilMs - this.#monotonicMs());
      if (pauseMs > 0) await sleep(pauseMs, undefined, { signal }).catch(() => {});
    }
  }

  /** In order of preference. */
  status(): { clock: ClockStatus; authorities: AuthorityStatus[] } {
    return { clock: this.#clock.status(), authorities: this.#members.map(({ status }) => ({ ...status })) };
  }

  #succeed(member: Member, { timestamp }: Stamp): void {
    const { name, tokens, failures, trouble } = member.status;
    if (trouble !== undefined)
      this.#logger.info(
        { event: 'authority_back', authority: name },
        'the time-stamp authority answers again',
      );
    member.status = { name, tokens: tokens + 1, failures, notAfter: timestamp.notAfter };
    member.avoidUntilMs = 0;
    this.#pauseMs = 0;
  }

  /** Logs a failure once, however often it repeats. */
  #fail(member: Member, { trouble, message }: TimestampUnavailable): void {
    const { status } = member;
    if (status.trouble !== trouble) {
      this.#logger.warn(
        { event: 'authority_failing', authority: status.name, trouble, detail: message },
        'no time-stamp from this authority',
      );
    }
    member.status = { ...status, failures: status.failures + 1, trouble };
    member.avoidUntilMs = this.#monotonicMs() + AVOID_MS;
  }
}
