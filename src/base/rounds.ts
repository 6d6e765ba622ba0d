/** Work that is done again and again. */
export interface Rounds {
  /** Resolves at the end of a round that began after this call. Never rejects. */
  now(): Promise<void>;
  /** From now on, rounds begin only on request. Waits for the one under way. Never rejects. */
  close(): Promise<void>;
}

/**
 * Works in rounds: every so often, and whenever it is asked to, one round after the other. The signal aborts once the rounds are closed.
 * A round that fails is told to `onError`, and the next one begins all the same.
 */
export function startRounds(
  work: (signal: AbortSignal) => Promise<unknown>,
  intervalMs: number,
  onError: (error: unknown) => void,
): Rounds {
  const closing = new AbortController();
  let last: Promise<void> = Promise.resolve();
  /** Has not begun. */
  let next: Promise<void> | undefined;
  const begin = () => {
    next = undefined;
    return work(closing.signal);
  };
  const now = () => {
    next ??= last.then(begin).then(() => {}, onError);
    last = next;
    return next;
  };
  const timer = setInterval(now, intervalMs).unref();
  return {
    now,
    close: async () => {
      closing.abort();
      clearInterval(timer);
      await last;
    },
  };
}
