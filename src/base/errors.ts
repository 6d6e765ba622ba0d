import type { ERROR_KINDS } from './errorKinds.ts';

/** The stable code of every error that a caller can receive: the table gives its status, type and remedy. */
export type ErrorCode = keyof typeof ERROR_KINDS;

export interface ServiceErrorOptions {
  /** The request field at fault, which the message names too. */
  parameter?: string;
  /** Seconds after which a retry can succeed; sent as `Retry-After`. */
  retryAfterSeconds?: number;
  cause?: unknown;
}

/**
 * An error for the caller. `message` is public, names the field and the remedy, and never contains a path, a PIN, a PKCS#11 handle or text
 * of an inner error (that belongs in `cause`, which is only logged).
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
  /** Stable, in snake_case, for scripts; `cli/report.ts` lists the codes in use. By default it is derived from the cause. */
  code?: string;
  /** The remedy, unless the message contains it. */
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
