import type { IncomingMessage } from 'node:http';
import type { Logger } from 'pino';
import { BrokenInvariant } from '../base/assert.ts';
import { stopwatch } from '../base/clock.ts';
import { type ErrorCode, ServiceError } from '../base/errors.ts';
import { SlotQueue } from '../base/slotQueue.ts';
import { UNSEALABLE } from '../job/acceptedJob.ts';
import type { Job } from '../job/job.ts';
import { unfetchableNow } from '../source/fetchFailure.ts';
import { announcedBytes, isNotAsked, type SourceClient } from '../source/sourceClient.ts';
import { AlteredJob } from '../store/acceptances.ts';
import { type Acceptance, type Store, UnknownOutcome } from '../store/store.ts';
import { IncomingBody, type Patience } from '../web/incomingBody.ts';
import { type DocumentOptions, DocumentPass, type ReceivedDocument, tooLarge } from './documentPass.ts';
import { type AskSource, describeSource, probing } from './probing.ts';
import { RefusedJobs } from './refusedJobs.ts';
import type { Sealer } from './sealer.ts';

export interface FetchingOptions {
  store: Pick<Store, 'jobs' | 'serviceTime'>;
  sealer: Pick<Sealer, 'accept' | 'hashing' | 'receive' | 'fail' | 'unreceived'>;
  source: Pick<SourceClient, 'probe' | 'fetch'>;
  document: DocumentOptions;
  /** How slowly a source may send. Together with the largest document size, this bounds the duration of a fetch. */
  patience: Patience;
  /** Documents fetched at the same time; one client gets at most half of them. */
  concurrentMax: number;
  /** The pause after the first temporary failure. It doubles with each further one. */
  retryDelayMs: number;
  /** How long fetching is retried before the job fails, in milliseconds of service time since the job was accepted. */
  giveUpAfterMs: number;
  logger: Logger;
  /** Counts the jobs that are not what a node accepted. Default: nobody asks for the count. */
  refused?: RefusedJobs;
  /** Told how each attempt to fetch a document ended; must not throw. */
  onAttempt?(attempt: FetchAttempt): void;
  /** Called if fetching cannot continue (a broken invariant, a commit with an unknown outcome): the process must end. */
  onFatal(error: unknown): void;
}

export interface FetchAttempt {
  durationMs: number;
  /** Why there is no document; absent if there is one. */
  code?: ErrorCode;
  /** Whether another attempt follows. */
  again: boolean;
}

export interface FetchingStatus {
  underWay: number;
  /** Documents waiting for their turn. */
  queued: number;
  /** Documents waiting for the next attempt. */
  paused: number;
}

/** A job whose document must be fetched. */
interface Task {
  job: Job;
  /** Failed attempts of this process. */
  failures: number;
}

const RETRY_DELAY_MS_MAX = 300_000;

/**
 * Fetches the documents of jobs with a `source_url`, and streams each through the same checks as an upload. The store contains everything
 * needed to continue after a crash.
 */
export class Fetching {
  readonly #options: FetchingOptions;
  readonly #stop = new AbortController();
  readonly #pauses = new Set<NodeJS.Timeout>();
  readonly #running = new Set<Promise<void>>();
  readonly #slots: SlotQueue;
  readonly #refused: RefusedJobs;
  #queued = 0;
  /** See {@link probing}. */
  readonly probe: AskSource;

  constructor(options: FetchingOptions) {
    this.#options = options;
    this.#refused = options.refused ?? new RefusedJobs(options.logger);
    this.#slots = new SlotQueue({ of: 'fetches', max: options.concurrentMax });
    this.probe = probing({ ...options, signal: this.#stop.signal });
  }

  /** Continues with the jobs that an earlier process left. Called once. */
  start(): void {
    for (const job of this.#options.sealer.unreceived) {
      this.#hashingUnlessScanned(job); // The job may have been reported as `hashing` already, and a phase never goes back.
      void this.#add({ job, failures: 0 });
    }
  }

  /** Makes a job without content durable, and queues it to be fetched. Once this resolves, the job survives any crash. */
  async accept(job: Job, acceptance: Acceptance): Promise<void> {
    await this.#options.sealer.accept(job, acceptance);
    void this.#add({ job, failures: 0 });
  }

  /** Queues a durable job without content that another process accepted. The sealer already knows it. */
  take(job: Job): void {
    void this.#add({ job, failures: 0 });
  }

  status(): FetchingStatus {
    return { underWay: this.#running.size, queued: this.#queued, paused: this.#pauses.size };
  }

  /** Stops all fetches; they are repeated after the next start. */
  async close(): Promise<void> {
    const message = 'The service is being stopped. Repeat the request later.';
    this.#stop.abort(new ServiceError('shutting_down', message, { retryAfterSeconds: 1 }));
    for (const pause of this.#pauses) clearTimeout(pause);
    await Promise.all(this.#running);
  }

  /** Fetches the document when it is the client's turn. Never rejects: the process ends instead. */
  async #add(task: Task): Promise<void> {
    this.#queued += 1;
    const leave = await this.#slots.take(task.job.clientId);
    this.#queued -= 1;
    if (!this.#stop.signal.aborted) {
      const run = this.#run(task).catch(this.#options.onFatal);
      this.#running.add(run);
      await run;
      this.#running.delete(run);
    }
    leave();
  }

  async #run(task: Task): Promise<void> {
    const { store, sealer, source, document, onAttempt } = this.#options;
    const { id } = task.job;
    const sourceUrl = await store.jobs.sourceUrl(id).catch((error) => this.#refuse(id, error));
    if (sourceUrl === 'refused') return;
    if (sourceUrl === undefined) throw new BrokenInvariant(`${id} has no source to be fetched from`);
    let received: ReceivedDocument;
    const lap = stopwatch();
    try {
      document.scanner?.admit();
      received = await source.fetch(sourceUrl, this.#stop.signal, (answer) =>
        this.#receive(task.job, answer),
      );
    } catch (error) {
      if (error instanceof BrokenInvariant || error instanceof UnknownOutcome) throw error;
      if (this.#stop.signal.aborted) return;
      const failure = asFailure(error);
      const pauseMs = this.#pauseMs(task, failure);
      if (!isNotAsked(failure))
        onAttempt?.({ durationMs: lap(), code: failure.code, again: pauseMs !== undefined });
      return this.#failed(task, { failure, pauseMs }, sourceUrl);
    }
    onAttempt?.({ durationMs: lap(), again: false });
    // If we stop before this, the document is fetched again. Its copy then belongs to no job, and is removed at the next start.
    await sealer.receive(id, received.content, received.copy);
  }

  /** Fails a job that was altered in the store: nothing is asked for it. */
  async #refuse(jobId: string, error: unknown): Promise<'refused'> {
    if (!(error instanceof AlteredJob)) throw error;
    this.#refused.note({ event: 'waiting_refused', jobId, detail: error.message });
    await this.#options.sealer.fail(jobId, new ServiceError('internal_error', UNSEALABLE));
    return 'refused';
  }

  async #receive(job: Job, answer: IncomingMessage): Promise<ReceivedDocument> {
    const { document } = this.#options;
    const { documentBytesMax } = document;
    if ((announcedBytes(answer) ?? 0) > documentBytesMax) throw tooLarge('source_url', documentBytesMax);
    this.#hashingUnlessScanned(job);
    const pass = new DocumentPass(document, 'source_url', job);
    const body = new IncomingBody(answer, this.#options.patience);
    try {
      await body.read((chunk) => {
        const room = pass.write(chunk);
        if (room !== undefined) body.hold(room);
      }, this.#stop);
      pass.end();
      await pass.verdict();
      this.#options.sealer.hashing(job.id);
      return await pass.finish(job, { clientId: job.clientId, signal: this.#stop.signal, isAwaited: false });
    } catch (error) {
      pass.abort();
      throw error;
    }
  }

  /** The phase is `hashing` only once the virus scanner has passed the document; without a scanner, at once. */
  #hashingUnlessScanned({ id }: Job): void {
    if (this.#options.document.scanner === undefined) this.#options.sealer.hashing(id);
  }

  /** Retries a temporary failure until the job has waited too long. */
  async #failed(
    task: Task,
    { failure, pauseMs }: { failure: ServiceError; pauseMs: number | undefined },
    sourceUrl: string,
  ): Promise<void> {
    const { sealer, logger } = this.#options;
    const { id } = task.job;
    const about = { job_id: id, ...describeSource(failure, sourceUrl) };
    if (pauseMs === undefined) {
      logger.warn(about, 'a document could not be fetched; its job failed');
      return sealer.fail(id, failure);
    }
    logger.info({ ...about, pause_ms: pauseMs }, 'a document could not be fetched; another attempt follows');
    const pause = setTimeout(() => {
      this.#pauses.delete(pause);
      void this.#add({ job: task.job, failures: task.failures + (isNotAsked(failure) ? 0 : 1) });
    }, pauseMs);
    this.#pauses.add(pause);
  }

  /**
   * The pause before the next attempt; undefined if there is none. It doubles with each failure and has a random part, so that fetches that
   * failed together are not retried together.
   */
  #pauseMs({ job, failures }: Task, { retryAfterSeconds }: ServiceError): number | undefined {
    if (retryAfterSeconds === undefined) return undefined;
    const longestMs = Math.min(this.#options.retryDelayMs * 2 ** failures, RETRY_DELAY_MS_MAX);
    // One second is the default of failures without a better value.
    const askedMs = retryAfterSeconds > 1 ? retryAfterSeconds * 1000 : 0;
    const pauseMs = Math.max(Math.ceil(longestMs * (0.5 + Math.random() / 2)), askedMs);
    const { store, giveUpAfterMs } = this.#options;
    return store.serviceTime.since(job.since) + pauseMs < giveUpAfterMs ? pauseMs : undefined;
  }
}

/** Errors of the connection, which have the names of upload errors here, and internal errors are temporary. */
function asFailure(error: unknown): ServiceError {
  if (!(error instanceof ServiceError)) {
    const message = 'Something went wrong inside the service while it fetched source_url.';
    return new ServiceError('internal_error', message, { retryAfterSeconds: 1, cause: error });
  }
  if (error.code === 'body_timeout') return unfetchableNow('sends its document too slowly');
  if (error.code === 'incomplete_body') return unfetchableNow('broke off in the middle of its document');
  return error;
}
