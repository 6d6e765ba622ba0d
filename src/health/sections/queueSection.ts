import * as z from 'zod';
import type { WaitingJobs } from '../../seal/pendingJobs.ts';
import { by, plain, showAs, WIRE } from './section.ts';

const { count, seconds } = WIRE;
const PHASES = ['queued', 'hashing', 'sealing'] as const;

export const queueSchema = z
  .object({
    queued: count,
    hashing: count,
    sealing: count,
    jobs_max: count,
    oldest_age_seconds: seconds,
    oldest_age_seconds_by_phase: z
      .object({ queued: seconds, hashing: seconds, sealing: seconds })
      .describe('0 for a phase that no job is in.'),
  })
  .describe('Jobs without an outcome, by phase. Canaries do not count.');
type QueueSection = z.infer<typeof queueSchema>;

export function presentQueue({ phases, longestMs }: WaitingJobs, jobsMax: number): QueueSection {
  const { queued, hashing, sealing } = longestMs;
  return {
    ...phases,
    jobs_max: jobsMax,
    oldest_age_seconds: Math.max(queued, hashing, sealing) / 1000,
    oldest_age_seconds_by_phase: {
      queued: queued / 1000,
      hashing: hashing / 1000,
      sealing: sealing / 1000,
    },
  };
}

showAs(queueSchema, [
  by('phase', 'pdfseal_jobs', 'Jobs of clients that wait for their outcome, by phase', (queue) =>
    PHASES.map((phase) => [phase, queue[phase]]),
  ),
  by(
    'phase',
    'pdfseal_jobs_oldest_age_seconds',
    'Since the acceptance of the job that waits longest in this phase; 0 when none is in it',
    (queue) => Object.entries(queue.oldest_age_seconds_by_phase),
  ),
  plain('pdfseal_jobs_max', 'Jobs that may wait (limits.queue_jobs_max)', 'jobs_max'),
]);
