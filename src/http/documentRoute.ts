import { Readable } from 'node:stream';
import type { Logger } from 'pino';
import { ServiceError } from '../base/errors.ts';
import type { Slots } from '../base/slots.ts';
import { type Copies, readVerified } from '../copy/copies.ts';
import type { CipheredFile } from '../copy/spool.ts';
import type { DocumentDigests, Job, JobRecord, Sealed } from '../job/job.ts';
import { readSuffix } from '../prove/trail/receipts.ts';
import type { Timekeeping } from '../seal/timekeeping.ts';
import type { Store, StoredCopy } from '../store/store.ts';
import type { Patience } from '../web/incomingBody.ts';
import { visibleJob } from './jobRoutes.ts';
import { requestIds } from './observe.ts';
import { ASK_AGAIN_SECONDS } from './presentJob.ts';
import { callerOf, type Middleware, type RequestContext } from './requestContext.ts';
import { beginningOf, SealedPdfs } from './sealedPdfs.ts';

export interface DocumentRouteOptions {
  store: Pick<Store, 'identity' | 'jobs' | 'log' | 'copies'>;
  copies: Pick<Copies, 'find'>;
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
    const { job } = requireSealed(await visibleJob(ctx, options.store));
    const digests = job.content?.sealedDocument;
    if (digests === undefined) throw unavailable('it was sealed without one');
    const file = await requireFile(ctx, job, digests, options);
    // For HEAD too. Caches must not keep the copy, because the service deletes it on time.
    ctx.status = 200;
    ctx.type = 'application/pdf';
    ctx.length = digests.bytes;
    ctx.set('Content-Disposition', `attachment; filename="${job.id}.pdf"`);
    ctx.set('Repr-Digest', reprDigest(digests));
    ctx.set('Accept-Ranges', 'none');
    ctx.set('Cache-Control', 'no-store');
    if (ctx.method === 'HEAD') return;
    using held = new DisposableStack();
    held.defer(options.downloads.take(callerOf(ctx).viewer.clientId));
    ctx.set('Content-Digest', ctx.response.get('Repr-Digest'));
    await send(ctx, readVerified(file, digests.sha256), digests.bytes, options);
    releaseAfter(ctx, held.move());
  };
}

/**
 * `GET /v1/jobs/:job_id/sealed.pdf`: the document with its receipt attached, or a part of it (RFC 9110, section 14.2), for callers who can read the
 * receipt.
 */
export function getSealedPdf(options: DocumentRouteOptions): Middleware {
  const sealedPdfs = new SealedPdfs();
  return async (ctx) => {
    const { job, outcome } = requireSealed(await visibleJob(ctx, options.store));
    const suffix = await requireSuffix(job, outcome, options);
    const file = await requireFile(ctx, job, beginningOf(job), options);
    using held = new DisposableStack();
    held.defer(options.downloads.take(callerOf(ctx).viewer.clientId));
    const pdf = await sealedPdfs.open(job, file, suffix);
    ctx.status = 200;
    ctx.etag = pdf.sha256;
    ctx.vary('Authorization');
    ctx.set('Cache-Control', 'no-store');
    if (ctx.fresh) {
      ctx.status = 304;
      return;
    }
    // Before the headers that describe the PDF: an error must not have them.
    const { start, end } = readRange(ctx, pdf.bytes);
    ctx.type = 'application/pdf';
    ctx.set('Content-Disposition', `attachment; filename="${job.id}.sealed.pdf"`);
    ctx.set('Repr-Digest', `sha-256=:${Buffer.from(pdf.sha256, 'hex').toString('base64')}:`);
    ctx.set('Accept-Ranges', 'bytes');
    ctx.length = end - start;
    if (ctx.method === 'HEAD') return;
    await send(ctx, pdf.read(start, end), end - start, options);
    releaseAfter(ctx, held.move());
  };
}

/** `GET /v1/jobs/:job_id/sealed-pdf.suffix`: what follows the document in the sealed PDF. It can be made for as long as the receipt. */
export function getSealedPdfSuffix(options: DocumentRouteOptions): Middleware {
  return async (ctx) => {
    const { job, outcome } = requireSealed(await visibleJob(ctx, options.store));
    const suffix = await requireSuffix(job, outcome, options);
    ctx.vary('Authorization');
    ctx.set('Cache-Control', 'private, max-age=31536000, immutable');
    ctx.set('Content-Disposition', `attachment; filename="${job.id}.suffix"`);
    ctx.type = 'application/octet-stream';
    // Koa would serialise any other Uint8Array as JSON.
    ctx.body = Buffer.from(suffix);
  };
}

/** Begins to send, after the first bytes have been read, so that an unreadable file leads to an error answer. */
async function send(
  ctx: RequestContext,
  chunks: AsyncGenerator<Uint8Array>,
  bytes: number,
  { patience, logger }: DocumentRouteOptions,
): Promise<void> {
  const body = await bodyOf(inTime(chunks, patience, () => ctx.res.destroy()));
  body.once('error', (err: Error) => logger.error({ ...requestIds(ctx), err }, 'a copy cannot be read'));
  ctx.body = body;
  ctx.length = bytes;
}

function releaseAfter({ body }: RequestContext, held: DisposableStack): void {
  (body as Readable).once('close', () => held.dispose());
}

/** The part that the client asks for. A header that is not one range is ignored, and the client gets everything. */
function readRange(ctx: RequestContext, bytes: number): { start: number; end: number } {
  const whole = { start: 0, end: bytes };
  const isSame = ['', ctx.response.get('ETag')].includes(ctx.get('If-Range'));
  const [, first = '', last = ''] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(ctx.get('Range')) ?? [];
  if (ctx.method !== 'GET' || !isSame || first + last === '') return whole;
  const start = first === '' ? Math.max(0, bytes - Number(last)) : Number(first);
  const end = first === '' || last === '' ? bytes : Math.min(bytes, Number(last) + 1);
  if (first !== '' && last !== '' && Number(last) < start) return whole;
  if (start >= end) {
    ctx.set('Content-Range', `bytes */${bytes}`);
    throw new ServiceError('range_not_satisfiable', `The sealed PDF has ${bytes} bytes.`);
  }
  ctx.status = 206;
  ctx.set('Content-Range', `bytes ${start}-${end - 1}/${bytes}`);
  return { start, end };
}

function requireSealed({ job, outcome }: JobRecord): { job: Job; outcome: Sealed } {
  if (!outcome) {
    throw new ServiceError('document_not_ready', 'The job is not completed yet. Ask again later.', {
      retryAfterSeconds: ASK_AGAIN_SECONDS,
    });
  }
  if (outcome.kind === 'failed') throw unavailable('it failed');
  return { job, outcome };
}

function unavailable(why: string): ServiceError {
  return new ServiceError('document_unavailable', `The job has no copy of its document: ${why}.`);
}

async function requireSuffix(
  job: Job,
  { leafIndex }: Sealed,
  { store }: DocumentRouteOptions,
): Promise<Uint8Array> {
  const suffix = await readSuffix(store, job, leafIndex);
  if (suffix === undefined) throw unavailable('it was created without sealed_pdf=attach');
  return suffix;
}

async function requireFile(
  ctx: RequestContext,
  job: Job,
  { bytes }: DocumentDigests,
  options: DocumentRouteOptions,
): Promise<CipheredFile> {
  const copy = await keptCopy(job, options);
  if (copy === undefined) {
    const hours = options.retentionMs / 3_600_000;
    throw new ServiceError(
      'document_expired',
      `The copy of the document was deleted: copies are kept for ${hours} hours after their job was accepted.`,
    );
  }
  const file = await options.copies.find(copy, bytes);
  if (file !== undefined) return file;
  options.logger.warn({ ...requestIds(ctx), file: copy.file }, 'the file of a kept document is missing');
  throw unavailable('it is missing, as after a restore that did not bring the documents back');
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

async function bodyOf(chunks: AsyncGenerator<Uint8Array>): Promise<Readable> {
  const first = await chunks.next();
  async function* all(): AsyncGenerator<Uint8Array> {
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
  chunks: AsyncGenerator<Uint8Array>,
  { idleTimeoutMs, bytesPerSecondMin = 0 }: Patience,
  giveUp: () => void,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    const slowestMs = bytesPerSecondMin === 0 ? 0 : (1000 * chunk.length) / bytesPerSecondMin;
    using _stalled = setTimeout(giveUp, idleTimeoutMs + slowestMs);
    yield chunk;
  }
}
