/** Milliseconds since the Unix epoch, UTC. Passed in wherever time matters, so that tests can control it. */
export type Clock = () => number;

export const systemClock: Clock = () => Date.now();

/** RFC 3339, UTC, milliseconds: `2026-01-02T03:04:05.678Z`. */
export function toRfc3339(epochMs: number): string {
  return new Date(epochMs).toISOString();
}

/** Starts now. Each call returns the milliseconds since the previous call. */
export function stopwatch(): () => number {
  let last = performance.now();
  return () => {
    const before = last;
    last = performance.now();
    return last - before;
  };
}
