import { ERROR_KINDS } from '../base/errorKinds.ts';
import { ServiceError } from '../base/errors.ts';
import { type CreateRequest, fingerprint } from '../job/fields.ts';
import { newJobId } from '../job/id.ts';
import { type Failure, isReceived, type Job, type Outcome } from '../job/job.ts';
import { Allowance } from '../limits/allowance.ts';
import type { Limits } from '../limits/limits.ts';
import type { Fetching } from '../seal/fetching.ts';
import type { Sealer } from '../seal/sealer.ts';
import type { Timekeeping } from '../seal/timekeeping.ts';
import type { IdempotencyKey, Store } from '../store/store.ts';
import { StoreError } from '../store/storeError.ts';
import { type Earlier, type IdempotencyKeys, readIdempotencyKey } from './idempotency.ts';
import { ASK_AGAIN_SECONDS, jobUrl, presentJob, type Site, sealedAtOf, withSealedAt } from './presentJob.ts';
import { setRateLimit } from './rateLimit.ts';
import {
  type CreateForm,
  type CreateOperation,
  formOf,
  type ReceivedCreate,
  type ReceiveOptions,
  receive,
} from './receive.ts';
import { callerOf, JSON_TYPE, type Middleware, type RequestContext } from './requestContext.ts';

export interface CreateOptions extends ReceiveOptions {
  store: Pick<Store, 'jobs' | 'log'>;
  keys: IdempotencyKeys;
  limits: Limits;
  sealer: Pick<Sealer, 'admit' | 'accept' | 'submit' | 'settled' | 'phase'>;
  sources: Pick<Fetching, 'probe' | 'accept'>;
  site: Site;
  /** The possible capabilities of the receipt of a new job of this client, including whether a webhook reports the end of the job. */
  capabilities(clientId: string, request: CreateRequest): Promise<string[]>;
  time: Pick<Timekeeping, 'stamp'>;
  blockingTimeoutMs: number;
}

/** One create: a request, or a line of a batch. */
export interface Create {
  idempotencyKey: string | undefined;
  form: CreateForm;
  allowance: Allowance;
  /** The outcome of a blocking create, as returned by {@link Sealer.settled}, until the caller's time runs out. */
  wait(jobId: string): Promise<Outcome | undefined>;
}

/** A create whose job is on disk. */
export interface Created {
  job: Job;
  /** The outcome of the job of a blocking create; absent if the caller's time ran out first, and in other modes. */
  outcome?: Outcome | undefined;
  /** The answer's body. A blocking create is answered with it once the job is sealed. */
  answer: string;
  replayed: boolean;
}

/**
 * `POST /v1/jobs/seal` (section 4.1 of the contract), and the operations for one form of it. What the head decides is refused before the
 * body is requested, so that a client with `Expect: 100-continue` does not send it.
 */
export function createJob(operation: CreateOperation, options: CreateOptions): Middleware {
  return async (ctx) => {
    const form = formOf(ctx, operation);
    const idempotencyKey = readIdempotencyKey(ctx.req);
    const allowance = new Allowance(options.limits, callerOf(ctx).viewer.clientId);
    // The work between the last byte and acceptance is part of the caller's wait.
    let endedAtMs = performance.now();
    ctx.req.once('end', () => {
      endedAtMs = performance.now();
    });
    const wait = (jobId: string) => settledInTime(ctx, jobId, endedAtMs, options);
    const create = { idempotencyKey, form, allowance, wait };
    try {
      await sendAnswer(ctx, await runCreate(ctx, create, options), options);
    } finally {
      allowance.close();
      setRateLimit(ctx, allowance.standings());
    }
  };
}

/**
 * Carries out a create in any form. If it throws ServiceError, there is no job, except that a job accepted before its document was received
 * may have failed. An idempotency key is held until the job is on disk: a second request with the key must wait while the first is
 * received, and then shares its outcome.
 */
export async function runCreate(
  ctx: RequestContext,
  create: Create,
  options: CreateOptions,
): Promise<Created> {
  const { idempotencyKey: key, form, allowance, wait } = create;
  const { keys, sealer, sources } = options;
  const { clientId } = callerOf(ctx).viewer;
  const claim =
    key === undefined ? undefined : await keys.claim({ clientId, operation: keySpaceOf(form), key });
  if (claim && 'entry' in claim) return repeat(ctx, claim, create, options);
  using held = claim;
  allowance.refuseExhausted();
  allowance.takeRequest();
  sealer.admit('async');
  const received = await receive(ctx, form, options, (purpose) => allowance.takeJob(purpose));
  const { request, documentSha256, sourceUrl, copy } = received;
  let isSubmitted = false;
  try {
    const job = await admit(ctx, received, allowance, options);
    const answer = answerTo(job, options.site);
    const idempotency = held && {
      ...held.key,
      fingerprint: fingerprint(request, documentSha256),
      jobId: job.id,
      answer,
      acceptedAt: job.since,
    };
    const acceptance = { idempotency, quotaJobsMax: allowance.quotaJobsMax, sourceUrl, copy };
    isSubmitted = true;
    // A crash before the job is on disk loses nothing that was promised. After that, the job is sealed in any case, and a repeat finds it.
    if (sourceUrl !== undefined) await sources.accept(job, acceptance);
    else if (job.mode === 'blocking' && isReceived(job)) {
      sealer.submit(job, acceptance);
      if (idempotency) held.sealing({ entry: idempotency, job });
    } else await sealer.accept(job, acceptance);
    const outcome = job.mode === 'blocking' ? await wait(job.id) : undefined;
    allowance.keep();
    return { job, answer, outcome, replayed: false };
  } catch (error) {
    // After a commit with an unknown outcome the job may be on disk, and then its copy must exist.
    const isDropped = error instanceof ServiceError || error instanceof StoreError;
    if (isDropped || !isSubmitted) await received.discard();
    throw error;
  }
}

/** The operation whose idempotency keys a create uses: those of a document share theirs, and so do those of digests. */
function keySpaceOf({ kind }: CreateForm): IdempotencyKey['operation'] {
  return kind === 'digests' || kind === 'line' ? 'createDigestJob' : 'createSealJob';
}

/** The job of a received document, if it can be accepted now. */
async function admit(
  ctx: RequestContext,
  { request, source, content, documentSha256, sourceUrl }: ReceivedCreate,
  allowance: Allowance,
  { sealer, sources, capabilities, time }: CreateOptions,
): Promise<Job & { since: number }> {
  const { viewer, confirm } = callerOf(ctx);
  const { clientId, organization } = viewer;
  // An upload can take long, and so can a probe. A key that was revoked or has expired in the meantime must not create anything.
  if (sourceUrl === undefined) await confirm();
  const quota = allowance.takeJob(request.purpose);
  if (sourceUrl !== undefined) {
    await sources.probe(clientId, sourceUrl, documentSha256);
    await confirm();
  }
  sealer.admit(request.mode);
  return {
    id: newJobId(),
    clientId,
    organization,
    traceId: ctx.state.traceId,
    mode: request.mode,
    visibility: request.visibility,
    purpose: request.purpose,
    customerReference: request.customerReference,
    preserveMetadata: request.preserveMetadata,
    sealedPdf: request.sealedPdf,
    source,
    content,
    checksumSha256: content ? undefined : documentSha256,
    capabilities: await capabilities(clientId, request),
    ...time.stamp(),
    quota,
  };
}

/**
 * Every request counts against the rate of its client. Repeats count too, because the service receives and hashes them. But the service
 * answers repeats of accepted requests even while it refuses new work.
 */
async function repeat(
  ctx: RequestContext,
  { entry, job }: Earlier,
  { form, allowance, wait }: Create,
  options: CreateOptions,
): Promise<Created> {
  allowance.takeRequest();
  // The document was scanned and copied when it was accepted. A repeat is only compared, so its answer does not depend on the scanner's
  // current verdict.
  const intake = { ...options.intake, scanner: undefined, copies: undefined };
  const { request, documentSha256 } = await receive(ctx, form, { ...options, intake });
  await callerOf(ctx).confirm();
  allowance.isAbout(request.purpose);
  if (entry.fingerprint !== fingerprint(request, documentSha256)) {
    throw new ServiceError(
      'idempotency_key_reused',
      'This Idempotency-Key belongs to an earlier, different request. Use a new one.',
    );
  }
  if (job.mode === 'blocking')
    return { job, answer: entry.answer, outcome: await wait(job.id), replayed: true };
  return { job, answer: await answerNow(job, options), replayed: true };
}

/** An asynchronous job, which may have ended, or received its document, since it was accepted. */
async function answerNow(job: Job, { store, sealer, site }: CreateOptions): Promise<string> {
  const record = (await store.jobs.get(job.id)) ?? { job };
  const sealedAt = await sealedAtOf(store, record.outcome);
  return JSON.stringify(presentJob(record, sealer.phase(record), site, sealedAt));
}

/** Waits for the outcome until the time-out, a shorter `Prefer: wait`, or the end of the connection. */
async function settledInTime(
  ctx: RequestContext,
  jobId: string,
  sinceMs: number,
  { sealer, blockingTimeoutMs }: CreateOptions,
): Promise<Outcome | undefined> {
  const preferredMs = preferredWaitMs(ctx.get('Prefer'));
  const waitMs = Math.min(preferredMs ?? blockingTimeoutMs, blockingTimeoutMs);
  if (preferredMs === waitMs) ctx.set('Preference-Applied', `wait=${waitMs / 1000}`);
  const patience = new AbortController();
  const stop = () => patience.abort();
  using _timer = setTimeout(stop, Math.max(0, waitMs - (performance.now() - sinceMs)));
  ctx.res.once('close', stop);
  if (ctx.res.closed) stop();
  try {
    return await sealer.settled(jobId, patience.signal);
  } finally {
    ctx.res.off('close', stop);
  }
}

async function sendAnswer(ctx: RequestContext, created: Created, options: CreateOptions): Promise<void> {
  const { job, outcome, replayed } = created;
  ctx.state.jobId = job.id;
  if (replayed) {
    ctx.set('Idempotent-Replayed', 'true');
    ctx.set('Seal-Trace-Id', job.traceId);
  }
  // To the caller, a failure is an error and not a job.
  if (outcome?.kind === 'failed') throw failureOf(outcome.failure);
  ctx.set('Location', jobUrl(options.site, job.id));
  if (job.mode === 'blocking' && !outcome) ctx.set('Retry-After', String(ASK_AGAIN_SECONDS));
  ctx.status = 202;
  ctx.type = JSON_TYPE;
  ctx.body = await answerBody(created, options);
}

/** The first answer is fixed before the job is on disk: for a sealed job, only the time of sealing is added later. */
function answerTo(job: Job, site: Site): string {
  const presented =
    job.mode === 'blocking'
      ? presentJob({ job, outcome: { kind: 'sealed', leafIndex: 0 } }, 'completed', site)
      : presentJob({ job }, 'queued', site);
  return JSON.stringify(presented);
}

/** The job, as the answer shows it: with the time of sealing, or with its phase now if the caller's time ran out. */
export async function answerBody(
  { job, answer, outcome }: Created,
  { store, sealer, site }: Pick<CreateOptions, 'store' | 'sealer' | 'site'>,
): Promise<string> {
  if (job.mode === 'async') return answer;
  if (outcome) return withSealedAt(answer, await sealedAtOf(store, outcome));
  return JSON.stringify(presentJob({ job }, sealer.phase({ job }), site));
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
