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
      const { code, message, retryAfterSeconds } = tellable(ctx, error, options);
      ctx.state.errorCode = code;
      ctx.status = ERROR_KINDS[code].status;
      if (retryAfterSeconds !== undefined) ctx.set('Retry-After', String(retryAfterSeconds));
      ctx.type = JSON_TYPE;
      ctx.body = encodeEnvelope(ctx.state.requestId, code, message);
    }
  };
}

/**
 * The error that is shown to the caller. Faults of the caller are reported only to the caller; faults for the administrator are logged with
 * their causes, and `onFatal` gets errors that must end the process.
 */
export function tellable(
  ctx: RequestContext,
  thrown: unknown,
  { logger, onFatal }: AnswerOptions,
): ServiceError {
  const err = asAnswer(thrown);
  if (err instanceof ServiceError) {
    const isOurs = ERROR_KINDS[err.code].status >= 500 || err.code === 'virus_scan_failed';
    if (isOurs && err.cause !== undefined) logger.warn({ ...requestIds(ctx), err }, 'refused a request');
    return err;
  }
  logger.error({ ...requestIds(ctx), err }, 'unexpected error');
  if (err instanceof BrokenInvariant || err instanceof UnknownOutcome) onFatal(err);
  const message = 'The service failed to process the request. Give its administrator the request_id.';
  return new ServiceError('internal_error', message, { cause: err });
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
