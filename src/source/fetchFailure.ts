import type { IncomingMessage } from 'node:http';
import { ServiceError } from '../base/errors.ts';
import { NoAnswer, type NoAnswerReason } from '../net/noAnswer.ts';

/** What a source may ask us to wait is believed up to here. */
const RETRY_AFTER_SECONDS_MAX = 3600;

/** Of the 4xx those that ask to be asked again; all 5xx may pass. */
const PASSING_STATUSES = [408, 425, 429];

/** The source cannot be fetched from, and asking it again will not change that. */
export function unfetchable(problem: string): ServiceError {
  return new ServiceError('source_unreachable', `source_url ${problem}.`, { parameter: 'source_url' });
}

/** The source cannot be fetched from at the moment: it may be asked again after so many seconds. */
export function unfetchableNow(
  problem: string,
  { cause, retryAfterSeconds = 1 }: Passing = {},
): ServiceError {
  return new ServiceError('source_unreachable', `source_url ${problem}.`, {
    parameter: 'source_url',
    retryAfterSeconds,
    cause,
  });
}

interface Passing {
  cause?: unknown;
  retryAfterSeconds?: number;
}

/** An answer that is not the document. */
export function badAnswer({ statusCode = 0, headers }: IncomingMessage): ServiceError {
  const problem = `answered with status ${statusCode}`;
  if (statusCode < 500 && !PASSING_STATUSES.includes(statusCode)) return unfetchable(problem);
  const seconds = /^\d{1,9}$/.test(headers['retry-after'] ?? '') ? Number(headers['retry-after']) : 1;
  return unfetchableNow(problem, { retryAfterSeconds: Math.min(seconds, RETRY_AFTER_SECONDS_MAX) });
}

const PROBLEMS: Readonly<Partial<Record<NoAnswerReason, string>>> = {
  name_not_found: 'has a host whose name cannot be resolved',
  tls_failed: 'has a server whose certificate is not trusted, or that speaks no TLS we know',
  invalid_answer: 'has a server that does not answer as HTTP has it',
};

/** Why there is no answer, which mostly may pass. The caller is told its kind, the log its reason. */
export function unanswered(error: NoAnswer): ServiceError {
  if (error.reason === 'not_allowed') return notAllowed(error);
  if (error.reason === 'invalid_redirect') return unfetchable(error.message);
  const problem = PROBLEMS[error.reason] ?? 'cannot be connected to, or broke the connection off';
  return unfetchableNow(problem, { cause: error });
}

export function notAllowed(cause: unknown): ServiceError {
  return new ServiceError(
    'source_not_allowed',
    'source_url, or where it redirects to, is nothing this service may fetch from. Upload the file, or ask the administrator to allow it.',
    { parameter: 'source_url', cause },
  );
}

/** The short name of what went wrong: ours, or Node's code. Messages can quote URLs, so they are not logged. */
export function shortNameOf(error: unknown): string {
  if (error instanceof NoAnswer) return error.reason;
  if (!(error instanceof Error)) return 'unknown';
  return 'code' in error && typeof error.code === 'string' ? error.code : error.name;
}
