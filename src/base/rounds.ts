/** Work that is repeated. */
export interface Rounds {
  /** Resolves at the end of a round that began after this call. Never rejects. */
  now(): Promise<void>;
  /** From now on, rounds begin only on request. Waits for the one in progress. Never rejects. */
  close(): Promise<void>;
}

/**
 * Works in rounds, one after another: at an interval, and on request. The signal aborts when the rounds are closed. A failed round is
 * reported to `onError`, and the next one begins all the same.
 */
export function startRounds(
  work: (signal: AbortSignal) => Promise<unknown>,
  intervalMs: number,
  onError: (error: unknown) => void,
): Rounds {
  const closing = new AbortController();
  let last: Promise<void> = Promise.resolve();
  /** The next round, before it begins. */
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
