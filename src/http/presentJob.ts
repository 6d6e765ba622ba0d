import { toRfc3339 } from '../base/clock.ts';
import { documentSha256, type JobPhase, type JobRecord, type Outcome } from '../job/job.ts';
import { environmentId } from '../manifest/manifest.ts';
import type { Store } from '../store/store.ts';
import { errorBody } from './errorResponses.ts';
import type { ApiBody } from './schemas.ts';

/** The environment and URL that answers contain. */
export interface Site {
  /** Without the `env_` prefix used in answers. */
  environment: string;
  /** The base URL, without a trailing slash and without `/v1`. */
  publicUrl: string;
}

/** Seconds to wait before the next request for a job: batches follow each other within fractions of a second. */
export const ASK_AGAIN_SECONDS = 1;

/** Presents a job to callers. `sealedAt` of a sealed job: see {@link sealedAtOf}. */
export function presentJob(
  { job, outcome }: JobRecord,
  phase: JobPhase,
  site: Site,
  sealedAt?: number,
): ApiBody<'SealJob'> {
  return {
    id: job.id,
    phase,
    environment: environmentId(site.environment),
    trace_id: job.traceId,
    ...(outcome?.kind === 'sealed' && {
      receipt_url: `${jobUrl(site, job.id)}/receipt.json`,
      sealed_pdf_url: job.sealedPdf && `${jobUrl(site, job.id)}/sealed.pdf`,
    }),
    capabilities: job.capabilities,
    created_at: toRfc3339(job.acceptedAt),
    document_sha256: documentSha256(job),
    mode: job.mode,
    visibility: job.visibility,
    purpose: job.purpose,
    customer_reference: job.customerReference,
    ...(outcome?.kind === 'failed' && { error: errorBody(outcome.failure.code, outcome.failure.message) }),
    ...(sealedAt !== undefined && { sealed_at: toRfc3339(sealedAt) }),
  };
}

/** `data` of a webhook. `endedAt`: when the job ended, milliseconds since the epoch. */
export function presentEvent(record: JobRecord, endedAt: number, site: Site): ApiBody<'SealJob'> {
  if (record.outcome?.kind !== 'sealed') return presentJob(record, 'failed', site);
  return presentJob(record, 'completed', site, endedAt);
}

/** When a job was sealed, milliseconds since the epoch; undefined for a job that is not sealed. */
export async function sealedAtOf(
  store: Pick<Store, 'log'>,
  outcome: Outcome | undefined,
): Promise<number | undefined> {
  if (outcome?.kind !== 'sealed') return undefined;
  return outcome.sealedAt ?? (await store.log.sealedAt(outcome.leafIndex));
}

/** Adds the time of sealing to the JSON of a sealed job, which was written before the job was sealed. */
export function withSealedAt(answer: string, sealedAt: number | undefined): string {
  if (sealedAt === undefined) return answer;
  return `${answer.slice(0, -1)},"sealed_at":${JSON.stringify(toRfc3339(sealedAt))}}`;
}

export function jobUrl(site: Site, jobId: string): string {
  return `${site.publicUrl}/v1/jobs/${jobId}`;
}
