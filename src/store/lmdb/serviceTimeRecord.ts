import type { Clock } from '../../base/clock.ts';
import { encodeRecord, parseRecord } from '../records.ts';
import type { ServiceTime } from '../serviceTime.ts';
import type { Batch } from '../store.ts';
import type { Commits } from './commits.ts';
import type { Databases } from './databases.ts';

/** Service time as it was last kept. */
interface Point {
  elapsedMs: number;
  begunAt: number;
  /** The date then, as far as it was trusted; milliseconds since the epoch. */
  date?: number;
}

const POINT_KEY = Buffer.from('service_time');

export interface ServiceTimeOptions {
  clock: Clock;
  /** A monotonic clock, milliseconds. */
  monotonicMs: Clock;
}

/** Service time in the embedded store: one record, and the time since it was read. */
export class LmdbServiceTime implements ServiceTime {
  readonly begunAt: number;
  readonly lastDate: number | undefined;
  readonly #databases: Databases;
  readonly #commits: Commits;
  readonly #clock: Clock;
  readonly #monotonicMs: Clock;
  readonly #openedMs: number;
  readonly #openedAtMs: number;

  constructor(databases: Databases, commits: Commits, { clock, monotonicMs }: ServiceTimeOptions) {
    this.#databases = databases;
    this.#commits = commits;
    this.#clock = clock;
    this.#monotonicMs = monotonicMs;
    const point = readPoint(databases);
    this.#openedMs = point?.elapsedMs ?? Math.max(clock(), newestSealedAt(databases));
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

  async keep(date: number): Promise<void> {
    const point: Point = { elapsedMs: this.now(), begunAt: this.begunAt, date };
    const { identity: database } = this.#databases;
    await this.#commits.write({ changes: [{ database, key: POINT_KEY, value: encodeRecord(point) }] });
  }
}

/** A damaged record counts as none: service time begins again, and nothing ends early. */
function readPoint({ identity }: Databases): Point | undefined {
  return readable<Point>(identity.getBinary(POINT_KEY));
}

/** No date before it is believed (see `tsa/trustedClock.ts`): a machine whose clock is far behind begins no earlier. */
function newestSealedAt({ batches }: Databases): number {
  for (const { value } of batches.getRange({ reverse: true, limit: 1 })) {
    return readable<Batch>(value)?.sealedAt ?? 0;
  }
  return 0;
}

function readable<T>(bytes: Uint8Array | undefined): T | undefined {
  try {
    return bytes && parseRecord<T>(bytes);
  } catch {
    return undefined;
  }
}
