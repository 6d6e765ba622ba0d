import { assert } from '../base/assert.ts';
import { ServiceError } from '../base/errors.ts';
import { fingerprint } from '../job/fields.ts';
import { newJobId } from '../job/id.ts';
import type { Job } from '../job/job.ts';
import type { Allowance } from '../limits/allowance.ts';
import { discardOnFailure } from '../seal/documentPass.ts';
import type { Sealer } from '../seal/sealer.ts';
import type { Timekeeping } from '../seal/timekeeping.ts';
import type { IdempotencyEntry, IdempotencyKey, Store } from '../store/store.ts';
import type { Reservations } from './idempotency.ts';
import { presentJob, type Site } from './presentJob.ts';
import { probe, type Submission, type SubmissionOptions, type Submit } from './receiveCreate.ts';
import { callerOf, type RequestContext } from './requestContext.ts';

export interface AcceptanceOptions extends SubmissionOptions {
  store: Pick<Store, 'jobs' | 'log'>;
  sealer: Pick<Sealer, 'admit' | 'accept'>;
  reservations: Reservations;
  site: Site;
  /** What the receipt of a new job of this client will offer, and whether it will be told of. */
  capabilities(clientId: string): Promise<string[]>;
  time: Pick<Timekeeping, 'stamp'>;
}

/** A job that is on disk, and how its create is answered. */
export interface Accepted {
  job: Job;
  /** The answer's body; that of a blocking create is given only once the job is completed. */
  answer: string;
  replayed: boolean;
}

/** How to read a create, what it may take, and among whose keys its own is looked up. */
export interface Asked {
  operation: IdempotencyKey['operation'];
  submit: Submit;
  allowance: Allowance;
}

/**
 * Makes a job of a create, whatever form that has. Throws ServiceError.
 *
 * Holds the idempotency key while its first request is received, so that one of two racing requests is told to wait.
 * Every request counts against the rate of its client, repeats too: each is received and hashed. But repeats of what is accepted are
 * answered even while new work is refused.
 */
export async function acceptOnce(
  ctx: RequestContext,
  name: string | undefined,
  asked: Asked,
  options: AcceptanceOptions,
): Promise<Accepted> {
  if (name === undefined) return receive(ctx, undefined, asked, options);
  const { reservations, store } = options;
  const key: IdempotencyKey = {
    clientId: callerOf(ctx).viewer.clientId,
    operation: asked.operation,
    key: name,
  };
  const earlier = await store.jobs.idempotency(key);
  if (earlier) return repeat(ctx, earlier, asked, options);
  const release = reservations.take(key);
  try {
    // Asked again: whoever held the key until now may have been accepted in between.
    const accepted = await store.jobs.idempotency(key);
    return await (accepted ? repeat(ctx, accepted, asked, options) : receive(ctx, key, asked, options));
  } finally {
    release();
  }
}

async function receive(
  ctx: RequestContext,
  key: IdempotencyKey | undefined,
  { submit, allowance }: Asked,
  options: AcceptanceOptions,
): Promise<Accepted> {
  const { sealer, sources } = options;
  allowance.refuseExhausted();
  allowance.takeRequest();
  sealer.admit('async');
  const submission = await submit(ctx, options, (purpose) => allowance.takeJob(purpose));
  const { request, documentSha256 } = submission;
  const received = submission.source === 'upload' ? submission.received : undefined;
  const quota = await discardOnFailure(received, async () => {
    const taken = allowance.takeJob(request.purpose);
    if (submission.source === 'url') await probe(ctx, submission.sourceUrl, documentSha256, options);
    sealer.admit(request.mode);
    return taken;
  });
  const job = { ...(await jobOf(ctx, submission, options)), ...(quota && { quota }) };
  const answer = answerTo(job, options.site);
  const idempotency = key && {
    ...key,
    fingerprint: fingerprint(request, documentSha256),
    jobId: job.id,
    answer,
    acceptedAt: job.since,
  };
  // If we stop before this, nothing was promised; after it, the job is sealed whatever happens, and a repeat finds it.
  const beside = { ...(idempotency && { idempotency }) };
  const copy = received?.copy;
  if (submission.source === 'url') await sources.accept(job, { ...beside, sourceUrl: submission.sourceUrl });
  else await sealer.accept(job, { ...beside, ...(copy && { copy }) });
  allowance.keep();
  return { job, answer, replayed: false };
}

async function repeat(
  ctx: RequestContext,
  entry: IdempotencyEntry,
  { submit, allowance }: Asked,
  options: AcceptanceOptions,
): Promise<Accepted> {
  allowance.takeRequest();
  // Scanned and copied when it was accepted: a repeat is only compared, and answered the same whatever a scanner says by now.
  const intake = { ...options.intake, scanner: undefined, copies: undefined };
  const { request, documentSha256 } = await submit(ctx, { ...options, intake });
  allowance.isAbout(request.purpose);
  if (entry.fingerprint !== fingerprint(request, documentSha256)) {
    throw new ServiceError(
      'idempotency_key_reused',
      'This Idempotency-Key belongs to an earlier, different request. Use a new one.',
    );
  }
  const record = await options.store.jobs.get(entry.jobId);
  assert(record, `the job ${entry.jobId} of an idempotency entry is not in the store`);
  return { job: record.job, answer: entry.answer, replayed: true };
}

async function jobOf(
  ctx: RequestContext,
  submission: Submission,
  { capabilities, time }: AcceptanceOptions,
): Promise<Job & { since: number }> {
  const { clientId, organization } = callerOf(ctx).viewer;
  const { request } = submission;
  return {
    id: newJobId(),
    clientId,
    organization,
    traceId: ctx.state.traceId,
    mode: request.mode,
    visibility: request.visibility,
    ...(request.purpose !== undefined && { purpose: request.purpose }),
    ...(request.customerReference !== undefined && { customerReference: request.customerReference }),
    preserveMetadata: request.preserveMetadata,
    source: submission.source,
    ...contentOf(submission),
    capabilities: await capabilities(clientId),
    ...time.stamp(),
  };
}

function contentOf(submission: Submission): Pick<Job, 'content' | 'checksumSha256'> {
  if (submission.source === 'url') return { checksumSha256: submission.documentSha256 };
  return { content: submission.source === 'upload' ? submission.received.content : submission.content };
}

/** Fixed before the job is on disk: of a completed job nothing is missing but when it was sealed. */
function answerTo(job: Job, site: Site): string {
  const presented =
    job.mode === 'blocking'
      ? presentJob({ job, outcome: { kind: 'sealed', leafIndex: 0 } }, 'completed', site)
      : presentJob({ job }, 'queued', site);
  return JSON.stringify(presented);
}
