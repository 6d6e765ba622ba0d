import type { Failure, Job } from '../job/job.ts';

/** Counts and measures; must not throw. */
export interface SealerObserver {
  /** The job is durable; `durationMs` is how long the write took. Absent for a job that became durable with its receipt. */
  accepted(job: Job, durationMs?: number): void;
  sealed(batch: SealedJobs): void;
  failed(job: Job, code: Failure['code']): void;
}

/** A durable batch, and how long its steps took, in milliseconds. */
export interface SealedJobs {
  jobs: readonly Job[];
  /** How long each job waited for this batch. */
  waitedMs: readonly number[];
  signMs: number;
  /** Absent if no authority is configured. */
  stampMs?: number;
  /** Includes the wait for earlier batches. */
  commitMs: number;
}
