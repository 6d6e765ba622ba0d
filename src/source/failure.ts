import type { IncomingMessage } from 'node:http';
import { ServiceError } from '../base/errors.ts';
import { TargetRefused } from '../net/policy.ts';

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

/** What kept a connection from coming about. The caller is told its kind, the log its code. */
export function connectionFailure(error: unknown): ServiceError {
  if (error instanceof TargetRefused) return notAllowed(error);
  return unfetchableNow(problemOf(codeOf(error)), { cause: error });
}

export function notAllowed(cause: unknown): ServiceError {
  return new ServiceError(
    'source_not_allowed',
    'source_url, or where it redirects to, is nothing this service may fetch from. Upload the file, or ask the administrator to allow it.',
    { parameter: 'source_url', cause },
  );
}

/** The short name of what went wrong: Node's code where there is one. Messages can quote URLs, so they are not logged. */
export function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown';
  return 'code' in error && typeof error.code === 'string' ? error.code : error.name;
}

function problemOf(code: string): string {
  if (/^(ENOTFOUND|EAI_|ENODATA)/.test(code)) return 'has a host whose name cannot be resolved';
  if (/^(CERT_|ERR_TLS_CERT|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO)/.test(code))
    return 'has a server whose certificate is not trusted';
  return 'cannot be connected to, or broke the connection off';
}
