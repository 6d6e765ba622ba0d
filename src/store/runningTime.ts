import type { Clock } from '../base/clock.ts';
import { encodeRecord, type OneRecord, readable } from './records.ts';
import type { ServiceTime } from './serviceTime.ts';
import type { Batch } from './store.ts';

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
  const newestSealedAt = readable<Batch>(newestBatch)?.sealedAt ?? 0;
  return new RunningTime({ point, newestSealedAt, keep: (next) => write(encodeRecord(next)) }, options);
}

/** Twice the interval at which service time is kept. */
const AHEAD_MS_MAX = 120_000;

/** The kept service time, plus the time since it was read. */
export class RunningTime implements ServiceTime {
  readonly begunAt: number;
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

  now(): number {
    return this.#openedMs + Math.max(0, Math.floor(this.#monotonicMs() - this.#openedAtMs));
  }

  since(stamp: number | undefined = this.begunAt): number {
    return Math.max(0, this.now() - Math.max(stamp, this.begunAt));
  }

  before(ms: number): number {
    const stamp = this.now() - ms;
    return stamp < this.begunAt ? 0 : stamp;
  }

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

  async keep(date: number): Promise<void> {
    await this.#keep({ elapsedMs: this.now(), begunAt: this.begunAt, date });
  }
}
