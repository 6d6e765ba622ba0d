const DAY_MS = 86_400_000;
/** The largest random addition to a wait, as a share of it, so that deliveries that failed together are not retried together. */
const JITTER = 0.1;

export interface Waits {
  /** The wait before each repeat, in milliseconds: `[5000]` makes two attempts. */
  retryDelaysMs: readonly number[];
}

/** How long to wait after that many attempts, all failed; undefined if none is left. */
export function nextDelayMs(
  { retryDelaysMs }: Waits,
  attempts: number,
  retryAfterMs = 0,
  random: () => number = Math.random,
): number | undefined {
  const delayMs = retryDelaysMs[attempts - 1];
  if (delayMs === undefined) return undefined;
  return Math.max(delayMs * (1 + JITTER * random()), retryAfterMs);
}

/** `Retry-After` in milliseconds from now, a day at most (RFC 9110, section 10.2.3); undefined for an invalid value. */
export function parseRetryAfterMs(header: string | undefined, now: number): number | undefined {
  if (header === undefined) return undefined;
  const waitMs = /^\d{1,9}$/.test(header) ? Number(header) * 1000 : parseHttpDate(header) - now;
  return Number.isNaN(waitMs) ? undefined : Math.min(Math.max(waitMs, 0), DAY_MS);
}

const HTTP_DATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;

function parseHttpDate(text: string): number {
  return HTTP_DATE.test(text) ? Date.parse(text) : Number.NaN;
}
