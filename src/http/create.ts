import { ERROR_KINDS } from '../base/errorKinds.ts';
import { ServiceError } from '../base/errors.ts';
import type { Failure, Outcome } from '../job/job.ts';
import type { Limits } from '../limits/limits.ts';
import type { Sealer } from '../seal/sealer.ts';
import {
  type Accepted,
  type AcceptOptions,
  acceptJob,
  type Create,
  readIdempotencyKey,
} from './acceptJob.ts';
import { ASK_AGAIN_SECONDS, jobUrl, presentJob, sealedAtOf, withSealedAt } from './presentJob.ts';
import { withAllowance } from './rateLimit.ts';
import { receiverOfDigests, receiverOfDocument } from './receive.ts';
import { JSON_TYPE, type Middleware, type RequestContext } from './requestContext.ts';

export interface CreateOptions extends AcceptOptions {
  sealer: Pick<Sealer, 'admit' | 'accept' | 'submit' | 'settled' | 'phase'>;
  limits: Limits;
  blockingTimeoutMs: number;
}

/**
 * `POST /v1/jobs/seal` and, for a document that stays with its owner, `POST /v1/digests/seal`: section 4.1 of the contract. All possible
 * refusals come before the body is requested, so that a client with `Expect: 100-continue` does not send it.
 */
export function createJob(operation: Create['operation'], options: CreateOptions): Middleware {
  const receiverOf = operation === 'createSealJob' ? receiverOfDocument : receiverOfDigests;
  return async (ctx) => {
    const receive = receiverOf(ctx);
    const key = readIdempotencyKey(ctx.req);
    const waitedMs = sinceBody(ctx);
    const settled = (jobId: string) => settledInTime(ctx, jobId, options, waitedMs());
    const accepted = await withAllowance(ctx, options.limits, (allowance) =>
      acceptJob(ctx, key, { operation, receive, allowance, settled }, options),
    );
    ctx.state.jobId = accepted.job.id;
    if (accepted.replayed) {
      ctx.set('Idempotent-Replayed', 'true');
      ctx.set('Seal-Trace-Id', accepted.job.traceId);
    }
    // To the caller, a failure is an error and not a job.
    if (accepted.outcome?.kind === 'failed') throw failureOf(accepted.outcome.failure);
    ctx.set('Location', jobUrl(options.site, accepted.job.id));
    if (accepted.job.mode === 'blocking') await answerSettled(ctx, accepted, options);
    else answerJob(ctx, accepted.answer);
  };
}

/** Returns the milliseconds since the last byte of the request: the work before acceptance is part of the caller's wait. */
function sinceBody({ req }: RequestContext): () => number {
  let endedAtMs = performance.now();
  req.once('end', () => {
    endedAtMs = performance.now();
  });
  return () => performance.now() - endedAtMs;
}

async function answerSettled(
  ctx: RequestContext,
  { job, answer, outcome }: Accepted,
  options: CreateOptions,
): Promise<void> {
  if (outcome) return answerJob(ctx, withSealedAt(answer, await sealedAtOf(options.store, outcome)));
  ctx.set('Retry-After', String(ASK_AGAIN_SECONDS));
  const phase = options.sealer.phase({ job });
  answerJob(ctx, JSON.stringify(presentJob({ job }, phase, options.site)));
}

/** Waits for the outcome until the time-out, a shorter `Prefer: wait`, or the end of the connection. */
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

/** The outcome of a blocking create. Undefined if `waitMs` pass or `patience` is aborted first. */
export async function settledWithin(
  waitMs: number,
  jobId: string,
  sealer: Pick<Sealer, 'settled'>,
  patience: AbortController,
): Promise<Outcome | undefined> {
  using _timer = setTimeout(() => patience.abort(), waitMs);
  return await sealer.settled(jobId, patience.signal);
}

/** The error of a blocking create whose job failed. */
export function failureOf({ code, message }: Failure): ServiceError {
  const mayPass = ERROR_KINDS[code].status === 503;
  return new ServiceError(code, message, { ...(mayPass && { retryAfterSeconds: ASK_AGAIN_SECONDS }) });
}

/** A quoted string, other text, or a comma. Nothing after an unfinished quote is readable. */
const PIECE = /"(?:[^"\\]|\\.)*"|[^",]+|,/sy;

/** `wait=N` of a `Prefer` header, in milliseconds. The first one counts; an unreadable value is ignored (RFC 7240, section 2). */
function preferredWaitMs(header: string): number | undefined {
  for (const preference of preferencesOf(header)) {
    const [text = ''] = preference.split(';');
    const equals = text.indexOf('=');
    if (equals === -1 || text.slice(0, equals).trim().toLowerCase() !== 'wait') continue;
    const [, quoted, bare] = /^(?:"(\d{1,6})"|(\d{1,6}))$/.exec(text.slice(equals + 1).trim()) ?? [];
    const seconds = quoted ?? bare;
    if (seconds !== undefined) return Number(seconds) * 1000;
  }
  return undefined;
}

/** The members of the list; a comma within quotes is text. The list is empty if a quote has no end. */
function preferencesOf(header: string): string[] {
  const members = [''];
  PIECE.lastIndex = 0;
  for (let at = 0; at < header.length; at = PIECE.lastIndex) {
    const [piece] = PIECE.exec(header) ?? [];
    if (piece === undefined) return [];
    if (piece === ',') members.push('');
    else members.push((members.pop() ?? '') + piece);
  }
  return members;
}
