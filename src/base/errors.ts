/**
 * The stable code of every error that a caller can get. The table in `base/errorKinds.ts` gives each its status,
 * type and remedy; a code that is missing there does not compile.
 */
export type ErrorCode =
  // 400: the request
  | 'invalid_request'
  | 'invalid_parameter'
  | 'missing_parameter'
  | 'unknown_parameter'
  | 'duplicate_parameter'
  | 'missing_file'
  | 'file_and_source_url'
  | 'source_not_allowed'
  | 'webhook_url_not_allowed'
  | 'source_unreachable'
  | 'not_a_pdf'
  | 'metadata_not_strippable'
  | 'virus_scan_failed'
  | 'malformed_multipart'
  | 'malformed_json'
  | 'incomplete_body'
  | 'body_timeout'
  | 'invalid_idempotency_key'
  // 401, 403
  | 'authentication_required'
  | 'invalid_api_key'
  | 'insufficient_scope'
  // 404, 405
  | 'job_not_found'
  | 'receipt_not_ready'
  | 'receipt_unavailable'
  | 'webhook_endpoint_not_found'
  | 'document_not_ready'
  | 'document_unavailable'
  | 'document_expired'
  | 'not_found'
  | 'method_not_allowed'
  // 409
  | 'checksum_mismatch'
  | 'idempotency_in_progress'
  | 'idempotency_key_reused'
  | 'too_many_webhook_endpoints'
  | 'key_not_rotatable'
  // 409: the administration
  | 'partition_not_ready'
  | 'below_quorum'
  // 408, 413, 415, 431: the transport
  | 'request_timeout'
  | 'document_too_large'
  | 'body_too_large'
  | 'unsupported_media_type'
  | 'headers_too_large'
  // 429
  | 'too_many_uploads'
  | 'too_many_requests'
  | 'rate_limit_exceeded'
  | 'quota_exceeded'
  // 500, 503
  | 'internal_error'
  | 'kms_partition_unavailable'
  | 'timestamp_unavailable'
  | 'fork_alarm'
  | 'witness_unavailable'
  | 'scanner_unavailable'
  | 'queue_full'
  | 'storage_full'
  | 'storage_unavailable'
  | 'shutting_down';

export interface ServiceErrorOptions {
  /** The request field at fault, named in the message too. */
  parameter?: string;
  /** Seconds after which a repeat can succeed; becomes `Retry-After`. */
  retryAfterSeconds?: number;
  cause?: unknown;
}

/**
 * An error for the caller. `message` is public, names the field and the remedy, and never contains a path,
 * a PIN, a PKCS#11 handle or text of an inner error (that belongs in `cause`, which is only logged).
 */
export class ServiceError extends Error {
  readonly code: ErrorCode;
  readonly parameter: string | undefined;
  readonly retryAfterSeconds: number | undefined;

  constructor(code: ErrorCode, message: string, options: ServiceErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'ServiceError';
    this.code = code;
    this.parameter = options.parameter;
    this.retryAfterSeconds = options.retryAfterSeconds;
  }
}

export interface OperatorErrorOptions {
  cause?: unknown;
  /** Stable, in snake_case, for scripts; `cli/report.ts` lists the codes in use. Default: derived from the cause. */
  code?: string;
  /** What to do, if the message does not say it. */
  remedy?: string;
}

/**
 * A problem that only an administrator can solve (a config value, a missing key, another environment's store). It
 * is printed as one line without a stack, and the program ends with exit status 1.
 */
export class OperatorError extends Error {
  readonly code: string | undefined;
  readonly remedy: string | undefined;

  constructor(message: string, { cause, code, remedy }: OperatorErrorOptions = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'OperatorError';
    this.code = code;
    this.remedy = remedy;
  }
}
