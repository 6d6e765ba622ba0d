import { assert } from '../base/assert.ts';
import { systemClock } from '../base/clock.ts';
import { ServiceError } from '../base/errors.ts';
import { JOB_ID_PATTERN, type Job, type JobRecord, type Sealed } from '../job/job.ts';
import { encodeBundle } from '../manifest/bundle.ts';
import { encodeReceipt } from '../manifest/receipt.ts';
import type { TrustFile } from '../manifest/trustFile.ts';
import { RecordsInTurn } from '../prove/renewal/recordsInTurn.ts';
import { pathsNow } from '../prove/renewal/renewalStandings.ts';
import { EvidenceRecords } from '../prove/renewal/renewals.ts';
import { readBundle, readReceipt, readTlogProof } from '../prove/trail/receipts.ts';
import type { Sealer } from '../seal/sealer.ts';
import { maySee, type Store } from '../store/store.ts';
import { decodeListQuery, encodeCursor } from './listQuery.ts';
import { ASK_AGAIN_SECONDS, presentJob, type Site, sealedAtOf } from './presentJob.ts';
import { answerJson, callerOf, JSON_TYPE, type Middleware, type RequestContext } from './requestContext.ts';
import type { ApiBody } from './schemas.ts';

export interface JobsOptions {
  store: Pick<Store, 'identity' | 'jobs' | 'log' | 'renewals' | 'witnessing'>;
  sealer: Pick<Sealer, 'phase'>;
  site: Site;
  /** The authorities whose time-stamps a verifier can trust, and their revocation lists. */
  trust(): Pick<TrustFile, 'timestampAuthorities' | 'revocationLists'>;
}

/** Witnesses are asked once a minute or less often. */
const WITNESSED_AFTER_SECONDS = 60;

/** Handlers of the operations that read jobs. */
export function jobHandlers({ store, sealer, site, trust }: JobsOptions) {
  const evidence = new RecordsInTurn(
    new EvidenceRecords(store, { path: pathsNow(() => trust().timestampAuthorities, systemClock) }),
  );
  return {
    /** A page with a cursor can be short or even empty. */
    async listSealJobs(ctx) {
      const { phase, ...query } = decodeListQuery(ctx.querystring, callerOf(ctx).viewer);
      const { records, next } = await store.jobs.list(query);
      const times = await Promise.all(records.map(({ outcome }) => sealedAtOf(store, outcome)));
      const all = records.map((record, n) => presentJob(record, sealer.phase(record), site, times[n]));
      const jobs = all.filter((job) => phase === undefined || job.phase === phase);
      const next_cursor = next === undefined ? undefined : encodeCursor(next);
      answerJson<ApiBody<'JobList'>>(ctx, 200, { jobs, next_cursor });
    },

    /** Section 4.2 of the contract. */
    async getSealJob(ctx) {
      const record = await visibleJob(ctx, store);
      if (!record.outcome) ctx.set('Retry-After', String(ASK_AGAIN_SECONDS));
      const sealedAt = await sealedAtOf(store, record.outcome);
      answerJson(ctx, 200, presentJob(record, sealer.phase(record), site, sealedAt));
    },

    /** Section 4.3 of the contract. */
    async getSealReceipt(ctx) {
      const { job, outcome } = await sealedJob(ctx, store);
      const receipt = await readReceipt(store, job, outcome.leafIndex);
      const tag = receipt.receipt_sha512;
      sendTagged(ctx, tag, 'private, max-age=31536000, immutable', () => encodeReceipt(receipt));
    },

    /** The same leaf as in the receipt (C2SP tlog-proof). */
    async getSealProof(ctx) {
      const { job, outcome } = await sealedJob(ctx, store);
      ctx.vary('Authorization');
      ctx.set('Cache-Control', 'private, no-cache');
      ctx.type = 'text/plain; charset=utf-8';
      ctx.body = await readTlogProof(store, job, outcome.leafIndex);
    },

    /** The time-stamp of the receipt with all its renewals (RFC 4998). No media type is registered for it. */
    async getEvidenceRecord(ctx) {
      const { job, outcome } = await sealedJob(ctx, store);
      const batch = await store.log.batchOf(outcome.leafIndex);
      assert(batch, `no batch holds leaf ${outcome.leafIndex} of ${job.id}`);
      const record = await evidence.of(batch, callerOf(ctx).viewer.clientId);
      if (record === undefined) {
        const message = 'The receipt has no time-stamp, so there is no evidence record of it.';
        throw new ServiceError('not_found', message);
      }
      ctx.vary('Authorization');
      ctx.set('Cache-Control', 'private, no-cache');
      ctx.set('Content-Disposition', `attachment; filename="${job.id}.ers"`);
      ctx.type = 'application/octet-stream';
      // Koa would serialise any other Uint8Array as JSON.
      ctx.body = Buffer.from(record);
    },

    /** The receipt with what was added to its evidence since. It changes with each newer witnessed checkpoint, and with each renewal. */
    async getSealBundle(ctx) {
      const { job, outcome } = await sealedJob(ctx, store);
      const { clientId } = callerOf(ctx).viewer;
      const bundle = await readBundle(store, job, outcome.leafIndex, {
        recordOf: (batch) => evidence.of(batch, clientId),
        revocationLists: trust().revocationLists ?? [],
      });
      if (bundle === undefined) {
        const message =
          'No checkpoint that witnesses have cosigned covers the receipt yet. Ask again later; a service without witnesses gives no bundles.';
        throw new ServiceError('bundle_not_ready', message, { retryAfterSeconds: WITNESSED_AFTER_SECONDS });
      }
      sendTagged(ctx, bundle.bundle_sha512, 'private, no-cache', () => encodeBundle(bundle));
    },
  } satisfies Record<string, Middleware>;
}

/** Answers with a JSON text, or with 304 if the client has it already (RFC 9110, section 13.1.2). */
function sendTagged(ctx: RequestContext, tag: string, cacheControl: string, text: () => string): void {
  ctx.status = 200;
  ctx.etag = tag;
  ctx.vary('Authorization');
  ctx.set('Cache-Control', cacheControl);
  ctx.type = JSON_TYPE;
  if (ctx.fresh) ctx.status = 304;
  else ctx.body = text();
}

/** A job that has a receipt. Throws ServiceError for any other. */
async function sealedJob(
  ctx: RequestContext,
  store: JobsOptions['store'],
): Promise<{ job: Job; outcome: Sealed }> {
  const { job, outcome } = await visibleJob(ctx, store);
  if (!outcome) {
    const message = 'The job is not completed yet. Ask again later.';
    throw new ServiceError('receipt_not_ready', message, { retryAfterSeconds: ASK_AGAIN_SECONDS });
  }
  if (outcome.kind === 'failed') {
    throw new ServiceError(
      'receipt_unavailable',
      `The job failed (${outcome.failure.code}) and has no receipt.`,
    );
  }
  return { job, outcome };
}

/** An unknown job, a malformed id and a job of another client cause the same error. */
export async function visibleJob(ctx: RequestContext, store: Pick<Store, 'jobs'>): Promise<JobRecord> {
  const jobId = ctx.params.job_id ?? '';
  const record = JOB_ID_PATTERN.test(jobId) ? await store.jobs.get(jobId) : undefined;
  if (!record || !maySee(callerOf(ctx).viewer, record.job)) {
    throw new ServiceError('job_not_found', 'There is no job with this id that this API key can read.');
  }
  ctx.state.jobId = record.job.id;
  return record;
}
