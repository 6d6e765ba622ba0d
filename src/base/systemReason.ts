import { getSystemErrorMap } from 'node:util';

/** What the system said, in its own words: "permission denied". For messages to administrators. */
export function systemReason(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  const [, text] = ('errno' in cause && getSystemErrorMap().get(cause.errno as number)) || [];
  return text ?? cause.message;
}
