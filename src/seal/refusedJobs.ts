import type { Logger } from 'pino';
import type { EventName } from '../base/events.ts';

interface RefusedJob {
  event: EventName;
  jobId: string;
  detail: string;
}

/** Jobs in the store that no request can have made, or that are not what a node accepted: they fail. Each is logged, and counted since the start. */
export class RefusedJobs {
  readonly #logger: Pick<Logger, 'error'>;
  #count = 0;

  constructor(logger: Pick<Logger, 'error'>) {
    this.#logger = logger;
  }

  get count(): number {
    return this.#count;
  }

  note({ event, jobId, detail }: RefusedJob): void {
    this.#count += 1;
    this.#logger.error({ event, job_id: jobId, detail }, 'the store has a job that is not sealed: it fails');
  }
}
