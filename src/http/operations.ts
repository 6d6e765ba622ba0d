/** What can be asked of jobs, of the log and of the service itself: the table that requests are routed by and that `openapi.json` shows. */
import type { ErrorCode } from '../base/errors.ts';
import { CREATE_FORMS } from '../job/fields.ts';
import { QUERY_BYTES_MAX } from '../tsa/builtInAuthority.ts';
import { BULK_LINES_MAX, LINE_BYTES_MAX } from './bulkLines.ts';
import {
  aboutItself,
  CACHE_CONTROL,
  file,
  header,
  headerParameter,
  json,
  jsonBody,
  type Operation,
  optional,
  queryParameters,
  RETRY_AFTER,
  ref,
} from './openapiParts.ts';
import { LIST_PARAMETERS } from './schemas.ts';
import { WEBHOOK_OPERATIONS } from './webhookOperations.ts';

/** What can be wrong with a create, whatever form it has, and why it may be refused. */
const CREATE_FAILURES: ErrorCode[] = [
  'invalid_parameter',
  'missing_parameter',
  'unknown_parameter',
  'duplicate_parameter',
  'malformed_json',
  'body_timeout',
  'invalid_idempotency_key',
  'idempotency_in_progress',
  'idempotency_key_reused',
  'body_too_large',
  'unsupported_media_type',
  'rate_limit_exceeded',
  'quota_exceeded',
  'kms_partition_unavailable',
  'timestamp_unavailable',
  'queue_full',
];

/** And with one that brings a document, or says where to fetch it. */
const DOCUMENT_FAILURES: ErrorCode[] = [
  'missing_file',
  'file_and_source_url',
  'source_not_allowed',
  'source_unreachable',
  'not_a_pdf',
  'virus_scan_failed',
  'metadata_not_strippable',
  'malformed_multipart',
  'checksum_mismatch',
  'document_too_large',
  'too_many_uploads',
  'too_many_requests',
  'scanner_unavailable',
  'storage_full',
];

const TRACEPARENT = headerParameter('traceparent', 'W3C Trace Context.');
const DIGESTS_PATTERN = '^sha-256=:[^:]+:, sha-512=:[^:]+:$';

/** What all creates of one job have in common. */
const create = {
  method: 'post',
  access: 'jobs:create',
  isLimited: true,
  parameters: [
    headerParameter(
      'Idempotency-Key',
      'Kept for 48 hours. 8 to 128 visible ASCII characters, bare or in double quotes.',
      { minLength: 8, maxLength: 130 },
    ),
    headerParameter('Prefer', '`wait=N`: answer a blocking create after N seconds at most.'),
    TRACEPARENT,
  ],
  answers: {
    202: json(
      'SealJob',
      'The job is on disk. Phase `queued` in `async` mode; `completed` in `blocking` mode, or the phase reached when the wait is over.',
      {
        ...RETRY_AFTER,
        Location: header('^https?://', 'The job.'),
        'Idempotent-Replayed': optional(header('^true$', 'This answers a repeat.')),
        'Preference-Applied': optional(header('^wait=[0-9]+$', 'The wait that was honoured.')),
      },
    ),
  },
} as const satisfies Partial<Operation>;

const JOB_OPERATIONS = {
  createSealJob: {
    ...create,
    path: '/jobs/seal',
    summary: 'Seal a document',
    parameters: [
      ...create.parameters,
      ...queryParameters(
        CREATE_FORMS.CreateByQuery.shape,
        'With `application/pdf` only; required there if it is in the form.',
      ),
    ],
    requestBody: {
      required: true,
      content: {
        'multipart/form-data': { schema: ref('CreateByUpload') },
        'application/pdf': {},
        'application/json': { schema: ref('CreateBySource') },
      },
    },
    failures: [...CREATE_FAILURES, ...DOCUMENT_FAILURES],
  },
  createDigestJob: {
    ...create,
    path: '/digests/seal',
    summary: 'Seal the digests of a document that stays with the caller',
    requestBody: jsonBody('CreateByDigest'),
    failures: CREATE_FAILURES,
  },
  createDigestBatch: {
    method: 'post',
    path: '/batches/seal',
    summary: 'Seal the digests of many documents',
    access: 'jobs:create',
    isLimited: true,
    parameters: [TRACEPARENT],
    requestBody: {
      required: true,
      description: `One JSON object on each line (NDJSON): ${BULK_LINES_MAX} lines at most, of ${LINE_BYTES_MAX} bytes at most.`,
      content: { 'application/x-ndjson': { schema: ref('BatchLine') } },
    },
    answers: {
      200: {
        description:
          'One line for each line of the request, while more of them are still being sent. A line is answered once its job is on disk, in `blocking` mode once it is completed. A line that is refused stands in the way of no other; one that cannot be read to its end (`body_timeout`, `incomplete_body`, `body_too_large`) is the last.',
        content: { 'application/x-ndjson': { schema: ref('BatchAnswer') } },
      },
    },
    failures: ['unknown_parameter', 'unsupported_media_type', 'too_many_uploads', 'queue_full'],
  },
  listSealJobs: {
    method: 'get',
    path: '/jobs',
    summary: 'List the jobs this key may see, newest first',
    access: 'jobs:read',
    parameters: queryParameters(LIST_PARAMETERS),
    answers: { 200: json('JobList', 'A page of jobs.') },
    failures: ['invalid_parameter', 'unknown_parameter', 'duplicate_parameter'],
  },
  getSealJob: {
    method: 'get',
    path: '/jobs/{job_id}',
    summary: 'Fetch the status of a job',
    access: 'jobs:read',
    answers: { 200: json('SealJob', 'The job.', RETRY_AFTER) },
    failures: ['job_not_found'],
  },
  getSealReceipt: {
    method: 'get',
    path: '/jobs/{job_id}/receipt.json',
    summary: 'Download the receipt of a completed job',
    access: 'jobs:read',
    parameters: [headerParameter('If-None-Match', 'RFC 9110, section 13.1.2.')],
    answers: {
      200: json('SealReceipt', 'The receipt: the same bytes every time.', {
        ...CACHE_CONTROL,
        ETag: header('^"[0-9a-f]{128}"$', '`receipt_sha512`.'),
      }),
      304: { description: 'The receipt that is held already is the one.' },
    },
    failures: ['job_not_found', 'receipt_not_ready', 'receipt_unavailable'],
  },
  getDocumentCopy: {
    method: 'get',
    path: '/jobs/{job_id}/document.pdf',
    summary: 'Download the copy of the document without XMP metadata, where one was made',
    description:
      'Made in compliance mode, unless `preserve_metadata` is true; `sealed_document` of the manifest has its digests. It is ' +
      'deleted some time after its job was accepted.',
    access: 'jobs:read',
    answers: {
      200: file(
        'application/pdf',
        'The copy. A connection that ends before `Content-Length` bytes means: ask again.',
        {
          'Content-Length': header('^[0-9]+$', 'Bytes of the copy.'),
          'Content-Disposition': header(
            '^attachment; filename="job_[A-Za-z0-9]+\\.pdf"$',
            'A name for the file.',
          ),
          'Repr-Digest': header(DIGESTS_PATTERN, 'Digests of the copy (RFC 9530).'),
          'Content-Digest': optional(header(DIGESTS_PATTERN, 'The same; not in the answer to HEAD.')),
        },
      ),
    },
    failures: [
      'job_not_found',
      'document_not_ready',
      'document_unavailable',
      'document_expired',
      'too_many_requests',
      'queue_full',
    ],
  },
} satisfies Record<string, Operation>;

const LOG_OPERATIONS = {
  createTimestamp: {
    method: 'post',
    path: '/timestamp',
    summary: 'Stamp a digest with the time (RFC 3161), where the service has a time-stamp authority',
    access: 'jobs:create',
    isLimited: true,
    requestBody: {
      required: true,
      description: 'A TimeStampReq in DER over a SHA-256, SHA-384 or SHA-512 digest.',
      content: { 'application/timestamp-query': { schema: { maxLength: QUERY_BYTES_MAX } } },
    },
    answers: {
      200: {
        description: 'A TimeStampResp in DER. Its status tells whether the query is granted or rejected.',
        content: { 'application/timestamp-reply': {} },
      },
    },
    failures: [
      'body_timeout',
      'not_found',
      'body_too_large',
      'unsupported_media_type',
      'rate_limit_exceeded',
      'too_many_requests',
      'queue_full',
    ],
  },
  getCheckpoint: {
    method: 'get',
    path: '/log/checkpoint',
    summary: 'The newest checkpoint of the log (C2SP tlog-checkpoint)',
    access: 'log',
    answers: { 200: file('text/plain', 'A signed note.') },
    failures: ['not_found'],
  },
  getTile: {
    method: 'get',
    path: '/log/tile/{path}',
    summary: 'A hash tile or entry bundle of the log (C2SP tlog-tiles)',
    access: 'log',
    answers: { 200: file('application/octet-stream', 'Hashes, or entries behind their lengths.') },
    failures: ['not_found'],
  },
} satisfies Record<string, Operation>;

/** By `operationId`; paths are below `/v1`. */
export const OPERATIONS = {
  ...JOB_OPERATIONS,
  ...WEBHOOK_OPERATIONS,
  ...LOG_OPERATIONS,
  ...aboutItself('/errors'),
} satisfies Record<string, Operation>;
export type OperationId = keyof typeof OPERATIONS;
export type JobOperationId = keyof typeof JOB_OPERATIONS;
export type WebhookOperationId = keyof typeof WEBHOOK_OPERATIONS;
