import type { ErrorCode } from '../base/errors.ts';
import { BATCH_LINES_MAX, LINE_BYTES_MAX } from './bulkLines.ts';
import {
  EVERY_ANSWER,
  failures,
  optionalHeader,
  rateLimitHeaders,
  ref,
  SCOPED,
  secured,
} from './openapiParts.ts';
import { commonFields, object, type Schema } from './openapiSchemas.ts';

/** Of a create that brings no document: what can be wrong with it, and why it may be refused. */
export const DIGEST_FAILURES: ErrorCode[] = [
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
  'rate_limit_exceeded',
  'quota_exceeded',
  'kms_partition_unavailable',
  'timestamp_unavailable',
  'queue_full',
];

const digestFields: Record<string, Schema> = {
  document_sha256: { type: 'string', pattern: '^[0-9A-Fa-f]{64}$' },
  document_sha512: { type: 'string', pattern: '^[0-9A-Fa-f]{128}$' },
  bytes: {
    type: 'integer',
    minimum: 1,
    maximum: Number.MAX_SAFE_INTEGER,
    description: 'Length of the document.',
  },
  ...commonFields,
};
const DIGEST_REQUIRED = ['document_sha256', 'document_sha512', 'bytes', 'visibility'];
const lineNumber: Schema = {
  type: 'integer',
  minimum: 1,
  description: 'The line of the request this answers; every line counts, empty ones too.',
};

export const DIGEST_SCHEMAS: Record<string, Schema> = {
  CreateByDigest: object(DIGEST_REQUIRED, digestFields, {
    additionalProperties: false,
    description:
      'The document stays with the caller. Its receipt says `source: "digest"` and `scan.verdict: "not_scanned"`; no copy without metadata is made of it.',
  }),
  BatchLine: object(
    DIGEST_REQUIRED,
    {
      ...digestFields,
      idempotency_key: {
        type: 'string',
        pattern: '^[\\x21-\\x7e]{8,128}$',
        description:
          'As the header of a single create by digests, and among the same keys. With one in every line, a batch that broke off is repeated whole.',
      },
      receipt: {
        type: 'boolean',
        default: false,
        description: 'Whether the answer of a `blocking` line carries the receipt.',
      },
    },
    { additionalProperties: false },
  ),
  BatchAnswer: {
    anyOf: [ref('BatchAccepted'), ref('BatchRefused')],
    description: 'Lines are answered as they are done: not in their order.',
  },
  BatchAccepted: object(['line', 'status', 'job'], {
    line: lineNumber,
    status: { const: 202 },
    replayed: { const: true, description: 'The job is that of an earlier request with this key.' },
    job: ref('SealJob'),
    receipt: ref('SealReceipt'),
    retry_after: {
      type: 'integer',
      description: 'Of a `blocking` line whose wait was over first: seconds after which to ask for the job.',
    },
  }),
  BatchRefused: object(['line', 'status', 'error'], {
    line: lineNumber,
    status: {
      type: 'integer',
      description: 'What a single create would have been answered with.',
    },
    error: ref('Error'),
    retry_after: { type: 'integer', description: 'Seconds after which a repeat can succeed.' },
  }),
};

/** `createJob`: what it has in common with other creates. */
export function createDigestJob(createJob: object): object {
  return {
    ...createJob,
    operationId: 'createDigestJob',
    summary: 'Seal the digests of a document that stays with the caller',
    requestBody: { required: true, content: { 'application/json': { schema: ref('CreateByDigest') } } },
  };
}

export const createDigestBatch = {
  operationId: 'createDigestBatch',
  summary: 'Seal the digests of many documents',
  ...secured('jobs:create'),
  parameters: [optionalHeader('traceparent', { type: 'string' }, 'W3C Trace Context.')],
  requestBody: {
    required: true,
    description: `One JSON object on each line (NDJSON): ${BATCH_LINES_MAX} lines at most, of ${LINE_BYTES_MAX} bytes at most.`,
    content: { 'application/x-ndjson': { schema: ref('BatchLine') } },
  },
  responses: {
    200: {
      description:
        'One line for each line of the request, while more of them are still being sent. A line is answered once its job is on disk, in `blocking` mode once it is completed. A line that is refused stands in the way of no other; one that cannot be read to its end (`body_timeout`, `incomplete_body`, `body_too_large`) is the last.',
      headers: { ...EVERY_ANSWER, ...rateLimitHeaders },
      content: { 'application/x-ndjson': { schema: ref('BatchAnswer') } },
    },
    ...failures(
      [...SCOPED, 'unknown_parameter', 'unsupported_media_type', 'too_many_uploads', 'queue_full'],
      rateLimitHeaders,
    ),
  },
};
