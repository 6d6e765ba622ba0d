/** Whether a value grows, by the slope of its samples and not by eye. */

/** Windows of equal length; of each, the least value counts: what a garbage collector left, and a connection that ended. */
const WINDOWS = 30;
/** Of a normal distribution: 95 % on both sides. */
const Z = 1.96;

/** An hour's growth: an estimate, and between which values it is with a confidence of 95 %. */
export interface Slope {
  perHour: number;
  least: number;
  most: number;
}

export type Verdict = 'steady' | 'GROWS' | 'too short to tell';

export interface Point {
  hours: number;
  value: number;
}

/** Theil–Sen over the windows' least values, with the confidence interval of Sen (1968). Few outliers do not move it. */
export function slopeOf(points: readonly Point[]): Slope {
  const floors = floorsOf(points);
  const slopes = floors
    .flatMap((a, n) => floors.slice(n + 1).map((b) => (b.value - a.value) / (b.hours - a.hours)))
    .sort((a, b) => a - b);
  const { length: n } = floors;
  const half = (Z * Math.sqrt((n * (n - 1) * (2 * n + 5)) / 18)) / 2;
  const at = (rank: number) => slopes[Math.min(slopes.length - 1, Math.max(0, Math.round(rank)))] ?? 0;
  const middle = (slopes.length - 1) / 2;
  return { perHour: at(middle), least: at(middle - half), most: at(middle + half) };
}

/** `limit`: the most that may be added in an hour. */
export function verdictOn({ least, most }: Slope, limit: number): Verdict {
  if (least > limit) return 'GROWS';
  return most > limit ? 'too short to tell' : 'steady';
}

function floorsOf(points: readonly Point[]): Point[] {
  const [from, to] = [points[0]?.hours ?? 0, points.at(-1)?.hours ?? 0];
  const windows = Map.groupBy(points, ({ hours }) =>
    Math.min(WINDOWS - 1, Math.floor((WINDOWS * (hours - from)) / (to - from))),
  );
  return [...windows.values()].flatMap((window) => window.toSorted((a, b) => a.value - b.value).slice(0, 1));
}
