import * as z from 'zod';
import { fieldSchemas } from './fieldValues.ts';
import { JOB_SOURCES, type Job, SCAN_VERDICTS } from './job.ts';

const traceId = z.string().regex(/^[0-9a-f]{32}$/);
const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const sha512 = z.string().regex(/^[0-9a-f]{128}$/);
/** Up to the end of the year 9999, which is the last that RFC 3339 can say. */
const time = z.int().min(0).max(253_402_300_799_999);
/** Of clients and organizations, as keys are issued for. */
const name = z.string().regex(/^[a-z0-9][a-z0-9-]{0,62}$/);
const label = z.string().min(1).max(512);

const acceptedJob = z.strictObject({
  id: z.string().regex(/^job_[0-9a-f]{32}$/),
  clientId: name,
  organization: name,
  traceId,
  mode: fieldSchemas.mode,
  visibility: fieldSchemas.visibility,
  purpose: fieldSchemas.purpose.exactOptional(),
  customerReference: fieldSchemas.customer_reference.exactOptional(),
  preserveMetadata: z.boolean(),
  source: z.enum(JOB_SOURCES),
  checksumSha256: sha256.exactOptional(),
  content: z
    .strictObject({
      document: z.strictObject({ sha256, sha512, bytes: fieldSchemas.bytes }),
      scan: z.strictObject({
        verdict: z.enum(SCAN_VERDICTS),
        engine: label.exactOptional(),
        signatures: label.exactOptional(),
      }),
    })
    .exactOptional(),
  quota: z.strictObject({ name: label, startsAt: time, endsAt: time }).exactOptional(),
  capabilities: z.array(z.string().max(64)).max(16),
  acceptedAt: time,
  since: time.exactOptional(),
  dated: z.literal(true).exactOptional(),
});

/**
 * What is wrong with a job of a client that another process accepted; undefined where a request could have made it. `sourceUrl` is that of a job without
 * content.
 */
export function faultOfAccepted(job: Job, sourceUrl: string | undefined): string | undefined {
  const { error } = acceptedJob.safeParse(job);
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
