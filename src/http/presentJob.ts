import { toRfc3339 } from '../base/clock.ts';
import { documentSha256, type JobPhase, type JobRecord, type Outcome } from '../job/job.ts';
import { environmentId } from '../manifest/manifest.ts';
import type { Store } from '../store/store.ts';
import { errorBody } from './errorResponses.ts';
import type { SealJob } from './schemas.ts';

/** What callers are told about where they are. */
export interface Site {
  /** Without the `env_` it has on the wire. */
  environment: string;
  /** Without a trailing slash and without `/v1`. */
  publicUrl: string;
}

/** Seconds to wait before asking for a job again: batches follow each other within fractions of a second. */
export const ASK_AGAIN_SECONDS = 1;

/** `sealedAt` of a sealed job: see {@link sealedAtOf}. */
export function presentJob(
  { job, outcome }: JobRecord,
  phase: JobPhase,
  site: Site,
  sealedAt?: number,
): SealJob {
  return {
    id: job.id,
    phase,
    environment: environmentId(site.environment),
    trace_id: job.traceId,
    ...(outcome?.kind === 'sealed' && { receipt_url: `${jobUrl(site, job.id)}/receipt.json` }),
    capabilities: job.capabilities,
    created_at: toRfc3339(job.acceptedAt),
    document_sha256: documentSha256(job),
    ...(job.purpose !== undefined && { purpose: job.purpose }),
    ...(job.customerReference !== undefined && { customer_reference: job.customerReference }),
    ...(outcome?.kind === 'failed' && { error: errorBody(outcome.failure.code, outcome.failure.message) }),
    ...(sealedAt !== undefined && { sealed_at: toRfc3339(sealedAt) }),
  };
}

/** `data` of a webhook: a job that ended at that time, milliseconds since the epoch. */
export function presentEvent(record: JobRecord, endedAt: number, site: Site): SealJob {
  if (record.outcome?.kind !== 'sealed') return presentJob(record, 'failed', site);
  return presentJob(record, 'completed', site, endedAt);
}

/** When a job was sealed, milliseconds since the epoch; undefined for one that is not. */
export async function sealedAtOf(
  store: Pick<Store, 'log'>,
  outcome: Outcome | undefined,
): Promise<number | undefined> {
  return outcome?.kind === 'sealed' ? (await store.log.batchOf(outcome.leafIndex))?.sealedAt : undefined;
}

/**
 * The JSON of a completed job, written before it was sealed, with the time when it was. One that 0.1.0 gave says neither the document
 * nor the time: it is repeated as it was given.
 */
export function withSealedAt(answer: string, sealedAt: number | undefined): string {
  if (sealedAt === undefined || !answer.includes('"document_sha256"')) return answer;
  return `${answer.slice(0, -1)},"sealed_at":${JSON.stringify(toRfc3339(sealedAt))}}`;
}

export function jobUrl(site: Site, jobId: string): string {
  return `${site.publicUrl}/v1/jobs/${jobId}`;
}
