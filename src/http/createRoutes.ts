import type { Outcome } from '../job/job.ts';
import type { Limits } from '../limits/limits.ts';
import type { Sealer } from '../seal/sealer.ts';
import { type AcceptanceOptions, type Accepted, type Asked, acceptOnce } from './acceptJob.ts';
import { readIdempotencyKey } from './idempotency.ts';
import { preferredWaitMs } from './prefer.ts';
import { jobUrl, presentJob, sealedAtOf, withSealedAt } from './presentJob.ts';
import { withAllowance } from './rateLimit.ts';
import { digestsOf, type Submit, submissionOf } from './receiveCreate.ts';
import { JSON_TYPE, type Middleware, type RequestContext } from './requestContext.ts';
import { failureOf, RETRY_AFTER_SECONDS, settledWithin } from './settlement.ts';

export interface CreateOptions extends AcceptanceOptions {
  sealer: Pick<Sealer, 'admit' | 'accept' | 'settled' | 'phase'>;
  limits: Limits;
  blockingTimeoutMs: number;
}

/**
 * `POST /v1/jobs/seal`: section 4.1 of the contract. Whatever can be refused is refused before the body is asked for; a
 * client that sent `Expect: 100-continue` then never sends it.
 */
export function createSealJob(options: CreateOptions): Middleware {
  return createJob('createSealJob', submissionOf, options);
}

/** `POST /v1/digests/seal`: the same for a document that never leaves its owner. */
export function createDigestJob(options: CreateOptions): Middleware {
  return createJob('createDigestJob', digestsOf, options);
}

function createJob(
  operation: Asked['operation'],
  formOf: (ctx: RequestContext) => Submit,
  options: CreateOptions,
): Middleware {
  return async (ctx) => {
    const submit = formOf(ctx);
    const key = readIdempotencyKey(ctx.req);
    const waitedMs = sinceBody(ctx);
    const accepted = await withAllowance(ctx, options.limits, (allowance) =>
      acceptOnce(ctx, key, { operation, submit, allowance }, options),
    );
    ctx.state.jobId = accepted.job.id;
    ctx.set('Location', jobUrl(options.site, accepted.job.id));
    if (accepted.replayed) {
      ctx.set('Idempotent-Replayed', 'true');
      ctx.set('Seal-Trace-Id', accepted.job.traceId);
    }
    if (accepted.job.mode === 'blocking') await answerSettled(ctx, accepted, options, waitedMs());
    else answerJob(ctx, accepted.answer);
  };
}

/** Milliseconds since the last byte of the request: what is done before the job is accepted is part of the caller's wait. */
function sinceBody({ req }: RequestContext): () => number {
  let endedAtMs = performance.now();
  req.once('end', () => {
    endedAtMs = performance.now();
  });
  return () => performance.now() - endedAtMs;
}

async function answerSettled(
  ctx: RequestContext,
  { job, answer }: Accepted,
  options: CreateOptions,
  waitedMs: number,
): Promise<void> {
  const outcome = await settledInTime(ctx, job.id, options, waitedMs);
  if (outcome?.kind === 'failed') {
    ctx.remove('Location');
    throw failureOf(outcome.failure);
  }
  if (outcome) return answerJob(ctx, withSealedAt(answer, await sealedAtOf(options.store, outcome)));
  ctx.set('Retry-After', String(RETRY_AFTER_SECONDS));
  const phase = options.sealer.phase({ job });
  answerJob(ctx, JSON.stringify(presentJob({ job }, phase, options.site)));
}

/** Waits for the outcome, but not past the time-out, a shorter `Prefer: wait`, or the caller's own patience. */
async function settledInTime(
  ctx: RequestContext,
  jobId: string,
  { sealer, blockingTimeoutMs }: CreateOptions,
  waitedMs: number,
): Promise<Outcome | undefined> {
  const preferredMs = preferredWaitMs(ctx.get('Prefer'));
  const waitMs = Math.min(preferredMs ?? blockingTimeoutMs, blockingTimeoutMs);
  if (preferredMs === waitMs) ctx.set('Preference-Applied', `wait=${waitMs / 1000}`);
  const patience = new AbortController();
  const stop = () => patience.abort();
  ctx.res.once('close', stop);
  if (ctx.res.closed) stop();
  try {
    return await settledWithin(Math.max(0, waitMs - waitedMs), jobId, sealer, patience);
  } finally {
    ctx.res.off('close', stop);
  }
}

function answerJob(ctx: RequestContext, body: string): void {
  ctx.status = 202;
  ctx.type = JSON_TYPE;
  ctx.body = body;
}
