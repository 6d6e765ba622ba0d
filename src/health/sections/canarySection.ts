import * as z from 'zod';
import { toRfc3339 } from '../../base/clock.ts';
import type { CanaryRun, CanaryStatus } from '../../watch/canary.ts';
import { ageSeconds, epochSeconds, plain, showAs, WIRE } from './section.ts';

const { count, seconds, time } = WIRE;

export const runSchema = z
  .object({
    verified: z.boolean(),
    started_at: time,
    age_seconds: seconds,
    duration_ms: z.number().min(0),
    detail: z.string(),
    job_id: z.string().optional(),
    leaf_index: count.optional(),
    signers: z.array(z.string()),
  })
  .describe('A canary, a document of pdfseald’s own, sealed and verified as a client would.');
export type PresentedRun = z.infer<typeof runSchema>;

export const canarySchema = z.object({
  ready: z.boolean(),
  detail: z.string(),
  interval_seconds: seconds.optional().describe('Absent where none is sealed by itself.'),
  newest: runSchema.optional(),
  last_verified: runSchema.optional(),
});
type CanarySection = z.infer<typeof canarySchema>;

export function presentRun(run: CanaryRun, now: number): PresentedRun {
  return {
    verified: run.verified,
    started_at: toRfc3339(run.startedAt),
    age_seconds: ageSeconds(run.startedAt, now),
    duration_ms: Math.round(run.durationMs),
    detail: run.detail,
    job_id: run.jobId,
    leaf_index: run.leafIndex,
    signers: run.signers,
  };
}

export function presentCanary(status: CanaryStatus, now: number): CanarySection {
  const { ready, detail, intervalMs, newest, verified } = status;
  return {
    ready,
    detail,
    ...(Number.isFinite(intervalMs) && { interval_seconds: intervalMs / 1000 }),
    ...(newest && { newest: presentRun(newest, now) }),
    ...(verified && { last_verified: presentRun(verified, now) }),
  };
}

showAs(canarySchema, [
  plain(
    'pdfseal_canary_verified_timestamp_seconds',
    'When the newest canary that verified was begun; absent before the first',
    (canary) => epochSeconds(canary.last_verified?.started_at),
  ),
]);
