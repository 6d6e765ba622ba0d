import { codeOf } from '../base/systemReason.ts';
import { TargetRefused } from './policy.ts';

/** The reason why there is no answer. Safe to show to the client that named the target. */
export type NoAnswerReason = (typeof NO_ANSWER_REASONS)[number];

export const NO_ANSWER_REASONS = [
  'timeout',
  'not_allowed',
  'name_not_found',
  'connection_refused',
  'connection_reset',
  'tls_failed',
  'invalid_answer',
  'invalid_redirect',
  'closed',
  'unreachable',
] as const;

/** A request without a valid HTTP answer in time. The message is for logs and administrators. */
export class NoAnswer extends Error {
  readonly reason: NoAnswerReason;

  constructor(reason: NoAnswerReason, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'NoAnswer';
    this.reason = reason;
  }
}

/** Turns an error of a connection, as Node.js reports it, into a NoAnswer. */
export function toNoAnswer(error: unknown): NoAnswer {
  if (error instanceof NoAnswer) return error;
  const message = error instanceof Error && error.message !== '' ? error.message : codeOf(error);
  return new NoAnswer(reasonOf(error), message, { cause: error });
}

function reasonOf(error: unknown): NoAnswerReason {
  if (error instanceof TargetRefused) return 'not_allowed';
  const code = codeOf(error);
  if (/^(ENOTFOUND|ENODATA|EAI_)/.test(code)) return 'name_not_found';
  if (code === 'ECONNREFUSED') return 'connection_refused';
  if (code === 'ECONNRESET' || code === 'EPIPE') return 'connection_reset';
  if (code.startsWith('HPE_')) return 'invalid_answer';
  if (isTlsFailure(code)) return 'tls_failed';
  return 'unreachable';
}

/** Whether the code is about TLS: an OpenSSL code, or that of an untrusted certificate. */
function isTlsFailure(code: string): boolean {
  return /^(ERR_TLS|ERR_SSL|ERR_OSSL|EPROTO|CERT_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO|INVALID_|HOSTNAME_MISMATCH|PATH_LENGTH)/.test(
    code,
  );
}
