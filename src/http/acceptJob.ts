import type { IncomingMessage } from 'node:http';
import { parseItem } from 'structured-headers';
import { assert } from '../base/assert.ts';
import { ServiceError } from '../base/errors.ts';
import { fingerprint } from '../job/fields.ts';
import { IDEMPOTENCY_KEY_PATTERN, newJobId } from '../job/id.ts';
import { isReceived, type Job, type Outcome } from '../job/job.ts';
import type { Allowance } from '../limits/allowance.ts';
import { discardOnFailure, type ReceivedDocument } from '../seal/documentPass.ts';
import type { Fetching } from '../seal/fetching.ts';
import type { Sealer } from '../seal/sealer.ts';
import type { Timekeeping } from '../seal/timekeeping.ts';
import type { IdempotencyEntry, IdempotencyKey, Store } from '../store/store.ts';
import { StoreError } from '../store/storeError.ts';
import { presentJob, type Site } from './presentJob.ts';
import type { Receive, ReceivedCreate, ReceiveOptions } from './receive.ts';
import { callerOf, type RequestContext } from './requestContext.ts';

export interface AcceptOptions extends ReceiveOptions {
  store: Pick<Store, 'jobs' | 'log'>;
  sealer: Pick<Sealer, 'admit' | 'accept' | 'submit'>;
  sources: Pick<Fetching, 'probe' | 'accept'>;
  reservations: Reservations;
  site: Site;
  /** The possible capabilities of the receipt of a new job of this client, including whether a webhook reports the end of the job. */
  capabilities(clientId: string): Promise<string[]>;
  time: Pick<Timekeeping, 'stamp'>;
}

/** The answer to a create whose job is on disk. */
export interface Accepted {
  job: Job;
  /** The outcome of the job of a blocking create; absent if the caller's time ran out first, and in other modes. */
  outcome?: Outcome | undefined;
  /** The answer's body. A blocking create is answered with it once the job is sealed. */
  answer: string;
  replayed: boolean;
}

/** How to read a create, its limits, how to wait for its job, and the operation whose keys its Idempotency-Key belongs to. */
export interface Create {
  operation: IdempotencyKey['operation'];
  receive: Receive;
  allowance: Allowance;
  /** The outcome of a blocking create, as returned by {@link Sealer.settled}, until the caller's time runs out. */
  settled(jobId: string): Promise<Outcome | undefined>;
}

/**
 * Accepts a job from a create in any form, and waits for the job of a blocking create. If it throws ServiceError, there is no job, except
 * that a job accepted before its document was received may have failed. The idempotency key is reserved until the job is on disk: a second
 * request with the key must wait while the first is received, and then shares its outcome. Every request counts against the rate of its
 * client. Repeats count too, because the service receives and hashes them. But the service answers repeats of accepted requests even while
 * it refuses new work.
 */
export async function acceptJob(
  ctx: RequestContext,
  name: string | undefined,
  create: Create,
  options: AcceptOptions,
): Promise<Accepted> {
  if (name === undefined) return acceptNew(ctx, undefined, create, options);
  const { reservations } = options;
  const key: IdempotencyKey = {
    clientId: callerOf(ctx).viewer.clientId,
    operation: create.operation,
    key: name,
  };
  const earlier = (await stored(key, options)) ?? reservations.sealing(key);
  if (earlier) return repeat(ctx, earlier, create, options);
  using reservation = reservations.take(key);
  // Checked again: the request that held the key until now may have been accepted in between.
  const accepted = await stored(key, options);
  return await (accepted
    ? repeat(ctx, accepted, create, options)
    : acceptNew(ctx, reservation, create, options));
}

/** The earlier request with the key. The failure of a blocking create is temporary, so its key is free again. */
async function stored(key: IdempotencyKey, { store }: AcceptOptions): Promise<Earlier | undefined> {
  const entry = await store.jobs.idempotency(key);
  if (entry === undefined) return undefined;
  const record = await store.jobs.get(entry.jobId);
  assert(record, `the job ${entry.jobId} of an idempotency entry is not in the store`);
  const hasFailed = record.job.mode === 'blocking' && record.outcome?.kind === 'failed';
  return hasFailed ? undefined : { entry, job: record.job };
}

async function acceptNew(
  ctx: RequestContext,
  reservation: Reservation | undefined,
  { receive, allowance, settled }: Create,
  options: AcceptOptions,
): Promise<Accepted> {
  const { sealer, sources } = options;
  allowance.refuseExhausted();
  allowance.takeRequest();
  sealer.admit('async');
  const received = await receive(ctx, options, (purpose) => allowance.takeJob(purpose));
  const { request, documentSha256 } = received;
  const upload = received.source === 'upload' ? received.upload : undefined;
  const quota = await discardOnFailure(upload, async () => {
    const taken = allowance.takeJob(request.purpose);
    if (received.source === 'url') {
      const { clientId } = callerOf(ctx).viewer;
      await sources.probe(clientId, received.sourceUrl, documentSha256);
      await callerOf(ctx).confirm();
    }
    sealer.admit(request.mode);
    return taken;
  });
  const job = { ...(await jobOf(ctx, received, options)), quota };
  const answer = answerTo(job, options.site);
  const idempotency = reservation && {
    ...reservation.key,
    fingerprint: fingerprint(request, documentSha256),
    jobId: job.id,
    answer,
    acceptedAt: job.since,
  };
  const { quotaJobsMax } = allowance;
  const beside = {
    idempotency,
    quotaJobsMax,
  };
  const copy = upload?.copy;
  const isBlocking = job.mode === 'blocking';
  // A crash before the job is on disk loses nothing that was promised. After that, the job is sealed in any case, and a repeat finds it.
  if (received.source === 'url') await sources.accept(job, { ...beside, sourceUrl: received.sourceUrl });
  else if (isBlocking && isReceived(job)) {
    sealer.submit(job, { ...beside, copy });
    if (idempotency) reservation.sealing({ entry: idempotency, job });
  } else await sealer.accept(job, { ...beside, copy }).catch((error) => discardIfDropped(error, upload));
  const outcome = isBlocking
    ? await settled(job.id).catch((error) => discardIfDropped(error, upload))
    : undefined;
  allowance.keep();
  return { job, answer, outcome, replayed: false };
}

/** After a commit with an unknown outcome the job may be on disk, and then its copy must exist. */
async function discardIfDropped(error: unknown, upload: ReceivedDocument | undefined): Promise<never> {
  if (error instanceof ServiceError || error instanceof StoreError) await upload?.discard();
  throw error;
}

async function repeat(
  ctx: RequestContext,
  { entry, job }: Earlier,
  { receive, allowance, settled }: Create,
  options: AcceptOptions,
): Promise<Accepted> {
  allowance.takeRequest();
  // The document was scanned and copied when it was accepted. A repeat is only compared, so its answer does not depend on the scanner's
  // current verdict.
  const intake = { ...options.intake, scanner: undefined, copies: undefined };
  const { request, documentSha256 } = await receive(ctx, { ...options, intake });
  allowance.isAbout(request.purpose);
  if (entry.fingerprint !== fingerprint(request, documentSha256)) {
    throw new ServiceError(
      'idempotency_key_reused',
      'This Idempotency-Key belongs to an earlier, different request. Use a new one.',
    );
  }
  const outcome = job.mode === 'blocking' ? await settled(job.id) : undefined;
  return { job, answer: entry.answer, outcome, replayed: true };
}

async function jobOf(
  ctx: RequestContext,
  received: ReceivedCreate,
  { capabilities, time }: AcceptOptions,
): Promise<Job & { since: number }> {
  const { clientId, organization } = callerOf(ctx).viewer;
  const { request } = received;
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
    source: received.source,
    ...contentOf(received),
    capabilities: await capabilities(clientId),
    ...time.stamp(),
  };
}

function contentOf(received: ReceivedCreate): Pick<Job, 'content' | 'checksumSha256'> {
  if (received.source === 'url') return { checksumSha256: received.documentSha256 };
  return { content: received.source === 'upload' ? received.upload.content : received.content };
}

/** The answer is fixed before the job is on disk: for a sealed job, only the time of sealing is added later. */
function answerTo(job: Job, site: Site): string {
  const presented =
    job.mode === 'blocking'
      ? presentJob({ job, outcome: { kind: 'sealed', leafIndex: 0 } }, 'completed', site)
      : presentJob({ job }, 'queued', site);
  return JSON.stringify(presented);
}

/** `Retry-After` of a repeat whose first request is still being received, in seconds. */
const RECEIVED_SECONDS = 1;

/**
 * The `Idempotency-Key` of a request: 8 to 128 visible ASCII characters, bare or as a structured-field string (RFC 9651, section
 * 3.3.3). Throws ServiceError `invalid_idempotency_key`.
 */
export function readIdempotencyKey(req: IncomingMessage): string | undefined {
  const values = req.headersDistinct['idempotency-key'];
  if (!values) return undefined;
  const [value = ''] = values;
  const key = value.startsWith('"') ? unquote(value) : value;
  if (values.length === 1 && key !== undefined && IDEMPOTENCY_KEY_PATTERN.test(key)) return key;
  throw new ServiceError(
    'invalid_idempotency_key',
    'Send Idempotency-Key once. It must have 8 to 128 visible ASCII characters, bare or in double quotes.',
  );
}

function unquote(value: string): string | undefined {
  try {
    const [item] = parseItem(value);
    return typeof item === 'string' ? item : undefined;
  } catch {
    return undefined;
  }
}

/** An earlier request with the same key. */
interface Earlier {
  entry: IdempotencyEntry;
  job: Job;
}

/** A key that one request holds until its job is on disk. */
interface Reservation extends Disposable {
  readonly key: IdempotencyKey;
  /** The request was received, and its job is being sealed: repeats can share its outcome. */
  sealing(request: Earlier): void;
}

/**
 * The keys of requests that are being received or sealed and are not in the store yet. They are in memory only: a crash loses them
 * together with their uploads.
 */
export class Reservations {
  readonly #held = new Map<string, Earlier | undefined>();

  /** The request that holds the key, once it is received. */
  sealing(key: IdempotencyKey): Earlier | undefined {
    return this.#held.get(nameOf(key));
  }

  /** Takes the key. Throws ServiceError `idempotency_in_progress`. */
  take(key: IdempotencyKey): Reservation {
    const name = nameOf(key);
    if (this.#held.has(name)) {
      throw new ServiceError(
        'idempotency_in_progress',
        'A request with this Idempotency-Key is still being received. Repeat it later.',
        { retryAfterSeconds: RECEIVED_SECONDS },
      );
    }
    this.#held.set(name, undefined);
    return {
      key,
      sealing: (request) => this.#held.set(name, request),
      [Symbol.dispose]: () => this.#held.delete(name),
    };
  }
}

function nameOf({ clientId, operation, key }: IdempotencyKey): string {
  return JSON.stringify([clientId, operation, key]);
}
