/**
 * The answers of the API, and other bodies that callers send; members have the spelling of the API. One set of schemas gives both the
 * types of the code and `openapi.json`. Answers are not validated at run time.
 */
import * as z from 'zod';
import { ERROR_CODES, ERROR_TYPES } from '../base/errorKinds.ts';
import { CREATE_FORMS } from '../job/fields.ts';
import { fieldSchemas, jobId, time } from '../job/fieldValues.ts';
import { JOB_MODES, JOB_PHASES, JOB_SOURCES, SCAN_VERDICTS, VISIBILITIES } from '../job/job.ts';
import { CLASSICAL_ALGORITHMS } from '../log/verifierKey.ts';
import { BUNDLE_SCHEMA, type WrittenBundle } from '../manifest/bundle.ts';
import { MANIFEST_SCHEMA, type Manifest } from '../manifest/manifest.ts';
import { type Evidence, type Receipt, receiptAlgorithm } from '../manifest/receipt.ts';
import { SCOPES } from '../store/credentialStore.ts';
import { PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX } from './listQuery.ts';

const { visibility, purpose, customer_reference, document_sha256 } = fieldSchemas;
const HEX = { 128: /^[0-9a-f]{32}$/, 256: /^[0-9a-f]{64}$/, 512: /^[0-9a-f]{128}$/ };
const hex = (bits: keyof typeof HEX) => z.string().regex(HEX[bits]);
const base64 = z.string().meta({ contentEncoding: 'base64' });
const environment = z
  .string()
  .regex(/^env_[a-z][a-z0-9-]{0,31}$/)
  .describe('The environment of the job.');

const error = z.object({
  type: z.enum(ERROR_TYPES),
  code: z.enum(ERROR_CODES),
  message: z.string().describe('A message for people. It names the faulty field and the remedy.'),
  doc_url: z.string().meta({ format: 'uri-reference' }),
});

/** Section 2.1 of the contract, with additional members: the document, the times and, for a failed job, `error`. */
const sealJob = z.object({
  id: jobId,
  phase: z.enum(JOB_PHASES),
  environment,
  trace_id: hex(128).describe('Correlation id of the request that created the job.'),
  receipt_url: z.url().optional().describe('Present once the receipt exists.'),
  sealed_pdf_url: z
    .url()
    .optional()
    .describe('Present once the receipt exists, if the request asked for a sealed PDF.'),
  capabilities: z
    .array(z.string())
    .describe(
      'What the receipt offers, such as `receipt.sha512`, `receipt.inclusion_proof` and `receipt.timestamp`; `pdf.attached` if there will be a sealed PDF; `webhook.job.completed` if a webhook endpoint receives the event.',
    ),
  created_at: time,
  document_sha256: hex(256).describe('SHA-256 of the document; for a URL, as declared.'),
  mode: z.enum(JOB_MODES).optional().describe('As the request gave it.'),
  visibility: visibility.optional().describe('As the request gave it.'),
  purpose: purpose.optional().describe('As the request gave it.'),
  customer_reference: customer_reference.optional().describe('As the request gave it.'),
  error: error.optional(),
  sealed_at: time.optional().describe('Present once the job is completed.'),
});

const standing = {
  limit: z.int(),
  window_seconds: z.int(),
  remaining: z.int().min(0).describe('How much of the limit is left now.'),
  resets_at: time.describe(
    'For a quota, when the next window begins; for a rate, when one more request is allowed.',
  ),
};

const me = z.object({
  client: z.string(),
  organization: z.string(),
  environment,
  key_id: z.string().describe('The public name of the API key, or of the mapping of the certificate.'),
  scopes: z.array(z.enum(SCOPES)),
  expires_at: time.optional().describe('When the key ends, if it does.'),
  certificate_sha256: hex(256)
    .optional()
    .describe('SHA-256 of the client certificate, if it identified the client instead of a key.'),
  document_bytes_max: z.int().describe('Maximum length of a document in bytes.'),
  rate: z.object(standing).optional().describe('The rate of requests, if there is a limit.'),
  quotas: z
    .array(z.object({ name: z.string().describe('The purpose, or `default`.'), ...standing }))
    .describe('Limits of new jobs.'),
});

const digests = z.object({ sha256: hex(256), sha512: hex(512), bytes: z.int().min(1) });

const manifest = z
  .object({
    schema: z.literal(MANIFEST_SCHEMA),
    job_id: jobId,
    environment,
    document: digests,
    source: z.enum(JOB_SOURCES),
    scan: z.object({
      verdict: z.enum(SCAN_VERDICTS),
      engine: z.string().optional(),
      signatures: z.string().optional(),
    }),
    sealed_document: digests.optional().describe('The copy without metadata (compliance mode).'),
    visibility,
    purpose: purpose.optional(),
    customer_reference: customer_reference.optional(),
    accepted_at: time,
    sealed_at: time,
  })
  .describe('The sealed statement: SHA-512 of its RFC 8785 form is a leaf of the log.');

const evidence = z
  .object({
    log_origin: z.string(),
    leaf_index: z.int().min(0),
    tree_size: z.int().min(1),
    inclusion_proof: z.array(base64).max(63),
    checkpoint: z.string().describe('Signed note (C2SP tlog-checkpoint).'),
    timestamps: z.array(z.object({ type: z.literal('rfc3161'), token: base64 })),
    certificates: z.array(base64),
  })
  .describe('Proof that the manifest is in the log; verifies offline.') satisfies z.ZodType<Evidence>;

const sealReceipt = z.object({
  job_id: jobId,
  algorithm: z.enum(CLASSICAL_ALGORITHMS.map(receiptAlgorithm)),
  document_sha256: hex(256),
  receipt_sha512: hex(512).describe('SHA-512 of the RFC 8785 form of the receipt without this member.'),
  kms_key_id: z
    .string()
    .describe('`<region>/<key label>` of the first partition with a classical key that signed.'),
  sealed_at: time,
  customer_reference: customer_reference.optional(),
  manifest,
  evidence,
}) satisfies z.ZodType<Omit<Receipt, 'manifest'> & { manifest: Omit<Manifest, 'source'> }>;

const sealBundle = z.object({
  schema: z.literal(BUNDLE_SCHEMA),
  bundle_sha512: hex(512).describe('SHA-512 of the RFC 8785 form of the bundle without this member.'),
  receipt: sealReceipt,
  tlog_proof: z
    .string()
    .describe('C2SP tlog-proof of the leaf of the receipt, with a checkpoint that witnesses have cosigned.'),
  evidence_record: base64.optional().describe('Evidence record (RFC 4998) in DER.'),
  revocation_lists: z
    .array(base64)
    .optional()
    .describe('Revocation lists (RFC 5280) of the time-stamp authority, in DER.'),
}) satisfies z.ZodType<Omit<WrittenBundle, 'receipt'>>;

/** One object for both outcomes: generated code of many languages has no type for a union. */
const batchAnswer = z
  .object({
    line: z.int().min(1).describe('The line number in the request, from 1. Empty lines count too.'),
    status: z.int().describe('202, or the status of the error that a single create would get.'),
    replayed: z.literal(true).optional().describe('The job belongs to an earlier request with this key.'),
    job: sealJob.optional().describe('Present with the status 202.'),
    receipt: sealReceipt.optional(),
    error: error.optional().describe('Present with any other status.'),
    retry_after: z
      .int()
      .optional()
      .describe('Seconds to wait before you request the job of a `blocking` line, or repeat a refused one.'),
  })
  .describe('Answers come in the order in which lines are done, not in the order of the request.');

/** How long the old key stays valid: long enough to repeat the request if the answer was lost. */
export const KEY_OVERLAP_SECONDS = { min: 60, max: 30 * 86_400, default: 86_400 };

const rotatedKey = z.object({
  api_key: z.string().describe('The new key. Until `replaced_expires_at`, a repeat shows it again.'),
  id: z.string().regex(/^key_[0-9a-f]{16}$/),
  client: z.string(),
  organization: z.string(),
  scopes: z.array(z.enum(SCOPES)),
  'x5t#S256': z
    .string()
    .optional()
    .describe('The client certificate that the key is bound to (RFC 8705, section 3.1), as for the old key.'),
  expires_at: time.optional().describe('When the old key would have ended without the rotation.'),
  replaces: z.string().describe('The id of the old key.'),
  replaced_expires_at: time.describe('Until then, the old key is valid as well.'),
});

/** The forms that have a body. */
const { CreateByQuery: _, ...forms } = CREATE_FORMS;

/** The key is the name of the schema in `openapi.json`. */
export const SCHEMAS = {
  SealJob: sealJob,
  JobList: z.object({
    jobs: z.array(sealJob).max(PAGE_LIMIT_MAX),
    next_cursor: z
      .string()
      .optional()
      .describe(
        'Send it as `cursor` to get the next page. A page with `next_cursor` can be short or even empty; the last page has none.',
      ),
  }),
  Me: me,
  SealReceipt: sealReceipt,
  SealBundle: sealBundle,
  Manifest: manifest,
  Evidence: evidence,
  Error: error,
  /** Section 7.1 of the contract. */
  ErrorEnvelope: z.object({ request_id: z.string().regex(/^req_[0-9A-Za-z]+$/), error }),
  ...forms,
  RotatedKey: rotatedKey,
  RotateKey: z.strictObject({
    overlap_seconds: z
      .int()
      .min(KEY_OVERLAP_SECONDS.min)
      .max(KEY_OVERLAP_SECONDS.max)
      .default(KEY_OVERLAP_SECONDS.default)
      .describe('Seconds for which the old key stays valid. A repeat does not change them.'),
  }),
  BatchAnswer: batchAnswer,
};
/** The body with the schema of that name. */
export type ApiBody<Name extends keyof typeof SCHEMAS> = z.infer<(typeof SCHEMAS)[Name]>;

/** Parameters of `GET /v1/jobs`. */
export const LIST_PARAMETERS = {
  limit: z.int().min(1).max(PAGE_LIMIT_MAX).default(PAGE_LIMIT_DEFAULT),
  cursor: z.string().describe('`next_cursor` of the previous page.'),
  document_sha256,
  customer_reference,
  purpose,
  visibility: z.enum(VISIBILITIES),
  phase: z.enum(JOB_PHASES),
  created_from: time.describe('Inclusive.'),
  created_to: time.describe('Exclusive.'),
};
