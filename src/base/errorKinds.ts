/** The meaning of an error code for callers; `title` and `remedy` are shown on its page below `/v1/errors`. */
interface ErrorKind {
  status: number;
  title: string;
  remedy: string;
}

const FIX_AND_REPEAT = 'Correct the request as the message says, then send it again.';
const REPEAT_LATER = 'Send the same request again, with the same Idempotency-Key, after Retry-After seconds.';

/** The only table of error codes, which also maps codes to statuses. */
export const ERROR_KINDS = {
  invalid_request: { status: 400, title: 'The request cannot be understood', remedy: FIX_AND_REPEAT },
  invalid_parameter: {
    status: 400,
    title: 'A field or query parameter has a value that is not allowed',
    remedy: FIX_AND_REPEAT,
  },
  missing_parameter: { status: 400, title: 'A required field is missing', remedy: FIX_AND_REPEAT },
  unknown_parameter: {
    status: 400,
    title: 'The request has a field or query parameter that does not exist',
    remedy:
      'Check its spelling. Unknown names are refused, so that a typing error cannot change what is sealed.',
  },
  duplicate_parameter: {
    status: 400,
    title: 'A field or query parameter is given more than once',
    remedy: 'Send it once.',
  },
  missing_file: {
    status: 400,
    title: 'The form has no file',
    remedy:
      'Send the PDF as the part named file. To seal a hosted PDF, send application/json with source_url instead.',
  },
  file_and_source_url: {
    status: 400,
    title: 'The request has both a file and a source_url',
    remedy:
      'Send either the file, as multipart/form-data, or source_url with checksum_sha256, as application/json.',
  },
  source_not_allowed: {
    status: 400,
    title: 'Documents at this source_url are not accepted',
    remedy: 'Upload the document, or ask the administrator to allow its origin.',
  },
  webhook_url_not_allowed: {
    status: 400,
    title: 'Webhooks are not sent to this URL',
    remedy: 'Ask the administrator to allow the origin of the URL, or its network if that is not public.',
  },
  source_unreachable: {
    status: 400,
    title: 'The document at source_url cannot be fetched',
    remedy:
      'The message says why. Check that the URL is correct and not expired, and that its server answers; or upload the document.',
  },
  not_a_pdf: {
    status: 400,
    title: 'The file is not a PDF document',
    remedy:
      'A PDF has %PDF- in its first 1024 bytes and %%EOF in its last 1024. Check that the file is complete.',
  },
  virus_scan_failed: {
    status: 400,
    title: 'The virus scanner rejects the document',
    remedy:
      'The document was neither hashed nor recorded. If the message says that the scanner found something, delete your copy.',
  },
  metadata_not_strippable: {
    status: 400,
    title: 'The XMP metadata of the document cannot be removed',
    remedy:
      'The message says why. Send preserve_metadata=true to seal the document as it is, or remove the metadata before you sign or encrypt the document.',
  },
  pdf_not_sealable: {
    status: 400,
    title: 'No receipt can be attached to the PDF',
    remedy:
      'The message says why; a document is never repaired. Nothing was recorded. Send sealed_pdf=none for a receipt alone, or save the document again with a current program.',
  },
  malformed_multipart: {
    status: 400,
    title: 'The multipart body cannot be read',
    remedy:
      'Use an HTTP library to build the form; do not set the Content-Type of a multipart request manually.',
  },
  malformed_json: {
    status: 400,
    title: 'The body is not a JSON object',
    remedy: 'Send one JSON object in UTF-8.',
  },
  incomplete_body: {
    status: 400,
    title: 'The body ended too early',
    remedy: 'Nothing was recorded. Send the request again.',
  },
  body_timeout: {
    status: 400,
    title: 'The body did not arrive in time',
    remedy: 'Nothing was recorded. Send the request again, over a faster connection.',
  },
  invalid_idempotency_key: {
    status: 400,
    title: 'The Idempotency-Key is not valid',
    remedy: 'Send one Idempotency-Key of 8 to 128 visible ASCII characters, such as a UUID.',
  },
  authentication_required: {
    status: 401,
    title: 'The request has no API key',
    remedy:
      'Send the header Authorization: Bearer <API key>. If your administrator set up certificate authentication, connect with your client certificate instead.',
  },
  invalid_api_key: {
    status: 401,
    title: 'The API key is not accepted',
    remedy:
      'The key is mistyped, expired, revoked, belongs to another environment, or is bound to a client certificate that the connection lacks. Check the key, or ask the administrator for a new one.',
  },
  insufficient_scope: {
    status: 403,
    title: 'The API key lacks the scope for this operation',
    remedy: 'Use a key with the scope that the message names.',
  },
  job_not_found: {
    status: 404,
    title: 'There is no such job, or this API key may not see it',
    remedy:
      'Check the job id and the environment. Check that the visibility of the job includes this client.',
  },
  receipt_not_ready: {
    status: 404,
    title: 'The job is not completed yet',
    remedy: 'Ask again after Retry-After seconds, until the phase of the job is completed or failed.',
  },
  bundle_not_ready: {
    status: 404,
    title: 'Witnesses have not cosigned the log with this receipt in it yet',
    remedy:
      'Ask again after Retry-After seconds. A service without witnesses never issues bundles: use the receipt.',
  },
  receipt_unavailable: {
    status: 404,
    title: 'The job failed and has no receipt',
    remedy: 'Read the error of the job, then submit the document again.',
  },
  webhook_endpoint_not_found: {
    status: 404,
    title: 'There is no such webhook endpoint, or it belongs to another client',
    remedy: 'GET /v1/webhook-endpoints lists the endpoints of this client.',
  },
  document_not_ready: {
    status: 404,
    title: 'The job is not completed yet',
    remedy: 'Ask again after Retry-After seconds, until the phase of the job is completed or failed.',
  },
  document_unavailable: {
    status: 404,
    title: 'The job has no copy of its document',
    remedy:
      'The service keeps no documents, except a copy without metadata in compliance mode, unless preserve_metadata is true, and the document of a sealed PDF (sealed_pdf=attach).',
  },
  document_expired: {
    status: 404,
    title: 'The copy of the document has expired and was deleted',
    remedy: 'Download copies earlier; the administrator can tell you how long the service keeps them.',
  },
  range_not_satisfiable: {
    status: 416,
    title: 'The document has no such bytes',
    remedy: 'Content-Range has the length of the document. Send a Range within it, or none.',
  },
  not_found: {
    status: 404,
    title: 'There is nothing at this path',
    remedy: '/v1/openapi.json lists the paths of this service.',
  },
  method_not_allowed: {
    status: 405,
    title: 'The path does not support this method',
    remedy: 'Use a method from the Allow header.',
  },
  checksum_mismatch: {
    status: 409,
    title: 'The document does not match its checksum',
    remedy: 'Nothing was sealed. Compute the SHA-256 again and repeat the request; a repeat is safe.',
  },
  idempotency_in_progress: {
    status: 409,
    title: 'A request with this Idempotency-Key is still being received',
    remedy: REPEAT_LATER,
  },
  idempotency_key_reused: {
    status: 409,
    title: 'This Idempotency-Key was used for a different request',
    remedy: 'Use a new key for each document and set of fields; repeat a key only with an identical request.',
  },
  key_not_rotatable: {
    status: 409,
    title: 'This API key cannot be rotated',
    remedy:
      'The message says why: the key was already rotated or is less than an hour old, the client has too many valid keys, or the request has a certificate and no key.',
  },
  partition_not_ready: {
    status: 409,
    title: 'This partition cannot sign at the moment',
    remedy:
      'Only a partition that signs can be taken out of service. pdfseal doctor reports what is wrong with this one.',
  },
  below_quorum: {
    status: 409,
    title: 'Without this partition, too few partitions can sign',
    remedy: 'Repair the other partitions first, or set below_quorum to accept that sealing stops meanwhile.',
  },
  too_many_webhook_endpoints: {
    status: 409,
    title: 'The client has the maximum number of webhook endpoints',
    remedy: 'Delete or change an existing endpoint.',
  },
  request_timeout: {
    status: 408,
    title: 'The request head did not arrive in time',
    remedy: 'Send the request again, over a faster connection.',
  },
  document_too_large: {
    status: 413,
    title: 'The document is larger than this service accepts',
    remedy: 'The message names the limit; the administrator can raise it.',
  },
  body_too_large: { status: 413, title: 'The body is larger than allowed', remedy: FIX_AND_REPEAT },
  unsupported_media_type: {
    status: 415,
    title: 'The Content-Type is not supported here',
    remedy: 'Send the Content-Type that the message names, without Content-Encoding.',
  },
  headers_too_large: {
    status: 431,
    title: 'The request head is too large',
    remedy: 'Send fewer or shorter headers and a shorter URL.',
  },
  too_many_uploads: {
    status: 429,
    title: 'This client has too many uploads under way',
    remedy: REPEAT_LATER,
  },
  too_many_requests: {
    status: 429,
    title: 'This client has too many requests of this kind under way',
    remedy: `${REPEAT_LATER} The message names the kind; wait until one of these requests has ended.`,
  },
  rate_limit_exceeded: {
    status: 429,
    title: 'This client exceeds its request rate',
    remedy: `${REPEAT_LATER} The RateLimit header says how many requests are left; ask the administrator for a higher rate.`,
  },
  quota_exceeded: {
    status: 429,
    title: 'This client has used up its quota for this purpose',
    remedy: `${REPEAT_LATER} The next window of the quota begins then; ask the administrator for a higher quota.`,
  },
  internal_error: {
    status: 500,
    title: 'The service failed to process the request',
    remedy:
      'Give the administrator the request_id. You can safely repeat the request with the same Idempotency-Key.',
  },
  kms_partition_unavailable: {
    status: 503,
    title: 'Too few key-management partitions can sign at the moment',
    remedy: REPEAT_LATER,
  },
  timestamp_unavailable: {
    status: 503,
    title: 'No time-stamp is available at the moment',
    remedy: REPEAT_LATER,
  },
  fork_alarm: {
    status: 503,
    title: 'A witness holds another history of the log, so sealing has stopped',
    remedy:
      'Notify the administrator; do not repeat the request until the administrator confirms that the log is intact. Existing receipts are not changed.',
  },
  witness_unavailable: {
    status: 503,
    title: 'Too few witnesses of the log can be reached at the moment',
    remedy: REPEAT_LATER,
  },
  scanner_unavailable: {
    status: 503,
    title: 'The virus scanner is not available at the moment',
    remedy: REPEAT_LATER,
  },
  storage_full: {
    status: 503,
    title: 'The disk of the service is full',
    remedy: REPEAT_LATER,
  },
  storage_unavailable: {
    status: 503,
    title: 'The database of the service does not answer at the moment',
    remedy: REPEAT_LATER,
  },
  queue_full: { status: 503, title: 'The service is at capacity', remedy: REPEAT_LATER },
  shutting_down: { status: 503, title: 'The service is shutting down', remedy: REPEAT_LATER },
} as const satisfies Readonly<Record<string, ErrorKind>>;

export const ERROR_CODES = Object.keys(ERROR_KINDS) as (keyof typeof ERROR_KINDS)[];

const INVALID_REQUEST = 'invalid_request_error';
const TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  405: 'not_found_error',
  409: 'conflict_error',
  429: 'rate_limit_error',
  500: 'internal_error',
  503: 'unavailable_error',
};

/** All values of `error.type`. */
export const ERROR_TYPES = [INVALID_REQUEST, ...new Set(Object.values(TYPES))];

export function typeOf(code: keyof typeof ERROR_KINDS): string {
  return TYPES[ERROR_KINDS[code].status] ?? INVALID_REQUEST;
}
