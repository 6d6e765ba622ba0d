/** Durations, counts and times in words. */

/** `3d 4h`, `4h 5m`, `5m 6s` or `6s`. */
export function describeSeconds(seconds: number): string {
  const units: [string, number][] = [
    ['d', Math.floor(seconds / 86_400)],
    ['h', Math.floor(seconds / 3600) % 24],
    ['m', Math.floor(seconds / 60) % 60],
    ['s', Math.floor(seconds) % 60],
  ];
  const first = units.findIndex(([, count]) => count > 0);
  if (first < 0) return '0s';
  return units
    .slice(first, first + 2)
    .filter(([, count]) => count > 0)
    .map(([unit, count]) => `${count}${unit}`)
    .join(' ');
}

/** `1 leaf`, `12,345 leaves`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString('en')} ${count === 1 ? one : many}`;
}

/** From this many days on, hours are left out. */
const DAYS_FAR_MIN = 3;

/** The distance of a time (RFC 3339) from now (milliseconds since the epoch): `in 90 days`, `in 4h 5m`, `5m 6s ago`. */
export function fromNow(time: string, now: number): string {
  const seconds = (Date.parse(time) - now) / 1000;
  const days = Math.round(Math.abs(seconds) / 86_400);
  const far = days >= DAYS_FAR_MIN ? `${days} days` : describeSeconds(Math.abs(seconds));
  return seconds > 0 ? `in ${far}` : `${far} ago`;
}
