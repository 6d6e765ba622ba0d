import { toTimestamp } from '../base/clock.ts';
import type { JobPhase, JobRecord } from '../job/job.ts';
import { environmentId } from '../manifest/manifest.ts';
import { type ErrorBody, errorBody } from './errors.ts';

/** What callers are told about where they are. */
export interface Site {
  /** Without the `env_` it has on the wire. */
  environment: string;
  /** Without a trailing slash and without `/v1`. */
  publicUrl: string;
}

/** SealJob: section 2.1 of the contract, with `created_at` and, for a failed job, `error`. */
export interface SealJob {
  id: string;
  phase: JobPhase;
  environment: string;
  trace_id: string;
  receipt_url?: string;
  capabilities: string[];
  created_at: string;
  error?: ErrorBody;
}

export function presentJob({ job, outcome }: JobRecord, phase: JobPhase, site: Site): SealJob {
  return {
    id: job.id,
    phase,
    environment: environmentId(site.environment),
    trace_id: job.traceId,
    ...(outcome?.kind === 'sealed' && { receipt_url: `${jobUrl(site, job.id)}/receipt.json` }),
    capabilities: job.capabilities,
    created_at: toTimestamp(job.acceptedAt),
    ...(outcome?.kind === 'failed' && { error: errorBody(outcome.failure.code, outcome.failure.message) }),
  };
}

/** `data` of a webhook: a job that has ended, with the reference that its client knows it by. */
export function presentEvent(record: JobRecord, site: Site): SealJob & { customer_reference?: string } {
  const { customerReference } = record.job;
  return {
    ...presentJob(record, record.outcome?.kind === 'sealed' ? 'completed' : 'failed', site),
    ...(customerReference !== undefined && { customer_reference: customerReference }),
  };
}

export function jobUrl(site: Site, jobId: string): string {
  return `${site.publicUrl}/v1/jobs/${jobId}`;
}
