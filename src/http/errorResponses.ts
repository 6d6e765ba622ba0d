import type { Logger } from 'pino';
import { BrokenInvariant } from '../base/assert.ts';
import { ERROR_KINDS, typeOf } from '../base/errorKinds.ts';
import { type ErrorCode, ServiceError } from '../base/errors.ts';
import { UnknownOutcome } from '../store/store.ts';
import { asAnswer } from '../store/storeAnswers.ts';
import { requestIds } from './observe.ts';
import { JSON_TYPE, type Middleware, type RequestContext } from './requestContext.ts';
import type { ApiBody } from './schemas.ts';

export interface AnswerOptions {
  logger: Logger;
  /** Called after an error that must end the process: a broken invariant, or a write with an unknown outcome. */
  onFatal(error: unknown): void;
}

/** Answers an error from a later middleware with the error envelope. Only the message of a ServiceError is shown to the caller. */
export function answerErrors(options: AnswerOptions): Middleware {
  return async (ctx, next) => {
    try {
      await next();
    } catch (error) {
      answerFailure(ctx, tellable(ctx, error, options));
    }
  };
}

/** The error that is shown to the caller. The log gets the details, and `onFatal` gets errors that must end the process. */
export function tellable(ctx: RequestContext, thrown: unknown, options: AnswerOptions): ServiceError {
  const error = asAnswer(thrown);
  report(ctx, error, options);
  return error instanceof ServiceError ? error : unexpected(error);
}

function answerFailure(ctx: RequestContext, { code, message, retryAfterSeconds }: ServiceError): void {
  ctx.state.errorCode = code;
  ctx.status = ERROR_KINDS[code].status;
  if (retryAfterSeconds !== undefined) ctx.set('Retry-After', String(retryAfterSeconds));
  ctx.type = JSON_TYPE;
  ctx.body = encodeEnvelope(ctx.state.requestId, code, message);
}

function unexpected(cause: unknown): ServiceError {
  return new ServiceError(
    'internal_error',
    'The service failed to process the request. Give its administrator the request_id.',
    { cause },
  );
}

function concernsUs({ code }: ServiceError): boolean {
  return ERROR_KINDS[code].status >= 500 || code === 'virus_scan_failed';
}

/** Faults of the caller are reported only to the caller; faults for the administrator are logged with their causes. */
function report(ctx: RequestContext, error: unknown, { logger, onFatal }: AnswerOptions): void {
  if (!(error instanceof ServiceError)) {
    logger.error({ ...requestIds(ctx), err: error }, 'unexpected error');
  } else if (concernsUs(error) && error.cause !== undefined) {
    logger.warn({ ...requestIds(ctx), err: error }, 'refused a request');
  }
  if (error instanceof BrokenInvariant || error instanceof UnknownOutcome) onFatal(error);
}

/** The `error` member of the envelope, and of a failed job. */
export function errorBody(code: ErrorCode, message: string): ApiBody<'Error'> {
  return { type: typeOf(code), code, message, doc_url: `/v1/errors/${code}` };
}

/** The JSON text of an error answer. */
export function encodeEnvelope(requestId: string, code: ErrorCode, message: string): string {
  const envelope: ApiBody<'ErrorEnvelope'> = { request_id: requestId, error: errorBody(code, message) };
  return JSON.stringify(envelope);
}
