import type { IncomingMessage } from 'node:http';
import { parseItem } from 'structured-headers';
import { assert } from '../base/assert.ts';
import { ServiceError } from '../base/errors.ts';
import { fingerprint } from '../job/fields.ts';
import { IDEMPOTENCY_KEY_PATTERN, newJobId } from '../job/id.ts';
import type { Job } from '../job/job.ts';
import type { Allowance } from '../limits/allowance.ts';
import { discardOnFailure } from '../seal/documentPass.ts';
import type { Fetching } from '../seal/fetching.ts';
import type { Sealer } from '../seal/sealer.ts';
import type { Timekeeping } from '../seal/timekeeping.ts';
import type { IdempotencyEntry, IdempotencyKey, Store } from '../store/store.ts';
import { presentJob, type Site } from './presentJob.ts';
import type { Receive, ReceivedCreate, ReceiveOptions } from './receiveCreate.ts';
import { callerOf, type RequestContext } from './requestContext.ts';

export interface AcceptOptions extends ReceiveOptions {
  store: Pick<Store, 'jobs' | 'log'>;
  sealer: Pick<Sealer, 'admit' | 'accept'>;
  sources: Pick<Fetching, 'probe' | 'accept'>;
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
export interface Create {
  operation: IdempotencyKey['operation'];
  receive: Receive;
  allowance: Allowance;
}

/**
 * Makes a job of a create, whatever form that has. Throws ServiceError.
 *
 * Holds the idempotency key while its first request is received, so that one of two racing requests is told to wait.
 * Every request counts against the rate of its client, repeats too: each is received and hashed. But repeats of what is accepted are
 * answered even while new work is refused.
 */
export async function acceptJob(
  ctx: RequestContext,
  name: string | undefined,
  create: Create,
  options: AcceptOptions,
): Promise<Accepted> {
  if (name === undefined) return acceptNew(ctx, undefined, create, options);
  const { reservations, store } = options;
  const key: IdempotencyKey = {
    clientId: callerOf(ctx).viewer.clientId,
    operation: create.operation,
    key: name,
  };
  const earlier = await store.jobs.idempotency(key);
  if (earlier) return repeat(ctx, earlier, create, options);
  const release = reservations.take(key);
  try {
    // Asked again: whoever held the key until now may have been accepted in between.
    const accepted = await store.jobs.idempotency(key);
    return await (accepted ? repeat(ctx, accepted, create, options) : acceptNew(ctx, key, create, options));
  } finally {
    release();
  }
}

async function acceptNew(
  ctx: RequestContext,
  key: IdempotencyKey | undefined,
  { receive, allowance }: Create,
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
  const job = { ...(await jobOf(ctx, received, options)), ...(quota && { quota }) };
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
  const copy = upload?.copy;
  if (received.source === 'url') await sources.accept(job, { ...beside, sourceUrl: received.sourceUrl });
  else await sealer.accept(job, { ...beside, ...(copy && { copy }) });
  allowance.keep();
  return { job, answer, replayed: false };
}

async function repeat(
  ctx: RequestContext,
  entry: IdempotencyEntry,
  { receive, allowance }: Create,
  options: AcceptOptions,
): Promise<Accepted> {
  allowance.takeRequest();
  // Scanned and copied when it was accepted: a repeat is only compared, and answered the same whatever a scanner says by now.
  const intake = { ...options.intake, scanner: undefined, copies: undefined };
  const { request, documentSha256 } = await receive(ctx, { ...options, intake });
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
    ...(request.purpose !== undefined && { purpose: request.purpose }),
    ...(request.customerReference !== undefined && { customerReference: request.customerReference }),
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

/** Fixed before the job is on disk: of a completed job nothing is missing but when it was sealed. */
function answerTo(job: Job, site: Site): string {
  const presented =
    job.mode === 'blocking'
      ? presentJob({ job, outcome: { kind: 'sealed', leafIndex: 0 } }, 'completed', site)
      : presentJob({ job }, 'queued', site);
  return JSON.stringify(presented);
}

/** Seconds after which a request that is being received may have been accepted. */
const RECEIVED_SECONDS = 1;

/**
 * The `Idempotency-Key` of a request: 8 to 128 visible ASCII characters, bare or as a structured-field string
 * (RFC 9651, section 3.3.3). Throws ServiceError `invalid_idempotency_key`.
 */
export function readIdempotencyKey(req: IncomingMessage): string | undefined {
  const values = req.headersDistinct['idempotency-key'];
  if (!values) return undefined;
  const [value = ''] = values;
  const key = value.startsWith('"') ? unquote(value) : value;
  if (values.length === 1 && key !== undefined && IDEMPOTENCY_KEY_PATTERN.test(key)) return key;
  throw new ServiceError(
    'invalid_idempotency_key',
    'Idempotency-Key must be sent once and be 8 to 128 visible ASCII characters, bare or in double quotes.',
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

/**
 * The keys of requests that are being received, before anything of them is in the store. In memory: a crash forgets them
 * together with the uploads they stood for.
 */
export class Reservations {
  readonly #held = new Set<string>();

  /** Takes the key; the function returned gives it back. Throws ServiceError `idempotency_in_progress`. */
  take({ clientId, operation, key }: IdempotencyKey): () => void {
    const name = JSON.stringify([clientId, operation, key]);
    if (this.#held.has(name)) {
      throw new ServiceError(
        'idempotency_in_progress',
        'A request with this Idempotency-Key is still being received. Repeat it later.',
        { retryAfterSeconds: RECEIVED_SECONDS },
      );
    }
    this.#held.add(name);
    return () => this.#held.delete(name);
  }
}
