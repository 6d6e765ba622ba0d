import { assert } from '../base/assert.ts';
import type { Clock } from '../base/clock.ts';
import { ServiceError } from '../base/errors.ts';
import { type IntakeOptions, receiveUpload } from '../intake.ts';
import { CreateFields, type CreateRequest, fingerprint } from '../job/fields.ts';
import { newJobId } from '../job/id.ts';
import type { DocumentDigests, Job, Outcome } from '../job/job.ts';
import type { Sealer } from '../sealer.ts';
import type { IdempotencyEntry, IdempotencyKey, Store } from '../store/store.ts';
import { askForBody } from './body.ts';
import { type Reservations, readIdempotencyKey } from './idempotency.ts';
import { createFromSource } from './json-create.ts';
import type { UploadSlots } from './limits.ts';
import { jobUrl, presentJob, type Site } from './present.ts';
import { callerOf, JSON_TYPE, type Middleware, type RequestContext } from './state.ts';

export interface CreateOptions {
  store: Pick<Store, 'idempotency' | 'job'>;
  sealer: Pick<Sealer, 'admit' | 'accept' | 'settled' | 'phase'>;
  reservations: Reservations;
  slots: UploadSlots;
  intake: IntakeOptions;
  site: Site;
  blockingTimeoutMs: number;
  clock: Clock;
}

/** A job that is on disk, and how its create is answered. */
interface Accepted {
  job: Job;
  /** The answer's body; that of a blocking create is given only once the job is completed. */
  answer: string;
  replayed: boolean;
}

const OPERATION = 'createSealJob';
const RETRY_AFTER_SECONDS = 1;

/**
 * `POST /v1/jobs/seal`: section 4.1 of the contract. Whatever can be refused is refused before the body is asked for; a
 * client that sent `Expect: 100-continue` then never sends it.
 */
export function createSealJob(options: CreateOptions): Middleware {
  return async (ctx) => {
    const mediaType = requireMediaType(ctx);
    const key = readIdempotencyKey(ctx.req);
    if (mediaType === 'application/json') return createFromSource(ctx, options.intake.bodyIdleTimeoutMs);
    const accepted = await receiveOnce(ctx, key, options);
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

function requireMediaType({ req }: RequestContext): string {
  const mediaType = req.headers['content-type']?.split(';')[0]?.trim().toLowerCase();
  if (req.headers['content-encoding'] !== undefined) {
    throw new ServiceError('unsupported_media_type', 'The body must be sent without a Content-Encoding.');
  }
  if (mediaType === 'multipart/form-data' || mediaType === 'application/json') return mediaType;
  throw new ServiceError(
    'unsupported_media_type',
    'Content-Type must be multipart/form-data, or application/json with a source_url.',
  );
}

/** Holds the idempotency key while the request is received, so that one of two racing repeats is told to wait. */
async function receiveOnce(
  ctx: RequestContext,
  key: string | undefined,
  options: CreateOptions,
): Promise<Accepted> {
  if (key === undefined) return receive(ctx, undefined, options);
  const { clientId } = callerOf(ctx).viewer;
  const idempotencyKey: IdempotencyKey = { clientId, operation: OPERATION, key };
  const release = options.reservations.take(idempotencyKey);
  try {
    return await receive(ctx, idempotencyKey, options);
  } finally {
    release();
  }
}

async function receive(
  ctx: RequestContext,
  key: IdempotencyKey | undefined,
  options: CreateOptions,
): Promise<Accepted> {
  const { store, sealer } = options;
  const earlier = key && (await store.idempotency(key));
  // A repeat brings no new work: it is answered even while new work is refused.
  if (!earlier) sealer.admit('async');
  const { request, document } = await upload(ctx, options);
  const print = fingerprint(request, document.sha256);
  if (earlier) return replay(earlier, print, store);
  requireChecksum(request, document);
  sealer.admit(request.mode);
  const job = jobOf(ctx, request, document, options.clock());
  const answer = answerTo(job, options.site);
  const entry = key && { ...key, fingerprint: print, jobId: job.id, answer, acceptedAt: job.acceptedAt };
  // If we stop before this, nothing was promised; after it, the job is sealed whatever happens, and a repeat finds it.
  await sealer.accept(job, entry);
  return { job, answer, replayed: false };
}

async function upload(
  ctx: RequestContext,
  { slots, intake }: CreateOptions,
): Promise<{ request: CreateRequest; document: DocumentDigests }> {
  const leave = slots.take(callerOf(ctx).viewer.clientId);
  try {
    const fields = new CreateFields();
    const receiving = receiveUpload(ctx.req, fields, intake);
    // Faults in the head of the request have shown by now; then the body is not asked for.
    await Promise.race([receiving, undefined]);
    askForBody(ctx);
    const document = await receiving;
    return { request: fields.finish(), document };
  } finally {
    leave();
  }
}

async function replay(
  entry: IdempotencyEntry,
  print: string,
  store: CreateOptions['store'],
): Promise<Accepted> {
  if (entry.fingerprint !== print) {
    throw new ServiceError(
      'idempotency_key_reused',
      'This Idempotency-Key belongs to an earlier, different request. Use a new one.',
    );
  }
  const record = await store.job(entry.jobId);
  assert(record, `the job ${entry.jobId} of an idempotency entry is not in the store`);
  return { job: record.job, answer: entry.answer, replayed: true };
}

function requireChecksum({ checksumSha256 }: CreateRequest, { sha256 }: DocumentDigests): void {
  if (checksumSha256 === undefined || checksumSha256 === sha256) return;
  throw new ServiceError(
    'checksum_mismatch',
    'checksum_sha256 is not the SHA-256 of the bytes received. Nothing was recorded, upload the document again.',
    { parameter: 'checksum_sha256' },
  );
}

function jobOf(ctx: RequestContext, request: CreateRequest, document: DocumentDigests, now: number): Job {
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
    source: 'upload',
    document,
    scan: { verdict: 'not_configured' },
    capabilities: ['receipt.sha512', 'receipt.inclusion_proof'],
    acceptedAt: now,
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
    throw new ServiceError(code, message, { retryAfterSeconds: RETRY_AFTER_SECONDS });
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

/** `Prefer: wait=N` in milliseconds; the first one counts, and what cannot be read is ignored (RFC 7240, section 2). */
function preferredWaitMs(ctx: RequestContext): number | undefined {
  const [, seconds] = /(?:^|,)\s*wait\s*=\s*"?(\d{1,6})"?\s*(?=[,;]|$)/i.exec(ctx.get('Prefer')) ?? [];
  return seconds === undefined ? undefined : Number(seconds) * 1000;
}

function answerJob(ctx: RequestContext, body: string): void {
  ctx.status = 202;
  ctx.type = JSON_TYPE;
  ctx.body = body;
}
