import { assert } from '../base/assert.ts';
import type { Clock } from '../base/clock.ts';
import { ServiceError } from '../base/errors.ts';
import { discardOnFailure } from '../document.ts';
import { fingerprint } from '../job/fields.ts';
import { newJobId } from '../job/id.ts';
import type { Job, Outcome } from '../job/job.ts';
import type { Allowance } from '../limits/allowance.ts';
import type { Limits } from '../limits/limits.ts';
import type { Sealer } from '../sealer.ts';
import type { IdempotencyEntry, IdempotencyKey, Store } from '../store/store.ts';
import { ERROR_KINDS } from './errors.ts';
import { type Reservations, readIdempotencyKey } from './idempotency.ts';
import { jobUrl, presentJob, type Site } from './present.ts';
import { withAllowance } from './rate-limit.ts';
import { callerOf, JSON_TYPE, type Middleware, type RequestContext } from './state.ts';
import { probe, type Submission, type SubmissionOptions, type Submit, submissionOf } from './submission.ts';

export interface CreateOptions extends SubmissionOptions {
  store: Pick<Store, 'idempotency' | 'job'>;
  sealer: Pick<Sealer, 'admit' | 'accept' | 'settled' | 'phase'>;
  reservations: Reservations;
  limits: Limits;
  site: Site;
  blockingTimeoutMs: number;
  /** What the receipt of a new job of this client will offer, and whether it will be told of. */
  capabilities(clientId: string): Promise<string[]>;
  clock: Clock;
}

/** A job that is on disk, and how its create is answered. */
interface Accepted {
  job: Job;
  /** The answer's body; that of a blocking create is given only once the job is completed. */
  answer: string;
  replayed: boolean;
}

/** How to read a create, and what it may take. */
interface Asked {
  submit: Submit;
  allowance: Allowance;
}

const OPERATION = 'createSealJob';
const RETRY_AFTER_SECONDS = 1;

/**
 * `POST /v1/jobs/seal`: section 4.1 of the contract. Whatever can be refused is refused before the body is asked for; a
 * client that sent `Expect: 100-continue` then never sends it.
 */
export function createSealJob(options: CreateOptions): Middleware {
  return async (ctx) => {
    refuseQuery(ctx);
    const submit = submissionOf(ctx);
    const key = readIdempotencyKey(ctx.req);
    const accepted = await withAllowance(ctx, options.limits, (allowance) =>
      receiveOnce(ctx, key, { submit, allowance }, options),
    );
    ctx.state.jobId = accepted.job.id;
    ctx.set('Location', jobUrl(options.site, accepted.job.id));
    if (accepted.replayed) {
      ctx.set('Idempotent-Replayed', 'true');
      ctx.set('Seal-Trace-Id', accepted.job.traceId);
    }
    if (accepted.job.mode === 'blocking') await answerSettled(ctx, accepted, options);
    else answerJob(ctx, accepted.answer);
  };
}

/** A field in the wrong place must not be overlooked: `?mode=blocking` would seal asynchronously. */
function refuseQuery({ querystring }: RequestContext): void {
  const [name] = new URLSearchParams(querystring).keys();
  if (name === undefined) return;
  const shown = JSON.stringify(name.slice(0, 64));
  throw new ServiceError(
    'unknown_parameter',
    `There is no query parameter ${shown}. Send the fields of a job in the body.`,
  );
}

/**
 * Holds the idempotency key while its first request is received, so that one of two racing requests is told to wait.
 * Repeats of what is accepted bring no new work: any number of them is answered, even while new work is refused.
 */
async function receiveOnce(
  ctx: RequestContext,
  name: string | undefined,
  asked: Asked,
  options: CreateOptions,
): Promise<Accepted> {
  if (name === undefined) return receive(ctx, undefined, asked, options);
  const { reservations, store } = options;
  const key: IdempotencyKey = { clientId: callerOf(ctx).viewer.clientId, operation: OPERATION, key: name };
  const earlier = await store.idempotency(key);
  if (earlier) return repeat(ctx, earlier, asked, options);
  const release = reservations.take(key);
  try {
    // Asked again: whoever held the key until now may have been accepted in between.
    const accepted = await store.idempotency(key);
    return await (accepted ? repeat(ctx, accepted, asked, options) : receive(ctx, key, asked, options));
  } finally {
    release();
  }
}

async function receive(
  ctx: RequestContext,
  key: IdempotencyKey | undefined,
  { submit, allowance }: Asked,
  options: CreateOptions,
): Promise<Accepted> {
  const { sealer, sources } = options;
  allowance.refuseExhausted();
  allowance.takeRequest();
  sealer.admit('async');
  options.intake.scanner?.admit();
  const submission = await submit(ctx, options, (purpose) => allowance.takeJob(purpose));
  const { request, documentSha256, sourceUrl } = submission;
  const quota = await discardOnFailure(submission.received, async () => {
    const taken = allowance.takeJob(request.purpose);
    if (sourceUrl !== undefined) await probe(ctx, sourceUrl, documentSha256, options);
    sealer.admit(request.mode);
    return taken;
  });
  const print = fingerprint(request, documentSha256);
  const job = { ...(await jobOf(ctx, submission, options)), ...(quota && { quota }) };
  const answer = answerTo(job, options.site);
  const idempotency = key && {
    ...key,
    fingerprint: print,
    jobId: job.id,
    answer,
    acceptedAt: job.acceptedAt,
  };
  // If we stop before this, nothing was promised; after it, the job is sealed whatever happens, and a repeat finds it.
  const beside = { ...(idempotency && { idempotency }) };
  const copy = submission.received?.copy;
  if (sourceUrl === undefined) await sealer.accept(job, { ...beside, ...(copy && { copy }) });
  else await sources.accept(job, { ...beside, sourceUrl });
  allowance.keep();
  return { job, answer, replayed: false };
}

async function repeat(
  ctx: RequestContext,
  entry: IdempotencyEntry,
  { submit, allowance }: Asked,
  options: CreateOptions,
): Promise<Accepted> {
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
  const record = await options.store.job(entry.jobId);
  assert(record, `the job ${entry.jobId} of an idempotency entry is not in the store`);
  return { job: record.job, answer: entry.answer, replayed: true };
}

async function jobOf(
  ctx: RequestContext,
  { request, documentSha256, received }: Submission,
  { capabilities, clock }: CreateOptions,
): Promise<Job> {
  const { clientId, organization } = callerOf(ctx).viewer;
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
    ...(received
      ? { source: 'upload', content: received.content }
      : { source: 'url', checksumSha256: documentSha256 }),
    capabilities: await capabilities(clientId),
    acceptedAt: clock(),
  };
}

/** Fixed before the job is on disk: nothing in the body of a completed job depends on how it is sealed. */
function answerTo(job: Job, site: Site): string {
  const presented =
    job.mode === 'blocking'
      ? presentJob({ job, outcome: { kind: 'sealed', leafIndex: 0 } }, 'completed', site)
      : presentJob({ job }, 'queued', site);
  return JSON.stringify(presented);
}

async function answerSettled(
  ctx: RequestContext,
  { job, answer }: Accepted,
  options: CreateOptions,
): Promise<void> {
  const outcome = await settledInTime(ctx, job.id, options);
  if (outcome?.kind === 'failed') {
    const { code, message } = outcome.failure;
    ctx.remove('Location');
    const mayPass = ERROR_KINDS[code].status === 503;
    throw new ServiceError(code, message, { ...(mayPass && { retryAfterSeconds: RETRY_AFTER_SECONDS }) });
  }
  if (outcome) return answerJob(ctx, answer);
  ctx.set('Retry-After', String(RETRY_AFTER_SECONDS));
  const phase = options.sealer.phase({ job });
  answerJob(ctx, JSON.stringify(presentJob({ job }, phase, options.site)));
}

/** Waits for the outcome, but not past the time-out, a shorter `Prefer: wait`, or the caller's own patience. */
async function settledInTime(
  ctx: RequestContext,
  jobId: string,
  { sealer, blockingTimeoutMs }: CreateOptions,
): Promise<Outcome | undefined> {
  const preferredMs = preferredWaitMs(ctx);
  const waitMs = Math.min(preferredMs ?? blockingTimeoutMs, blockingTimeoutMs);
  if (preferredMs === waitMs) ctx.set('Preference-Applied', `wait=${waitMs / 1000}`);
  const patience = new AbortController();
  const stop = () => patience.abort();
  const timer = setTimeout(stop, waitMs);
  ctx.res.once('close', stop);
  if (ctx.res.closed) stop();
  try {
    return await sealer.settled(jobId, patience.signal);
  } finally {
    clearTimeout(timer);
    ctx.res.off('close', stop);
  }
}

const QUOTED = /"((?:[^"\\]|\\.)*)"/g;

/** `Prefer: wait=N` in milliseconds; the first one counts, and what cannot be read is ignored (RFC 7240, section 2). */
function preferredWaitMs(ctx: RequestContext): number | undefined {
  // Quoted text may hold what looks like a preference.
  const header = ctx.get('Prefer').replaceAll(QUOTED, (_, text) => (/^\d+$/.test(text) ? text : '?'));
  if (header.includes('"')) return undefined;
  const [, seconds] = /(?:^|,)\s*wait\s*=\s*(\d{1,6})\s*(?=[,;]|$)/i.exec(header) ?? [];
  return seconds === undefined ? undefined : Number(seconds) * 1000;
}

function answerJob(ctx: RequestContext, body: string): void {
  ctx.status = 202;
  ctx.type = JSON_TYPE;
  ctx.body = body;
}
