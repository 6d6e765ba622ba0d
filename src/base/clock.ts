/** Milliseconds since the Unix epoch, UTC. Passed as a parameter wherever time matters, so that tests can control it. */
export type Clock = () => number;

export const systemClock: Clock = () => Date.now();

const DAY_MS = 86_400_000;
/** The last moment that a Date can be, ECMA-262 21.4.1.1. The rest of its day cannot. */
const LAST_MS = 8.64e15;
/** The day of the last formatted time. */
let day = { number: Number.NaN, date: '' };

/**
 * RFC 3339, UTC, milliseconds: `2026-01-02T03:04:05.678Z`. A list contains hundreds of times, and Date takes half a microsecond for each.
 * Throws a RangeError for what is not a time.
 */
export function toRfc3339(epochMs: number): string {
  const at = Math.trunc(epochMs);
  if (!(Math.abs(at) <= LAST_MS)) throw new RangeError(`${epochMs} is not a time`);
  const number = Math.floor(at / DAY_MS);
  if (number !== day.number) day = { number, date: new Date(at).toISOString().replace(/T.*/, '') };
  const ms = at - number * DAY_MS;
  const seconds = Math.floor(ms / 1000);
  const [hour, minute, second] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  return `${day.date}T${twoDigits(hour)}:${twoDigits(minute)}:${twoDigits(second)}.${threeDigits(ms % 1000)}Z`;
}

function twoDigits(value: number): string {
  return value < 10 ? `0${value}` : `${value}`;
}

function threeDigits(value: number): string {
  return value < 100 ? `0${twoDigits(value)}` : `${value}`;
}

/** The first moment of a day such as `2026-01-02`, in UTC. Undefined for an invalid day: JavaScript reads 31 February as 3 March. */
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
