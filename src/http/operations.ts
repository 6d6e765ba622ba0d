/**
 * The operations on jobs, on the log and on the service itself. Requests are routed by this table, and `openapi.json` is built from it.
 */
import type { ErrorCode } from '../base/errors.ts';
import { CREATE_FORMS } from '../job/fields.ts';
import { QUERY_BYTES_MAX } from '../tsa/builtInAuthority.ts';
import { BULK_LINES_MAX, LINE_BYTES_MAX } from './bulkLines.ts';
import {
  aboutItself,
  BUSY_FAILURES,
  CACHE_CONTROL,
  file,
  header,
  headerParameter,
  JSON_FAILURES,
  json,
  jsonBody,
  type Operation,
  optionalHeader,
  QUERY_FAILURES,
  queryParameters,
  RETRY_AFTER,
  ref,
} from './openapiParts.ts';
import { LIST_PARAMETERS } from './schemas.ts';
import { WEBHOOK_OPERATIONS } from './webhookOperations.ts';

/** The error codes of every create, in any form. */
const CREATE_FAILURES: ErrorCode[] = [
  ...JSON_FAILURES,
  'missing_parameter',
  'invalid_idempotency_key',
  'idempotency_in_progress',
  'idempotency_key_reused',
  'rate_limit_exceeded',
  'quota_exceeded',
  'kms_partition_unavailable',
  'timestamp_unavailable',
  'fork_alarm',
  'witness_unavailable',
  'queue_full',
  'storage_full',
];

/** The additional error codes of a create with a document or with the URL of a document. */
const DOCUMENT_FAILURES: ErrorCode[] = [
  'missing_file',
  'file_and_source_url',
  'source_not_allowed',
  'source_unreachable',
  'not_a_pdf',
  'virus_scan_failed',
  'metadata_not_strippable',
  'pdf_not_sealable',
  'malformed_multipart',
  'checksum_mismatch',
  'document_too_large',
  'too_many_uploads',
  'too_many_requests',
  'scanner_unavailable',
];

/** The error codes of operations that read a receipt. */
const RECEIPT_FAILURES: ErrorCode[] = ['job_not_found', 'receipt_not_ready', 'receipt_unavailable'];

/** The error codes of operations that read a document. */
const DOCUMENT_READ_FAILURES: ErrorCode[] = ['job_not_found', 'document_not_ready', 'document_unavailable'];

const TRACEPARENT = headerParameter('traceparent', 'W3C Trace Context.');
const DIGESTS_PATTERN = '^sha-256=:[^:]+:, sha-512=:[^:]+:$';

/** The common parts of all creates of one job. */
const create = {
  method: 'post',
  access: 'jobs:create',
  isLimited: true,
  parameters: [
    headerParameter(
      'Idempotency-Key',
      '8 to 128 visible ASCII characters, bare or in double quotes. The service keeps the key for 48 hours.',
      { minLength: 8, maxLength: 130 },
    ),
    headerParameter('Prefer', '`wait=N`: answer a blocking create after at most N seconds.'),
    TRACEPARENT,
  ],
  answers: {
    202: json(
      'SealJob',
      'The job is on disk. Phase `queued` in `async` mode; `completed` in `blocking` mode, or the phase of the job when the wait ends. A repeat in `async` mode gets the job as it is now, which may have failed.',
      {
        ...RETRY_AFTER,
        Location: header('^https?://', 'The job.'),
        'Idempotent-Replayed': optionalHeader('^true$', 'This is the answer to a repeat.'),
        'Preference-Applied': optionalHeader('^wait=[0-9]+$', 'The wait that the service applied.'),
      },
    ),
  },
} as const satisfies Partial<Operation>;

/** The common parts of all creates with a document, or with the URL of a document. */
const createOfDocument = { ...create, failures: [...CREATE_FAILURES, ...DOCUMENT_FAILURES] };
const FORM = { 'multipart/form-data': { schema: ref('CreateByUpload') } };
const DOCUMENT = { 'application/pdf': { schema: { type: 'string', format: 'binary' } } };
const SOURCE = { 'application/json': { schema: ref('CreateBySource') } };
const SAME_CREATE = 'As createSealJob, which shares its idempotency keys.';

const read = { method: 'get', access: 'jobs:read' } as const;
const readLog = { method: 'get', access: 'log' } as const;
const unless = headerParameter('If-None-Match', 'RFC 9110, section 13.1.2.');
const digestTag = (member: string) => header('^"[0-9a-f]{128}"$', `\`${member}\`.`);
const fileName = (extension: string, what: string) =>
  header(`^attachment; filename="job_[A-Za-z0-9]+\\.${extension}"$`, `A file name for the ${what}.`);

const SEALED_PDF_HEADERS = {
  'Content-Length': header('^[0-9]+$', 'Length in bytes.'),
  'Content-Disposition': fileName('sealed.pdf', 'sealed PDF'),
  'Repr-Digest': header('^sha-256=:[^:]+:$', 'Digest of the whole sealed PDF (RFC 9530).'),
  ETag: header('^"[0-9a-f]{64}"$', 'SHA-256 of the whole sealed PDF.'),
  'Accept-Ranges': header('^bytes$', 'Parts can be requested.'),
};

/** The key is the `operationId`; paths are below `/v1`. */
export const OPERATIONS = {
  createSealJob: {
    ...createOfDocument,
    path: '/jobs/seal',
    summary: 'Seal a document',
    description:
      'Takes a document in any form. Code generators cannot type such a request: for them, each form has an operation of its own.',
    parameters: [
      ...create.parameters,
      ...queryParameters(CREATE_FORMS.CreateByQuery.shape, {
        description: 'Only with `application/pdf`; required there if the form requires it.',
      }),
    ],
    requestBody: { required: true, content: { ...FORM, ...DOCUMENT, ...SOURCE } },
  },
  sealDocument: {
    ...createOfDocument,
    path: '/documents/seal',
    summary: 'Seal the document that is the body',
    description: SAME_CREATE,
    parameters: [
      ...create.parameters,
      ...queryParameters(CREATE_FORMS.CreateByQuery.shape, { required: true }),
    ],
    requestBody: { required: true, content: DOCUMENT },
  },
  sealForm: {
    ...createOfDocument,
    path: '/forms/seal',
    summary: 'Seal the document in a form',
    description: SAME_CREATE,
    requestBody: { required: true, content: FORM },
  },
  sealSource: {
    ...createOfDocument,
    path: '/sources/seal',
    summary: 'Seal the document at a URL',
    description: SAME_CREATE,
    requestBody: { required: true, content: SOURCE },
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
      description: `One JSON object on each line (NDJSON): at most ${BULK_LINES_MAX} lines of at most ${LINE_BYTES_MAX} bytes.`,
      content: { 'application/x-ndjson': { schema: ref('BatchLine') } },
    },
    answers: {
      200: {
        description:
          'One line for each line of the request. Answers begin while the client still sends lines. A line is answered once its job is on disk; in `blocking` mode, once the job is completed. A refused line does not affect other lines. After a line that cannot be read to its end (`body_timeout`, `incomplete_body`, `body_too_large`), no further line is read.',
        content: { 'application/x-ndjson': { schema: ref('BatchAnswer') } },
      },
    },
    failures: ['unknown_parameter', 'unsupported_media_type', 'too_many_uploads', 'queue_full'],
  },
  listSealJobs: {
    ...read,
    path: '/jobs',
    summary: 'List the jobs that this key can read, newest first',
    parameters: queryParameters(LIST_PARAMETERS),
    answers: { 200: json('JobList', 'A page of jobs.') },
    failures: [...QUERY_FAILURES, ...BUSY_FAILURES],
  },
  getSealJob: {
    ...read,
    path: '/jobs/{job_id}',
    summary: 'Fetch the status of a job',
    answers: { 200: json('SealJob', 'The job.', RETRY_AFTER) },
    failures: ['job_not_found'],
  },
  getSealReceipt: {
    ...read,
    path: '/jobs/{job_id}/receipt.json',
    summary: 'Download the receipt of a completed job',
    parameters: [unless],
    answers: {
      200: json('SealReceipt', 'The receipt: the same bytes every time.', {
        ...CACHE_CONTROL,
        ETag: digestTag('receipt_sha512'),
      }),
      304: { description: 'The receipt has not changed since the client downloaded it.' },
    },
    failures: RECEIPT_FAILURES,
  },
  getSealProof: {
    ...read,
    path: '/jobs/{job_id}/receipt.tlog-proof',
    summary: 'Download the proof that the log contains the document, for other tools (C2SP tlog-proof)',
    description:
      'The line `extra` is the manifest of the receipt in canonical form (RFC 8785); the entry of the log is its SHA-512, 64 bytes. The proof has no time-stamp.',
    answers: { 200: file('text/plain', 'A proof and the signed checkpoint that it leads to.') },
    failures: [...RECEIPT_FAILURES, 'too_many_requests'],
  },
  getEvidenceRecord: {
    ...read,
    path: '/jobs/{job_id}/receipt.ers',
    summary: 'Download the time-stamp of the receipt with all its renewals (evidence record, RFC 4998)',
    description:
      'The data object of the record is the signed checkpoint of the receipt, byte for byte. A renewal adds to the record; the receipt stays as it is.',
    answers: {
      200: file('application/octet-stream', 'An EvidenceRecord in DER.', {
        'Content-Disposition': fileName('ers', 'record'),
      }),
    },
    failures: [...RECEIPT_FAILURES, 'not_found', ...BUSY_FAILURES],
  },
  getSealBundle: {
    ...read,
    path: '/jobs/{job_id}/receipt.bundle.json',
    summary: 'Download the receipt with all evidence that the service has of it, in one file',
    description:
      'The receipt, a proof that leads to the newest checkpoint that witnesses have cosigned, the evidence record, and revocation lists. Each part is also available alone. The bundle changes with every newer checkpoint and every renewal; an older bundle stays valid.',
    parameters: [unless],
    answers: {
      200: json('SealBundle', 'The bundle.', {
        ...CACHE_CONTROL,
        ETag: digestTag('bundle_sha512'),
      }),
      304: { description: 'The bundle has not changed since the client downloaded it.' },
    },
    failures: [...RECEIPT_FAILURES, 'bundle_not_ready', ...BUSY_FAILURES],
  },
  getDocumentCopy: {
    ...read,
    path: '/jobs/{job_id}/document.pdf',
    summary: 'Download the copy of the document without XMP metadata, if there is one',
    description:
      'The service makes a copy in compliance mode, unless `preserve_metadata` is true; `sealed_document` of the manifest has the digests of the copy. The copy is ' +
      'deleted a fixed time after its job was accepted.',
    answers: {
      200: file(
        'application/pdf',
        'The copy. If the connection ends before `Content-Length` bytes, repeat the request.',
        {
          'Content-Length': header('^[0-9]+$', 'Length of the copy in bytes.'),
          'Content-Disposition': fileName('pdf', 'copy'),
          'Repr-Digest': header(DIGESTS_PATTERN, 'Digests of the copy (RFC 9530).'),
          'Content-Digest': optionalHeader(DIGESTS_PATTERN, 'The same digests; absent with HEAD.'),
        },
      ),
    },
    failures: [...DOCUMENT_READ_FAILURES, 'document_expired', ...BUSY_FAILURES],
  },
  getSealedPdf: {
    ...read,
    path: '/jobs/{job_id}/sealed.pdf',
    summary: 'Download the sealed PDF, if the request asked for one',
    description:
      'The document (in compliance mode: its copy without XMP metadata), byte for byte, followed by a revision that attaches the receipt. It can be downloaded until the document is deleted, a fixed time after its job was accepted. After that, append the suffix to your own copy of the document.',
    parameters: [
      unless,
      headerParameter('Range', 'One range of bytes (RFC 9110, section 14.2).'),
      headerParameter('If-Range', 'The ETag of the part that the client has (RFC 9110, section 13.1.5).'),
    ],
    answers: {
      200: file('application/pdf', 'The sealed PDF.', SEALED_PDF_HEADERS),
      206: file('application/pdf', 'The part that the client asked for.', {
        ...SEALED_PDF_HEADERS,
        'Content-Range': header('^bytes [0-9]+-[0-9]+/[0-9]+$', 'The place of the part.'),
      }),
      304: { description: 'The client has the sealed PDF.' },
    },
    failures: [...DOCUMENT_READ_FAILURES, 'document_expired', 'range_not_satisfiable', ...BUSY_FAILURES],
  },
  getSealedPdfSuffix: {
    ...read,
    path: '/jobs/{job_id}/sealed-pdf.suffix',
    summary: 'Download what follows the document in the sealed PDF',
    description:
      'The document, followed by these bytes, is the sealed PDF. They can be downloaded for as long as the receipt.',
    answers: {
      200: file('application/octet-stream', 'The suffix.', {
        ...CACHE_CONTROL,
        'Content-Disposition': fileName('suffix', 'suffix'),
      }),
    },
    failures: [...DOCUMENT_READ_FAILURES, ...BUSY_FAILURES],
  },
  ...WEBHOOK_OPERATIONS,
  getMe: {
    method: 'get',
    path: '/me',
    summary: 'See which client you are, what you may do, and how much of your limits is left',
    access: 'any_key',
    answers: { 200: json('Me', 'The caller.', CACHE_CONTROL) },
    failures: ['too_many_requests'],
  },
  rotateKey: {
    method: 'post',
    path: '/keys/rotate',
    summary: 'Rotate the API key of this request',
    description:
      'The new key has the same client, scopes, binding and end. The old key ends after the overlap; until then, a repeat with it gets the same answer. Rotation is for keys that nobody has stolen: until the old key ends, whoever has it gets the new key too. If others may know a key, ask the administrator to revoke it and to issue another.',
    access: 'any_key',
    isLimited: true,
    requestBody: { ...jsonBody('RotateKey'), required: false },
    answers: { 200: json('RotatedKey', 'The new key.', CACHE_CONTROL) },
    failures: [
      ...JSON_FAILURES,
      'key_not_rotatable',
      'not_found',
      'rate_limit_exceeded',
      'storage_full',
      ...BUSY_FAILURES,
    ],
  },
  createTimestamp: {
    method: 'post',
    path: '/timestamp',
    summary: 'Request an RFC 3161 time-stamp, if the service has a time-stamp authority',
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
      ...BUSY_FAILURES,
    ],
  },
  getCheckpoint: {
    ...readLog,
    path: '/log/checkpoint',
    summary: 'Fetch the newest checkpoint of the log (C2SP tlog-checkpoint)',
    answers: {
      200: file('text/plain', 'A signed note. Once witnesses have cosigned it, it has their lines as well.'),
    },
    failures: ['not_found', 'too_many_requests'],
  },
  getWitnessedCheckpoint: {
    ...readLog,
    path: '/log/checkpoint/witnessed',
    summary: 'Fetch the newest checkpoint that the quorum of witnesses has cosigned (C2SP tlog-cosignature)',
    answers: { 200: file('text/plain', 'A signed note: lines of the log, then lines of witnesses.') },
    failures: ['not_found', 'too_many_requests'],
  },
  getTile: {
    ...readLog,
    path: '/log/tile/{path}',
    summary: 'Fetch a hash tile or entry bundle of the log (C2SP tlog-tiles)',
    answers: { 200: file('application/octet-stream', 'Hashes, or entries, each after its length.') },
    failures: ['not_found', 'too_many_requests'],
  },
  ...aboutItself('/errors'),
} satisfies Record<string, Operation>;
export type OperationId = keyof typeof OPERATIONS;
