/** Checks of the newest audit records: one at a time for all users, and slowly enough that sealing goes on. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { BrokenInvariant } from '../base/assert.ts';
import { type Clock, toRfc3339 } from '../base/clock.ts';
import type { TrailCheckOptions, TrailReport } from '../prove/trail/trailCheck.ts';
import type { Store } from '../store/store.ts';
import { checkNewest } from './auditRecords.ts';

/** A check shares its thread with sealing, so it works for one millisecond out of ten. */
const REST_PER_WORK = 9;

export interface TrailChecksOptions {
  store: Store;
  verifier(): TrailCheckOptions['verify'];
  clock: Clock;
  logger: Pick<Logger, 'error'>;
  /** Called when a check has ended. */
  onEnd(): void;
  /** Called after a broken invariant, which must end the process. */
  onFatal(error: unknown): void;
  /** For tests: the monotonic clock and the wait function, both in milliseconds. */
  monotonicMs?: Clock;
  rest?(ms: number, signal: AbortSignal): Promise<void>;
}

/** The result of a check, and when it ended (RFC 3339). Without a report it failed. */
export interface EndedCheck {
  at: string;
  report?: TrailReport & { first: number };
}

export class TrailChecks {
  readonly #options: TrailChecksOptions;
  readonly #closing = new AbortController();
  #underWay: Promise<void> | undefined;
  #last: EndedCheck | undefined;

  constructor(options: TrailChecksOptions) {
    this.#options = options;
  }

  get isUnderWay(): boolean {
    return this.#underWay !== undefined;
  }

  /** Undefined until the first check has ended. */
  get last(): EndedCheck | undefined {
    return this.#last;
  }

  /** Begins a check, unless one is in progress. */
  begin(): void {
    if (this.#closing.signal.aborted) return;
    this.#underWay ??= this.#check().finally(() => {
      this.#underWay = undefined;
      this.#options.onEnd();
    });
  }

  /** Ends the check in progress. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#underWay;
  }

  /** Never rejects. */
  async #check(): Promise<void> {
    const { store, verifier, clock, logger, onFatal } = this.#options;
    try {
      const report = await checkNewest(store, verifier(), (records) => this.#slowly(records));
      this.#last = { at: toRfc3339(clock()), report };
    } catch (error) {
      if (this.#closing.signal.aborted) return;
      if (error instanceof BrokenInvariant) onFatal(error);
      logger.error({ err: error }, 'a check of the audit trail failed');
      this.#last = { at: toRfc3339(clock()) };
    }
  }

  async *#slowly<One>(all: AsyncIterable<One>): AsyncGenerator<One> {
    const { monotonicMs = () => performance.now(), rest = restFor } = this.#options;
    let since = monotonicMs();
    for await (const one of all) {
      yield one;
      await rest((monotonicMs() - since) * REST_PER_WORK, this.#closing.signal);
      since = monotonicMs();
    }
  }
}

async function restFor(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal });
}
