import { Readable } from 'node:stream';
import type { Logger } from 'pino';
import { ServiceError } from '../base/errors.ts';
import type { Slots } from '../base/slots.ts';
import { type Copies, readVerified } from '../copy/copies.ts';
import type { DocumentDigests, Job, JobRecord } from '../job/job.ts';
import type { Timekeeping } from '../seal/timekeeping.ts';
import type { Store, StoredCopy } from '../store/store.ts';
import type { Patience } from '../web/incomingBody.ts';
import { visibleJob } from './jobRoutes.ts';
import { requestIds } from './observe.ts';
import { ASK_AGAIN_SECONDS } from './presentJob.ts';
import { callerOf, type Middleware } from './requestContext.ts';

export interface DocumentRouteOptions {
  store: Pick<Store, 'jobs' | 'copies'>;
  copies: Pick<Copies, 'file'>;
  /** How long a copy is available after its job was accepted, in milliseconds. */
  retentionMs: number;
  downloads: Slots;
  /** The lowest rate at which a client may read a copy. */
  patience: Patience;
  time: Pick<Timekeeping, 'ageMs'>;
  logger: Logger;
}

/** `GET /v1/jobs/:job_id/document.pdf`: the copy without metadata (decisions, section 7), for callers who can read the receipt. */
export function getDocument(options: DocumentRouteOptions): Middleware {
  return async (ctx) => {
    const record = await visibleJob(ctx, options.store);
    const { digests, copy } = await requireCopy(record, options);
    // For HEAD too. Caches must not keep the copy, because the service deletes it on time.
    ctx.status = 200;
    ctx.type = 'application/pdf';
    ctx.length = digests.bytes;
    ctx.set('Content-Disposition', `attachment; filename="${record.job.id}.pdf"`);
    ctx.set('Repr-Digest', reprDigest(digests));
    ctx.set('Accept-Ranges', 'none');
    ctx.set('Cache-Control', 'no-store');
    if (ctx.method === 'HEAD') return;
    const leave = options.downloads.take(callerOf(ctx).viewer.clientId);
    ctx.set('Content-Digest', ctx.response.get('Repr-Digest'));
    const file = options.copies.file(copy, digests.bytes);
    try {
      const chunks = inTime(readVerified(file, digests.sha256), options.patience, () => ctx.res.destroy());
      ctx.body = await bodyOf(chunks);
      ctx.length = digests.bytes;
    } catch (error) {
      leave();
      throw error;
    }
    ctx.body
      .once('close', leave)
      .once('error', (err: Error) =>
        options.logger.error({ ...requestIds(ctx), err }, 'a copy cannot be read'),
      );
  };
}

async function requireCopy(
  { job, outcome }: JobRecord,
  options: DocumentRouteOptions,
): Promise<{ digests: DocumentDigests; copy: StoredCopy }> {
  if (!outcome) {
    throw new ServiceError('document_not_ready', 'The job is not completed yet. Ask again later.', {
      retryAfterSeconds: ASK_AGAIN_SECONDS,
    });
  }
  const digests = job.content?.sealedDocument;
  if (outcome.kind === 'failed' || digests === undefined) {
    const why = outcome.kind === 'failed' ? 'it failed' : 'it was sealed without one';
    throw new ServiceError('document_unavailable', `The job has no copy of its document: ${why}.`);
  }
  const copy = await keptCopy(job, options);
  if (copy === undefined) {
    const hours = options.retentionMs / 3_600_000;
    throw new ServiceError(
      'document_expired',
      `The copy of the document was deleted: copies are kept for ${hours} hours after their job was accepted.`,
    );
  }
  return { digests, copy };
}

/** The copy of a job's document, until it expires. */
export async function keptCopy(
  job: Job,
  {
    store,
    retentionMs,
    time,
  }: Pick<DocumentRouteOptions, 'retentionMs' | 'time'> & { store: Pick<Store, 'copies'> },
): Promise<StoredCopy | undefined> {
  return time.ageMs(job) < retentionMs ? store.copies.get(job.id) : undefined;
}

/** The value of `Repr-Digest` (RFC 9530). */
function reprDigest({ sha256, sha512 }: DocumentDigests): string {
  const [short, long] = [sha256, sha512].map((hex) => Buffer.from(hex, 'hex').toString('base64'));
  return `sha-256=:${short}:, sha-512=:${long}:`;
}

/** Reads the first bytes before the answer starts, so that an unreadable file leads to an error answer. */
async function bodyOf(chunks: AsyncGenerator<Buffer>): Promise<Readable> {
  const first = await chunks.next();
  async function* all(): AsyncGenerator<Buffer> {
    try {
      if (!first.done) yield first.value;
      yield* chunks;
    } finally {
      await chunks.return(undefined);
    }
  }
  return Readable.from(all(), { objectMode: false });
}

/** Passes the chunks on. Calls `giveUp` if the client does not read a chunk in the time that `patience` allows. */
async function* inTime(
  chunks: AsyncGenerator<Buffer>,
  { idleTimeoutMs, bytesPerSecondMin = 0 }: Patience,
  giveUp: () => void,
): AsyncGenerator<Buffer> {
  for await (const chunk of chunks) {
    const slowestMs = bytesPerSecondMin === 0 ? 0 : (1000 * chunk.length) / bytesPerSecondMin;
    using _stalled = setTimeout(giveUp, idleTimeoutMs + slowestMs);
    yield chunk;
  }
}
