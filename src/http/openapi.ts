import type { ErrorCode } from '../base/errors.ts';
import { packageVersion } from '../base/package.ts';
import { QUERY_BYTES_MAX } from '../tsa/builtInAuthority.ts';
import { createDigestBatch, createDigestJob, DIGEST_FAILURES, DIGEST_SCHEMAS } from './openapiDigests.ts';
import {
  ANY_REQUEST,
  cacheHeaders,
  describeItself,
  EVERY_ANSWER,
  failures,
  file,
  header,
  json,
  KEYED,
  optionalHeader,
  rateLimitHeaders,
  ref,
  retryAfter,
  SCOPED,
  secured,
} from './openapiParts.ts';
import { createFields, listParameters, SCHEMAS } from './openapiSchemas.ts';
import { WEBHOOK_PATHS, WEBHOOK_SCHEMAS, WEBHOOKS, WEBHOOKS_TAG } from './openapiWebhooks.ts';

const CREATE_FAILURES: ErrorCode[] = [
  ...SCOPED,
  'invalid_parameter',
  'missing_parameter',
  'unknown_parameter',
  'duplicate_parameter',
  'missing_file',
  'file_and_source_url',
  'source_not_allowed',
  'source_unreachable',
  'not_a_pdf',
  'virus_scan_failed',
  'metadata_not_strippable',
  'malformed_multipart',
  'malformed_json',
  'body_timeout',
  'invalid_idempotency_key',
  'checksum_mismatch',
  'idempotency_in_progress',
  'idempotency_key_reused',
  'document_too_large',
  'body_too_large',
  'unsupported_media_type',
  'too_many_uploads',
  'too_many_requests',
  'rate_limit_exceeded',
  'quota_exceeded',
  'kms_partition_unavailable',
  'timestamp_unavailable',
  'scanner_unavailable',
  'queue_full',
  'storage_full',
];

const TIMESTAMP_FAILURES: ErrorCode[] = [
  ...SCOPED,
  'body_timeout',
  'not_found',
  'body_too_large',
  'unsupported_media_type',
  'rate_limit_exceeded',
  'too_many_requests',
  'queue_full',
];

/** The live description of this API, OpenAPI 3.1. `test/support/openapi.ts` holds every answer to it. */
export function describeApi(publicUrl: string): object {
  return {
    openapi: '3.1.0',
    info: {
      title: 'pdfseald',
      version: packageVersion(),
      description:
        'Seals PDF documents with an HSM into a tamper-evident log; receipts verify offline. `/v1` only ever gains things: ignore members you do not know.',
    },
    servers: [{ url: `${publicUrl}/v1` }],
    tags: [...new Set(Object.values(TAGS))],
    paths: tagged({
      '/jobs/seal': { post: createSealJob },
      '/digests/seal': {
        post: createDigestJob(createJob([...SCOPED, ...DIGEST_FAILURES, 'unsupported_media_type'])),
      },
      '/batches/seal': { post: createDigestBatch },
      '/jobs': { get: listSealJobs },
      '/jobs/{job_id}': { parameters: [jobIdParameter], get: getSealJob },
      '/jobs/{job_id}/receipt.json': { parameters: [jobIdParameter], get: getSealReceipt },
      ...WEBHOOK_PATHS,
      '/jobs/{job_id}/document.pdf': { parameters: [jobIdParameter], get: getDocumentCopy },
      '/timestamp': { post: createTimestamp },
      '/log/checkpoint': { get: getCheckpoint },
      '/log/tile/{path}': { parameters: [tilePathParameter], get: getTile },
      '/openapi.json': { get: getOpenapi },
      '/errors': { get: getErrorIndex },
      '/errors/{code}': { parameters: [errorCodeParameter], get: getErrorPage },
    }),
    webhooks: WEBHOOKS,
    components: {
      schemas: { ...SCHEMAS, ...DIGEST_SCHEMAS, ...WEBHOOK_SCHEMAS },
      headers: HEADERS,
      securitySchemes: { apiKey: { type: 'http', scheme: 'bearer', bearerFormat: 'seal_<environment>_…' } },
    },
  };
}

const JOBS = { name: 'Jobs', description: 'Documents and digests to seal, and their receipts.' };
const ABOUT = { name: 'About', description: 'What this API is, and what its errors mean.' };

/** By the first part of the path. */
const TAGS: Readonly<Record<string, { name: string; description: string }>> = {
  jobs: JOBS,
  digests: JOBS,
  batches: JOBS,
  'webhook-endpoints': WEBHOOKS_TAG,
  timestamp: { name: 'Time-stamps', description: 'RFC 3161, for other applications.' },
  log: { name: 'Log', description: 'The tamper-evident log, for whoever checks it.' },
  'openapi.json': ABOUT,
  errors: ABOUT,
};

/** The paths, each operation with the tag that it belongs to. */
function tagged(paths: Record<string, object>): object {
  const entries = Object.entries(paths).map(([path, item]) => {
    const tag = TAGS[path.split('/')[1] ?? '']?.name;
    const tagIt = ([name, value]: [string, object]) => [
      name,
      name === 'parameters' ? value : { tags: [tag], ...value },
    ];
    return [path, Object.fromEntries(Object.entries(item).map(tagIt))];
  });
  return Object.fromEntries(entries);
}

const { getOpenapi, getErrorIndex, getErrorPage, errorCodeParameter } = describeItself(ANY_REQUEST);

const HEADERS = {
  'X-Request-Id': header('^req_[0-9A-Za-z]+$', 'Unique per request; `request_id` of the error envelope.'),
  'Seal-Trace-Id': header(
    '^[0-9a-f]{32}$',
    'Correlation id, lent from a valid W3C `traceparent` or made here.',
  ),
};

const jobIdParameter = {
  name: 'job_id',
  in: 'path',
  required: true,
  schema: { type: 'string', pattern: '^job_[A-Za-z0-9]+$' },
};

const tilePathParameter = {
  name: 'path',
  in: 'path',
  required: true,
  description:
    '`<L>/<N>[.p/<W>]` or `entries/<N>[.p/<W>]` (C2SP tlog-tiles); its slashes may be sent as they are, or as %2F.',
  schema: { type: 'string' },
};

/** What all creates of one job have in common. */
const createJob = (codes: ErrorCode[]) => ({
  ...secured('jobs:create'),
  parameters: [
    optionalHeader(
      'Idempotency-Key',
      { type: 'string', minLength: 8, maxLength: 130 },
      'Kept for 48 hours. 8 to 128 visible ASCII characters, bare or in double quotes.',
    ),
    optionalHeader(
      'Prefer',
      { type: 'string' },
      '`wait=N`: answer a blocking create after N seconds at most.',
    ),
    optionalHeader('traceparent', { type: 'string' }, 'W3C Trace Context.'),
  ],
  responses: {
    202: {
      ...json(
        'SealJob',
        'The job is on disk. Phase `queued` in `async` mode; `completed` in `blocking` mode, or the phase reached when the wait is over.',
      ),
      headers: {
        ...EVERY_ANSWER,
        ...retryAfter,
        ...rateLimitHeaders,
        Location: header('^https?://', 'The job.'),
        'Idempotent-Replayed': { ...header('^true$', 'This answers a repeat.'), required: false },
        'Preference-Applied': { ...header('^wait=[0-9]+$', 'The wait that was honoured.'), required: false },
      },
    },
    ...failures(codes, rateLimitHeaders),
  },
});

const sealing = createJob(CREATE_FAILURES);

const createSealJob = {
  ...sealing,
  operationId: 'createSealJob',
  summary: 'Seal a document',
  parameters: [
    ...sealing.parameters,
    ...Object.entries(createFields).map(([name, schema]) => ({
      name,
      in: 'query',
      description: 'With `application/pdf` only; required there if it is in the form.',
      schema,
    })),
  ],
  requestBody: {
    required: true,
    content: {
      'multipart/form-data': { schema: ref('CreateByUpload') },
      'application/pdf': {},
      'application/json': { schema: ref('CreateBySource') },
    },
  },
};

const listSealJobs = {
  operationId: 'listSealJobs',
  summary: 'List the jobs this key may see, newest first',
  ...secured('jobs:read'),
  parameters: Object.entries(listParameters).map(([name, schema]) => ({ name, in: 'query', schema })),
  responses: {
    200: json('JobList', 'A page of jobs.'),
    ...failures([...SCOPED, 'invalid_parameter', 'unknown_parameter', 'duplicate_parameter']),
  },
};

const getSealJob = {
  operationId: 'getSealJob',
  summary: 'Fetch the status of a job',
  ...secured('jobs:read'),
  responses: {
    200: { ...json('SealJob', 'The job.'), headers: { ...EVERY_ANSWER, ...retryAfter } },
    ...failures([...SCOPED, 'job_not_found']),
  },
};

const getSealReceipt = {
  operationId: 'getSealReceipt',
  summary: 'Download the receipt of a completed job',
  ...secured('jobs:read'),
  parameters: [optionalHeader('If-None-Match', { type: 'string' }, 'RFC 9110, section 13.1.2.')],
  responses: {
    200: {
      ...json('SealReceipt', 'The receipt: the same bytes every time.'),
      headers: { ...EVERY_ANSWER, ...cacheHeaders, ETag: header('^"[0-9a-f]{128}"$', '`receipt_sha512`.') },
    },
    304: { description: 'The receipt that is held already is the one.', headers: EVERY_ANSWER },
    ...failures([...SCOPED, 'job_not_found', 'receipt_not_ready', 'receipt_unavailable']),
  },
};

const getDocumentCopy = {
  operationId: 'getDocumentCopy',
  summary: 'Download the copy of the document without XMP metadata, where one was made',
  description:
    'Made in compliance mode, unless `preserve_metadata` is true; `sealed_document` of the manifest has its digests. It is ' +
    'deleted some time after its job was accepted.',
  ...secured('jobs:read'),
  responses: {
    200: {
      description: 'The copy. A connection that ends before `Content-Length` bytes means: ask again.',
      headers: {
        ...EVERY_ANSWER,
        ...cacheHeaders,
        'Content-Length': header('^[0-9]+$', 'Bytes of the copy.'),
        'Content-Disposition': header(
          '^attachment; filename="job_[A-Za-z0-9]+\\.pdf"$',
          'A name for the file.',
        ),
        'Repr-Digest': header('^sha-256=:[^:]+:, sha-512=:[^:]+:$', 'Digests of the copy (RFC 9530).'),
        'Content-Digest': {
          ...header('^sha-256=:[^:]+:, sha-512=:[^:]+:$', 'The same; not in the answer to HEAD.'),
          required: false,
        },
      },
      content: { 'application/pdf': {} },
    },
    ...failures([
      ...SCOPED,
      'job_not_found',
      'document_not_ready',
      'document_unavailable',
      'document_expired',
      'too_many_requests',
      'queue_full',
    ]),
  },
};

const createTimestamp = {
  operationId: 'createTimestamp',
  summary: 'Stamp a digest with the time (RFC 3161), where the service has a time-stamp authority',
  ...secured('jobs:create'),
  requestBody: {
    required: true,
    description: 'A TimeStampReq in DER over a SHA-256, SHA-384 or SHA-512 digest.',
    content: { 'application/timestamp-query': { schema: { maxLength: QUERY_BYTES_MAX } } },
  },
  responses: {
    200: {
      description: 'A TimeStampResp in DER. Its status tells whether the query is granted or rejected.',
      headers: { ...EVERY_ANSWER, ...rateLimitHeaders },
      content: { 'application/timestamp-reply': {} },
    },
    ...failures(TIMESTAMP_FAILURES, rateLimitHeaders),
  },
};

const getCheckpoint = {
  operationId: 'getCheckpoint',
  summary: 'The newest checkpoint of the log (C2SP tlog-checkpoint)',
  ...secured(),
  responses: {
    200: file('text/plain', 'A signed note.'),
    ...failures([...KEYED, 'not_found']),
  },
};

const getTile = {
  operationId: 'getTile',
  summary: 'A hash tile or entry bundle of the log (C2SP tlog-tiles)',
  ...secured(),
  responses: {
    200: file('application/octet-stream', 'Hashes, or entries behind their lengths.'),
    ...failures([...KEYED, 'not_found']),
  },
};
