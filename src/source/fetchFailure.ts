import type { IncomingMessage } from 'node:http';
import { ServiceError } from '../base/errors.ts';
import { NoAnswer, type NoAnswerReason } from '../web/noAnswer.ts';

/** Longest wait that a source can ask for; seconds. */
const RETRY_AFTER_SECONDS_MAX = 3600;

/** The temporary 4xx statuses. Every 5xx is temporary. */
const PASSING_STATUSES = [408, 425, 429];

/** The document cannot be fetched, and another attempt cannot succeed. */
export function unfetchable(problem: string): ServiceError {
  return new ServiceError('source_unreachable', `source_url ${problem}.`, { parameter: 'source_url' });
}

/** The document cannot be fetched at the moment. The client can try again after the given seconds. */
export function unfetchableNow(
  problem: string,
  { cause, retryAfterSeconds = 1 }: { cause?: unknown; retryAfterSeconds?: number } = {},
): ServiceError {
  return new ServiceError('source_unreachable', `source_url ${problem}.`, {
    parameter: 'source_url',
    retryAfterSeconds,
    cause,
  });
}

/** The error for an answer that is not the document. */
export function badAnswer({ statusCode = 0, headers }: IncomingMessage): ServiceError {
  const problem = `answered with status ${statusCode}`;
  if (statusCode < 500 && !PASSING_STATUSES.includes(statusCode)) return unfetchable(problem);
  const seconds = /^\d{1,9}$/.test(headers['retry-after'] ?? '') ? Number(headers['retry-after']) : 1;
  return unfetchableNow(problem, { retryAfterSeconds: Math.min(seconds, RETRY_AFTER_SECONDS_MAX) });
}

const PROBLEMS: Readonly<Partial<Record<NoAnswerReason, string>>> = {
  name_not_found: 'has a host name that cannot be resolved',
  tls_failed: 'has a server whose certificate is not trusted, or whose TLS version is not supported',
  invalid_answer: 'has a server that does not answer in valid HTTP',
};

/** The error for a missing answer, which is usually temporary. The client gets the kind of failure; the log has the reason. */
export function unanswered(error: NoAnswer): ServiceError {
  if (error.reason === 'not_allowed') return notAllowed(error);
  if (error.reason === 'invalid_redirect') return unfetchable(error.message);
  const problem = PROBLEMS[error.reason] ?? 'cannot be reached, or closed the connection';
  return unfetchableNow(problem, { cause: error });
}

export function notAllowed(cause: unknown): ServiceError {
  return new ServiceError(
    'source_not_allowed',
    'source_url, or its redirect, is not a target that this service can fetch from. Upload the file, or ask the administrator to allow the target.',
    { parameter: 'source_url', cause },
  );
}

/** The short name of a failure: our reason, or the code of Node.js. Messages can quote URLs, so the log has only this name. */
export function shortNameOf(error: unknown): string {
  if (error instanceof NoAnswer) return error.reason;
  if (!(error instanceof Error)) return 'unknown';
  return 'code' in error && typeof error.code === 'string' ? error.code : error.name;
}
