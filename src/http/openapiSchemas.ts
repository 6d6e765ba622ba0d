import { JOB_MODES, JOB_PHASES, JOB_SOURCES, SCAN_VERDICTS, VISIBILITIES } from '../job/job.ts';
import { SIGNATURE_ALGORITHMS } from '../log/verifierKey.ts';
import { receiptAlgorithm } from '../manifest/receipt.ts';
import { ERROR_CODES, ERROR_TYPES } from './errorKinds.ts';

/** A schema of JSON Schema 2020-12, as OpenAPI 3.1 uses it. */
export type Schema = Record<string, unknown>;

const digest = (bits: 256 | 512): Schema => ({ type: 'string', pattern: `^[0-9a-f]{${bits / 4}}$` });
const base64: Schema = { type: 'string', contentEncoding: 'base64' };
export const time: Schema = { type: 'string', format: 'date-time', examples: ['2026-01-02T03:04:05.678Z'] };
export const jobId: Schema = { type: 'string', pattern: '^job_[A-Za-z0-9]+$' };
const environment: Schema = {
  type: 'string',
  pattern: '^env_[a-z][a-z0-9-]{0,31}$',
  description: 'The environment that holds the job.',
};

export function object(required: string[], properties: Record<string, Schema>, rest: Schema = {}): Schema {
  return { type: 'object', required, properties, ...rest };
}

const visibility: Schema = {
  type: 'string',
  enum: VISIBILITIES,
  description:
    'Who may see the job: `private` the creating client, `organization` every client of its organisation, `partner` also the organisations it lists as partners.',
};

const purpose: Schema = {
  type: 'string',
  minLength: 1,
  maxLength: 128,
  description: 'Free-form label for quotas, analytics and support.',
};

const customerReference: Schema = {
  type: 'string',
  minLength: 1,
  maxLength: 512,
  description: 'Opaque value, echoed verbatim in the receipt and in webhooks.',
};

const checksum: Schema = {
  type: 'string',
  pattern: '^[0-9A-Fa-f]{64}$',
  description: 'Declared SHA-256 of the document; `checksum_mismatch` when the bytes disagree.',
};

const mode: Schema = {
  type: 'string',
  enum: JOB_MODES,
  default: 'async',
  description: '`blocking` keeps the connection open until the job is completed.',
};

/** What every create has, whatever it is a create for. */
export const commonFields: Record<string, Schema> = {
  visibility,
  purpose,
  customer_reference: customerReference,
  mode,
};

export const createFields: Record<string, Schema> = {
  ...commonFields,
  preserve_metadata: {
    type: 'boolean',
    default: false,
    description:
      'Where the service is in compliance mode, it also makes a copy of the document without XMP metadata, unless this is true.',
  },
  checksum_sha256: checksum,
};

const SEAL_JOB_REQUIRED = ['id', 'phase', 'environment', 'trace_id', 'capabilities', 'created_at'];
const sealJobProperties: Record<string, Schema> = {
  id: jobId,
  phase: { type: 'string', enum: JOB_PHASES },
  environment,
  trace_id: {
    type: 'string',
    pattern: '^[0-9a-f]{32}$',
    description: 'Correlation id of the request that created the job.',
  },
  receipt_url: { type: 'string', format: 'uri', description: 'Present once the receipt exists.' },
  capabilities: {
    type: 'array',
    items: { type: 'string' },
    description:
      'What the receipt offers, such as `receipt.sha512`, `receipt.inclusion_proof` and `receipt.timestamp`; `webhook.job.completed` when an endpoint will be told.',
  },
  created_at: time,
  document_sha256: { ...digest(256), description: 'Of the document; of one at a URL, as it was declared.' },
  purpose: { ...purpose, description: 'As it was given.' },
  customer_reference: { ...customerReference, description: 'As it was given.' },
  error: { $ref: '#/components/schemas/Error' },
  sealed_at: { ...time, description: 'Once the job is completed.' },
};
const sealJob = object(SEAL_JOB_REQUIRED, sealJobProperties);

const digests = object(['sha256', 'sha512', 'bytes'], {
  sha256: digest(256),
  sha512: digest(512),
  bytes: { type: 'integer', minimum: 1 },
});

const manifest = object(
  ['schema', 'job_id', 'environment', 'document', 'source', 'scan', 'visibility', 'accepted_at', 'sealed_at'],
  {
    schema: { const: 'pdfseal-manifest/1' },
    job_id: jobId,
    environment,
    document: digests,
    source: { type: 'string', enum: JOB_SOURCES },
    scan: object(['verdict'], {
      verdict: { type: 'string', enum: SCAN_VERDICTS },
      engine: { type: 'string' },
      signatures: { type: 'string' },
    }),
    sealed_document: { ...digests, description: 'The copy without metadata (compliance mode).' },
    visibility,
    purpose,
    customer_reference: customerReference,
    accepted_at: time,
    sealed_at: time,
  },
  { description: 'What is sealed: SHA-512 of its RFC 8785 form is a leaf of the log.' },
);

const evidence = object(
  ['log_origin', 'leaf_index', 'tree_size', 'inclusion_proof', 'checkpoint', 'timestamps', 'certificates'],
  {
    log_origin: { type: 'string' },
    leaf_index: { type: 'integer', minimum: 0 },
    tree_size: { type: 'integer', minimum: 1 },
    inclusion_proof: { type: 'array', items: base64, maxItems: 63 },
    checkpoint: { type: 'string', description: 'Signed note (C2SP tlog-checkpoint).' },
    timestamps: {
      type: 'array',
      items: object(['type', 'token'], { type: { const: 'rfc3161' }, token: base64 }),
    },
    certificates: { type: 'array', items: base64 },
  },
  { description: 'Proof that the manifest is in the log; verifies offline.' },
);

const sealReceipt = object(
  [
    'job_id',
    'algorithm',
    'document_sha256',
    'receipt_sha512',
    'kms_key_id',
    'sealed_at',
    'manifest',
    'evidence',
  ],
  {
    job_id: jobId,
    algorithm: { type: 'string', enum: SIGNATURE_ALGORITHMS.map(receiptAlgorithm) },
    document_sha256: digest(256),
    receipt_sha512: {
      ...digest(512),
      description: 'SHA-512 of the RFC 8785 form of the receipt without this member.',
    },
    kms_key_id: { type: 'string', description: '`<region>/<key label>` of the first partition that signed.' },
    sealed_at: time,
    customer_reference: customerReference,
    manifest: { $ref: '#/components/schemas/Manifest' },
    evidence: { $ref: '#/components/schemas/Evidence' },
  },
);

const error = object(['type', 'code', 'message', 'doc_url'], {
  type: { type: 'string', enum: ERROR_TYPES },
  code: { type: 'string', enum: ERROR_CODES },
  message: { type: 'string', description: 'For people: names the field at fault and the remedy.' },
  doc_url: { type: 'string', format: 'uri-reference' },
});

export const SCHEMAS: Record<string, Schema> = {
  SealJob: sealJob,
  JobList: object(['jobs'], {
    jobs: { type: 'array', items: { $ref: '#/components/schemas/SealJob' }, maxItems: 100 },
    next_cursor: {
      type: 'string',
      description:
        'Give it as `cursor` to go on. A page with it may be short, even empty; the last page has none.',
    },
  }),
  SealReceipt: sealReceipt,
  Manifest: manifest,
  Evidence: evidence,
  Error: error,
  ErrorEnvelope: object(['request_id', 'error'], {
    request_id: { type: 'string', pattern: '^req_[0-9A-Za-z]+$' },
    error: { $ref: '#/components/schemas/Error' },
  }),
  CreateByUpload: object(
    ['file', 'visibility'],
    { file: { type: 'string', contentMediaType: 'application/pdf' }, ...createFields },
    { additionalProperties: false },
  ),
  CreateBySource: object(
    ['source_url', 'checksum_sha256', 'visibility'],
    { source_url: { type: 'string', format: 'uri', maxLength: 2048 }, ...createFields },
    {
      additionalProperties: false,
      description:
        'A hosted document, at an origin that the administrator allows: else `source_not_allowed`. Its server is asked with HEAD before the job is accepted, the document is fetched after that.',
    },
  ),
};

export const listParameters: Record<string, Schema> = {
  limit: { type: 'integer', minimum: 1, maximum: 100, default: 50 },
  cursor: { type: 'string', description: '`next_cursor` of the page before.' },
  document_sha256: { type: 'string', pattern: '^[0-9A-Fa-f]{64}$' },
  customer_reference: customerReference,
  visibility: { type: 'string', enum: VISIBILITIES },
  phase: { type: 'string', enum: JOB_PHASES },
  created_from: { ...time, description: 'Inclusive.' },
  created_to: { ...time, description: 'Exclusive.' },
};
