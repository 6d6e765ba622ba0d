import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ServiceError } from '../base/errors.ts';
import { cleared, obstacleTo } from './obstacle.ts';
import type { PendingJobs } from './pendingJobs.ts';
import type { Pipeline, PipelineOptions } from './pipeline.ts';

/** Node's timers beyond 2^31 ms fire at once; waking up once a minute costs nothing. */
const PATIENCE_MS_MAX = 60_000;
/** How long the batches in progress may wait for their time-stamps when the daemon stops. */
const CLOSE_MS_MAX = 2_000;

/**
 * Says when the next batch is drafted. There is no timer: all jobs that wait when the {@link Pipeline} has room, and nothing obstructs
 * sealing, form the next batch.
 */
export class SealingLoop {
  readonly #options: PipelineOptions;
  readonly #pending: PendingJobs;
  readonly #pipeline: Pipeline;
  #closing = false;
  #loop: Promise<void> = Promise.resolve();

  constructor(options: PipelineOptions, pending: PendingJobs, pipeline: Pipeline) {
    this.#options = options;
    this.#pending = pending;
    this.#pipeline = pipeline;
  }

  /** Called once. */
  start(): void {
    this.#loop = this.#run().catch((error) => this.#pipeline.break(error));
  }

  /** Ends after the batches in progress, but does not wait long for their time-stamps. */
  async close(): Promise<void> {
    this.#closing = true;
    this.#pending.wake();
    const patience = setTimeout(() => this.#pipeline.cutOff(), CLOSE_MS_MAX);
    await this.#loop;
    clearTimeout(patience);
  }

  async #run(): Promise<void> {
    const pipeline = this.#pipeline;
    const { queue } = this.#pending;
    while (!pipeline.isBroken && (!this.#closing || !pipeline.isEmpty)) {
      const obstacle = obstacleTo(this.#options);
      if (this.#closing || !pipeline.admits(queue.length)) await this.#pending.nextWake();
      else if (obstacle) await this.#waitUntilClear(obstacle);
      else {
        // Everything else that happens in this turn of the event loop can join the batch.
        await nextTurn();
        await pipeline.launch();
      }
    }
  }

  async #waitUntilClear(obstacle: ServiceError): Promise<void> {
    const { queue } = this.#pending;
    // Taken first, so that a job queued during the failures below is not missed.
    const wake = this.#pending.nextWake();
    await this.#pending.failUnsealable(obstacle);
    if (queue.length === 0) return;
    const stop = new AbortController();
    const [oldest] = queue.perishable;
    const patienceMs = oldest
      ? this.#options.giveUpAfterMs - this.#pending.waitedMs(oldest.job)
      : PATIENCE_MS_MAX;
    const timer = setTimeout(() => stop.abort(), Math.min(Math.max(patienceMs, 0), PATIENCE_MS_MAX));
    await Promise.race([wake, cleared(this.#options, stop.signal)]);
    clearTimeout(timer);
    stop.abort();
  }
}
