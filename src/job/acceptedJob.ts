import * as z from 'zod';
import { toRfc3339 } from '../base/clock.ts';
import { attachmentPlan } from '../pdf/attachmentPlan.ts';
import { fieldSchemas } from './fieldValues.ts';
import { isOfClient, JOB_SOURCES, type Job, SCAN_VERDICTS, SEALED_PDF_FORMS } from './job.ts';

const traceId = z.string().regex(/^[0-9a-f]{32}$/);
const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const sha512 = z.string().regex(/^[0-9a-f]{128}$/);
/** Up to the end of the year 9999, the last that RFC 3339 can represent. */
const time = z.int().min(0).max(253_402_300_799_999);
/** Names of clients and organizations for which keys are issued. */
const name = z.string().regex(/^[a-z0-9][a-z0-9-]{0,62}$/);
const label = z.string().min(1).max(512);

const digests = z.strictObject({ sha256, sha512, bytes: fieldSchemas.bytes });

const acceptedJob = z.strictObject({
  id: z.string().regex(/^job_[0-9a-f]{32}$/),
  clientId: name,
  organization: name,
  traceId,
  mode: fieldSchemas.mode,
  visibility: fieldSchemas.visibility,
  purpose: fieldSchemas.purpose.optional(),
  customerReference: fieldSchemas.customer_reference.optional(),
  preserveMetadata: z.boolean(),
  source: z.enum(JOB_SOURCES),
  checksumSha256: sha256.optional(),
  content: z
    .strictObject({
      document: digests,
      scan: z.strictObject({
        verdict: z.enum(SCAN_VERDICTS),
        engine: label.optional(),
        signatures: label.optional(),
      }),
    })
    .optional(),
  quota: z.strictObject({ name: label, startsAt: time, endsAt: time }).optional(),
  capabilities: z.array(z.string().max(64)).max(16),
  acceptedAt: time,
  since: time.optional(),
  dated: z.literal(true).optional(),
});

/** If the waiting jobs are the daemon's own, they may have copies and sealed PDFs. */
const waitingJob = acceptedJob.extend({
  sealedPdf: z.enum(SEALED_PDF_FORMS).exclude(['none']).optional(),
  content: acceptedJob.shape.content
    .unwrap()
    .extend({ sealedDocument: digests.optional(), attachment: attachmentPlan.optional() })
    .optional(),
});

/** The message to clients about a job that no request made. */
export const UNSEALABLE =
  'The service accepted this job in a form that it does not seal. Send the request again.';

/** How far the date of a job may be from the time at which it is known to have arrived. */
export const DATED_MS_MAX = 300_000;

/** The fault of the date of a job that arrived at `arrivedAt`; undefined if it was accepted at that time. */
export function faultOfDate({ acceptedAt }: Pick<Job, 'acceptedAt'>, arrivedAt: number): string | undefined {
  return Math.abs(acceptedAt - arrivedAt) <= DATED_MS_MAX
    ? undefined
    : `acceptedAt: it says ${toRfc3339(acceptedAt)}, but it arrived at ${toRfc3339(arrivedAt)}`;
}

/**
 * The fault of a client's job that another process accepted; undefined if a request could have created it. `sourceUrl` is that of a job
 * without content.
 */
export function faultOfAccepted(job: Job, sourceUrl: string | undefined): string | undefined {
  return faultOfForm(acceptedJob, job, sourceUrl);
}

/**
 * The fault of a job that waits in the store when the daemon starts; undefined if it can have been accepted, however long ago and whatever
 * the clock showed. Anyone with write access to the store can write such a job, so only jobs that never occur in an honest store are
 * rejected here.
 */
export function faultOfWaiting(job: Job, sourceUrl: string | undefined): string | undefined {
  return isOfClient(job) ? faultOfForm(waitingJob, job, sourceUrl) : undefined;
}

function faultOfForm(form: z.ZodType, job: Job, sourceUrl: string | undefined): string | undefined {
  const { error } = form.safeParse(job);
  if (error !== undefined)
    return error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; ');
  const isFetched = job.source === 'url' && job.content === undefined;
  if (isFetched !== (sourceUrl !== undefined))
    return 'it must have either its content or the URL it comes from';
  if (isFetched && job.checksumSha256 === undefined) return 'a job from a URL must have a checksum';
  if (sourceUrl !== undefined && !fieldSchemas.source_url.safeParse(sourceUrl).success)
    return 'its URL is none';
  return undefined;
}
