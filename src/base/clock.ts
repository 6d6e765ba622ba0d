/** Milliseconds since the Unix epoch, UTC. Passed in wherever time matters, so that tests can control it. */
export type Clock = () => number;

export const systemClock: Clock = () => Date.now();

/** RFC 3339, UTC, milliseconds: `2026-01-02T03:04:05.678Z`. */
export function toRfc3339(epochMs: number): string {
  return new Date(epochMs).toISOString();
}

/** The first moment of a day such as `2026-01-02`, in UTC. Undefined for what is none: JavaScript reads 31 February as 3 March. */
export function parseDay(text: string): number | undefined {
  const at = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(text) : Number.NaN;
  return !Number.isNaN(at) && toRfc3339(at).startsWith(text) ? at : undefined;
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
