import type { Clock } from '../base/clock.ts';
import { encodeRecord, type OneRecord, readable } from './records.ts';
import type { ServiceTime } from './serviceTime.ts';
import type { Batch } from './store.ts';

/** Service time as it was last kept. */
export interface ServiceTimePoint {
  elapsedMs: number;
  begunAt: number;
  /** The date then, as far as it was trusted; milliseconds since the epoch. */
  date?: number;
}

export interface ServiceTimeOptions {
  clock: Clock;
  /** A monotonic clock, milliseconds. */
  monotonicMs: Clock;
}

/** What a store knows of its service time when it is opened, and how it keeps more of it. */
export interface KeptTime {
  /** Undefined where none is readable: service time begins again, and nothing ends early. */
  point: ServiceTimePoint | undefined;
  /** Of the newest batch, 0 without any. No date before it is believed (see `tsa/trustedClock.ts`): a machine whose clock is far behind begins no earlier. */
  newestSealedAt: number;
  keep(point: ServiceTimePoint): Promise<void>;
}

/** As a store has it: in one record, beside the newest batch. */
export async function openServiceTime(
  { read, write }: OneRecord,
  newestBatch: Buffer | undefined,
  options: ServiceTimeOptions,
): Promise<RunningTime> {
  const point = readable<ServiceTimePoint>(await read());
  const newestSealedAt = readable<Batch>(newestBatch)?.sealedAt ?? 0;
  return new RunningTime({ point, newestSealedAt, keep: (next) => write(encodeRecord(next)) }, options);
}

/** Twice as long as the process that keeps service time waits until it does so again. */
const AHEAD_MS_MAX = 120_000;

/** What was kept, and the time since it was read. */
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

  /** Goes back to what another process has kept, where this one went on while no process kept any: so nothing ends early. */
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
